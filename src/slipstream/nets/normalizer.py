"""Running mean and variance of observations."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp


class Normalizer(eqx.Module):
    """What has been seen of each feature so far, merged batch by batch (Chan et al. 1979)."""

    count: jax.Array
    mean: jax.Array
    """`[features]`"""
    variance: jax.Array
    """`[features]`"""

    @staticmethod
    def create(features: int) -> Normalizer:
        return Normalizer(jnp.zeros(()), jnp.zeros(features), jnp.ones(features))

    def __call__(self, x: jax.Array) -> jax.Array:
        """Normalise `[features, lanes]` and clip to ten standard deviations."""
        scaled = (x - self.mean[:, None]) * jax.lax.rsqrt(self.variance[:, None] + 1e-8)
        return jnp.clip(scaled, -10.0, 10.0)

    def merge(self, x: jax.Array, weight: jax.Array) -> Normalizer:
        """The statistics with a batch added.

        Args:
            x: `[batch, features, lanes]`.
            weight: `[batch, lanes]`, 1 for what counts and 0 for what does not.
        """
        n = weight.sum()
        share = weight[:, None, :] / jnp.maximum(n, 1.0)
        mean = (x * share).sum(axis=(0, 2))
        variance = (jnp.square(x - mean[None, :, None]) * share).sum(axis=(0, 2))
        total = jnp.maximum(self.count + n, 1.0)
        delta = mean - self.mean
        mixed = (self.variance * self.count + variance * n + delta**2 * self.count * n / total) / total
        seen = n > 0
        return Normalizer(
            self.count + n,
            jnp.where(seen, self.mean + delta * n / total, self.mean),
            jnp.where(seen, mixed, self.variance),
        )
