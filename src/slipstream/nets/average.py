"""Sums and means over all that learns together: the processes of a run, and the shares within each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree


@dataclass(frozen=True)
class Average:
    """From sums over the lanes of one share to their mean over all shares that learn together (pytrees).

    A ratio of two such means is the ratio of the sums over all lanes, however they are shared out.
    """

    axes: tuple[str, ...] = ()
    """Of `shard_map` and `vmap`: those along which the shares lie. Empty: there is a single one."""
    count: int = 1
    """How many shares there are."""

    def __call__(self, sums: Any) -> Any:
        """The mean over the shares, as a single message: for small arrays, every one takes as long as any other."""
        if not self.axes:
            return sums
        flat, parts = ravel_pytree(sums)
        return parts(jax.lax.psum(flat, self.axes) / self.count)

    def total(self, sums: Any) -> Any:
        """The sum over the shares."""
        return jax.lax.psum(sums, self.axes) if self.axes else sums

    def first(self, value: jax.Array, valid: jax.Array) -> jax.Array:
        """The value of the first share where it is valid (of share 0, if it is nowhere)."""
        if not self.axes:
            return value
        number = jax.lax.axis_index(self.axes)
        chosen = jnp.argmax(self.total(jnp.zeros(self.count).at[number].set(valid.astype(jnp.float32))) > 0)
        return self.total(jnp.where(number == chosen, value, 0.0))


alone = Average()
"""A single share: sums as they are."""
