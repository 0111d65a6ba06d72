"""Experience laid out flat for gradient steps, and means over what counts in it."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from slipstream.nets.average import Average


class Samples(eqx.Module):
    """Flat over steps and lanes: what a gradient is computed from."""

    x: jax.Array
    """Normalised observations, `[features, samples]`."""
    action: jax.Array
    """`[components, samples]`"""
    mask: jax.Array | None
    """`[choices, samples]`"""
    log_prob: jax.Array
    advantage: jax.Array
    value: jax.Array
    target: jax.Array
    """What the value should be."""
    weight: jax.Array
    """1 for agents in the game, else 0."""
    begins: jax.Array | None = None
    """Whether a sample is the first of its episode; of networks with a memory alone."""
    start: Any = None
    """What was remembered at the first step of the rollout, `[size, lanes]`; likewise."""

    @property
    def pieces(self) -> int:
        """How many pieces can be shuffled: samples, or with a memory the lanes with all they went through."""
        return self.weight.size if self.start is None else jax.tree.leaves(self.start)[0].shape[-1]

    def take(self, index: jax.Array, block: int) -> Samples:
        """Some of the pieces: those of the numbered blocks of `block` neighbours."""

        def pick(a: jax.Array) -> jax.Array:
            blocks = a.reshape(*a.shape[:-1], -1, self.pieces // block, block)[..., index, :]
            return blocks.reshape(*a.shape[:-1], -1)

        return jax.tree.map(pick, self)

    def count(self, average: Average) -> jax.Array:
        """How many samples count, and 1 if none does: what sums are divided by."""
        return _at_least_some(average(self.weight.sum()))

    def counts(self, index: jax.Array, block: int, average: Average) -> jax.Array:
        """The same of each of several minibatches, `[minibatches]`, whose blocks are `[minibatches, blocks]`."""
        return _at_least_some(average(jax.vmap(lambda i: self.take(i, block).weight.sum())(index)))


def _at_least_some(count: jax.Array) -> jax.Array:
    return jnp.where(count > 0, count, 1.0)


def weighted_mean(x: jax.Array, weight: jax.Array, average: Average) -> jax.Array:
    """Over what counts, in all shares that learn together."""
    total, count = average(((x * weight).sum(), weight.sum()))
    return total / _at_least_some(count)


def standardized(x: jax.Array, weight: jax.Array, average: Average) -> jax.Array:
    """Zero mean and unit variance over what counts."""
    mean = weighted_mean(x, weight, average)
    variance = weighted_mean(jnp.square(x - mean), weight, average)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-8)
