"""Running mean and variance of observations."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from slipstream.nets.average import Average, alone

LIMIT = 10.0
"""Normalised features are cut off here."""


class Normalizer(eqx.Module):
    """What has been seen of each feature so far, merged batch by batch (Chan et al. 1979).

    A feature that nearly always has the same value (heights ahead while the ground is level, a contact that is rare)
    has hardly any variance; divided by it, the first values that differ would be enormous. So the scale of a feature
    is its deviation over the samples that differ from its usual value: for a feature that always varies that is the
    standard deviation, and one that has never varied is not scaled at all.
    """

    count: jax.Array
    mean: jax.Array
    """`[features]`"""
    variance: jax.Array
    """`[features]`"""
    usual: jax.Array
    """The first value seen of each feature, `[features]`."""
    varied: jax.Array
    """How many samples had another value, `[features]`."""

    @staticmethod
    def create(features: int) -> Normalizer:
        zeros = jnp.zeros(features)
        return Normalizer(jnp.zeros(()), zeros, jnp.ones(features), zeros, zeros)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Normalise `[features, lanes]` and clip."""
        share = self.varied / jnp.maximum(self.count, 1.0)
        precision = jnp.where(share > 0, jax.lax.rsqrt(self.variance / jnp.maximum(share, 1e-30) + 1e-8), 1.0)
        scaled = (x - self.mean[:, None]) * precision[:, None]
        return jnp.clip(scaled, -LIMIT, LIMIT)

    def merge(self, x: jax.Array, weight: jax.Array, average: Average = alone) -> Normalizer:
        """The statistics with a batch added (as they are, if it is not finite).

        Args:
            x: `[batch, features, lanes]`.
            weight: `[batch, lanes]`, 1 for what counts and 0 for what does not.
            average: over the shares that learn together.
        """
        weight = weight[:, None, :]
        # What counts first in the first batch becomes the usual value. Where all of it counts, XLA would search through
        # that constant while it compiles, which takes it seconds.
        counts = jax.lax.optimization_barrier(weight.reshape(-1) > 0)
        first = jnp.argmax(counts)
        first_seen = average.first(x[first // x.shape[-1], :, first % x.shape[-1]], counts.any())
        usual = jnp.where(self.count > 0, self.usual, first_seen)
        n, total, varied = average.total(
            (
                weight.sum(),
                (x * weight).sum(axis=(0, 2)),
                ((x != usual[:, None]) * weight).sum(axis=(0, 2)),
            )
        )
        mean = total / jnp.maximum(n, 1e-9)
        squares = average.total((jnp.square(x - mean[:, None]) * weight).sum(axis=(0, 2)))
        variance = squares / jnp.maximum(n, 1e-9)
        both = jnp.maximum(self.count + n, 1e-9)
        delta = mean - self.mean
        mixed = (self.variance * self.count + variance * n + delta**2 * self.count * n / both) / both
        # Statistics that would not be finite are not taken: they would stay so for ever.
        seen = (n > 0) & jnp.isfinite(total).all() & jnp.isfinite(squares).all()
        return Normalizer(
            jnp.where(seen, self.count + n, self.count),
            jnp.where(seen, self.mean + delta * n / both, self.mean),
            jnp.where(seen, mixed, self.variance),
            jnp.where(seen, usual, self.usual),
            jnp.where(seen, self.varied + varied, self.varied),
        )


def normalized(normalizer: Normalizer | None, observation: jax.Array) -> jax.Array:
    return observation if normalizer is None else normalizer(observation)
