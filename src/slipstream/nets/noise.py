"""Random numbers by the hundred thousand, for noise in actions.

JAX's generators are made for sequences that must withstand any test, and on a CPU they take longer than the networks of
a small agent (of drawing actions for an update: Philox 20, Threefry 5 nanoseconds a number). Here every number is its
own index, mixed twice with a seed by multiplications and shifts (constants of "lowbias32" by T. Ettinger), which XLA
turns into a single loop: below 1 nanosecond.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np


def uniform(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Numbers strictly between -1 and 1."""
    seeds = jax.random.bits(key, (2,), jnp.uint32)
    index = jax.lax.iota(jnp.uint32, math.prod(shape)).reshape(shape)
    mixed = _mixed(_mixed(index * np.uint32(0x9E3779B9) + seeds[0]) + seeds[1])
    # 24 bits, centred: 0 and the ends are never hit.
    return (mixed >> 8).astype(jnp.float32) * 2.0**-23 - (1.0 - 2.0**-24)


def normal(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Standard normal numbers."""
    return math.sqrt(2.0) * jax.lax.erf_inv(uniform(key, shape))


def _mixed(x: jax.Array) -> jax.Array:
    """Every bit of the result depends on every bit of a 32-bit number."""
    x = (x ^ (x >> 16)) * np.uint32(0x21F0AAAD)
    x = (x ^ (x >> 15)) * np.uint32(0x735A2D97)
    return x ^ (x >> 15)
