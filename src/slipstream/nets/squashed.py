"""A normal distribution bent into [-1, 1] by tanh: the policy of SAC (Haarnoja et al. 2018)."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

INITIAL_LOG_STD = -1.0
"""Of a network that puts out 0."""
LOG_STD_RANGE = (-5.0, 1.0)


def mode(outputs: jax.Array) -> jax.Array:
    """The action in the middle, `[components, lanes]`, from a network's outputs `[2 * components, lanes]`."""
    return jnp.tanh(jnp.split(outputs, 2)[0])


def sample(outputs: jax.Array, normal: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Actions `[components, lanes]` and the logarithms of their probability densities `[lanes]`.

    Args:
        outputs: means, then what the logarithms of the deviations are made of, `[2 * components, lanes]`.
        normal: standard normal numbers, `[components, lanes]`.
    """
    mean, raw = jnp.split(outputs, 2)
    log_std = jnp.clip(raw + INITIAL_LOG_STD, *LOG_STD_RANGE)
    straight = mean + jnp.exp(log_std) * normal
    log_density = -0.5 * jnp.square(normal) - log_std - 0.5 * math.log(2.0 * math.pi)
    # log(1 - tanh(x)**2), without cancellation where |x| is large.
    bent = 2.0 * (math.log(2.0) - straight - jax.nn.softplus(-2.0 * straight))
    return jnp.tanh(straight), (log_density - bent).sum(axis=0)
