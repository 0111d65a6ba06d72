"""Distributions over actions: how a network's outputs become actions, and how likely those were.

A distribution is static data (it follows from the action space); its parameters are arrays `[parameters, lanes]`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from slipstream.spaces import Box, Space


@dataclass(frozen=True)
class Categorical:
    """Independent choices, one for each component of a discrete space."""

    choices: tuple[int, ...]

    @property
    def outputs(self) -> int:
        """What the network must put out."""
        return sum(self.choices)

    def _split(self, logits: jax.Array) -> list[jax.Array]:
        return jnp.split(logits, np.cumsum(self.choices)[:-1], axis=0)

    def masked(self, logits: jax.Array, mask: jax.Array | None) -> jax.Array:
        """Logits with choices that are not allowed out of reach."""
        return logits if mask is None else jnp.where(mask, logits, -1e9)

    def sample(self, logits: jax.Array, *, key: jax.Array) -> jax.Array:
        """`[components, lanes]`, int32."""
        parts = self._split(logits)
        uniform = jax.random.uniform(key, (len(parts), logits.shape[1]))
        return jnp.stack([_inverse_cdf(x, u) for x, u in zip(parts, uniform)])

    def mode(self, logits: jax.Array) -> jax.Array:
        return jnp.stack([jnp.argmax(x, axis=0) for x in self._split(logits)]).astype(jnp.int32)

    def log_prob(self, logits: jax.Array, action: jax.Array) -> jax.Array:
        """`[lanes]`"""
        total = jnp.zeros(logits.shape[1:])
        for x, a in zip(self._split(logits), action):
            # A one-hot product: XLA runs it many times faster than a gather, forwards and backwards.
            chosen = jax.nn.one_hot(a, x.shape[0], axis=0)
            total += (jax.nn.log_softmax(x, axis=0) * chosen).sum(axis=0)
        return total

    def entropy(self, logits: jax.Array) -> jax.Array:
        total = jnp.zeros(logits.shape[1:])
        for x in self._split(logits):
            log_p = jax.nn.log_softmax(x, axis=0)
            total -= (jnp.exp(log_p) * log_p).sum(axis=0)
        return total

    def to_env(self, action: jax.Array) -> jax.Array:
        return action


def _inverse_cdf(logits: jax.Array, uniform: jax.Array) -> jax.Array:
    """The choice whose share of the cumulated probability `uniform` falls into: one random number per lane.

    A choice of probability 0 has no share, so it is never taken (`uniform` stays strictly below the total).
    """
    cumulated = jnp.cumsum(jnp.exp(logits - logits.max(axis=0)), axis=0)
    total = cumulated[-1]
    point = jnp.minimum(uniform * total, total * (1.0 - 2.0**-22))
    return (cumulated <= point).sum(axis=0).astype(jnp.int32)


@dataclass(frozen=True)
class Gaussian:
    """Independent normal distributions. The parameters are the means, then the logarithms of the deviations.

    A policy works in units in which a bounded component spans [-1, 1]; `to_env` translates.
    """

    size: int
    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def outputs(self) -> int:
        return self.size

    def masked(self, parameters: jax.Array, mask: jax.Array | None) -> jax.Array:
        return parameters

    def sample(self, parameters: jax.Array, *, key: jax.Array) -> jax.Array:
        mean, log_std = jnp.split(parameters, 2)
        return mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape)

    def mode(self, parameters: jax.Array) -> jax.Array:
        return jnp.split(parameters, 2)[0]

    def log_prob(self, parameters: jax.Array, action: jax.Array) -> jax.Array:
        mean, log_std = jnp.split(parameters, 2)
        z = (action - mean) * jnp.exp(-log_std)
        return (-0.5 * z * z - log_std - 0.5 * math.log(2.0 * math.pi)).sum(axis=0)

    def entropy(self, parameters: jax.Array) -> jax.Array:
        log_std = jnp.split(parameters, 2)[1]
        return (log_std + 0.5 * math.log(2.0 * math.pi * math.e)).sum(axis=0)

    def to_env(self, action: jax.Array) -> jax.Array:
        return in_bounds(action, self.low, self.high)


def in_bounds(action: jax.Array, low: tuple[float, ...], high: tuple[float, ...]) -> jax.Array:
    """From the policy's units, in which a bounded component spans [-1, 1], to the space's; clipped to its bounds."""
    lows, highs = (np.asarray(b, np.float32)[:, None] for b in (low, high))
    bounded = np.isfinite(lows) & np.isfinite(highs)
    half = np.where(bounded, (np.where(bounded, highs, 1.0) - np.where(bounded, lows, -1.0)) / 2.0, 1.0)
    middle = np.where(bounded, (np.where(bounded, highs, 0.0) + np.where(bounded, lows, 0.0)) / 2.0, 0.0)
    return jnp.clip(action * half + middle, lows, highs)


Distribution = Categorical | Gaussian


def distribution_for(space: Space) -> Distribution:
    if isinstance(space, Box):
        return Gaussian(space.size, tuple(space.lows.tolist()), tuple(space.highs.tolist()))
    return Categorical(space.choices)
