"""A replay on the device: the newest transitions, from which batches are drawn.

All functions are pure. A ring that is given to `add` or `surprised` is to be donated, so that it is changed in place.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from slipstream.algos.algo import Replay, Transitions
from slipstream.replay.layout import RowLayout
from slipstream.replay.rows import unpack

BLOCK = 256
"""Priorities are added up in blocks of so many, so that a draw looks through few of them."""

LEAST = 1e-3
"""Added to every surprise: what was no surprise at all may still be drawn."""


class Ring(eqx.Module):
    rows: jax.Array
    """`[capacity, width]`"""
    priority: jax.Array | None
    """How likely each row is drawn, up to a factor, `[capacity]`; None: all alike."""
    cursor: jax.Array
    """Where the next row goes."""
    size: jax.Array
    """How many rows there are."""

    @staticmethod
    def empty(layout: RowLayout, replay: Replay) -> Ring:
        capacity = replay.capacity if replay.priority == 0 else -(-replay.capacity // BLOCK) * BLOCK
        return Ring(
            rows=jnp.zeros((capacity, layout.width), jnp.float32),
            priority=None if replay.priority == 0 else jnp.zeros(capacity, jnp.float32),
            cursor=jnp.zeros((), jnp.int32),
            size=jnp.zeros((), jnp.int32),
        )


def add(ring: Ring, rows: jax.Array, usable: jax.Array) -> Ring:
    """The ring with new rows in place of the oldest ones.

    Args:
        ring: room for at least as many.
        rows: `[new, width]`.
        usable: which of them are kept, `[new]`.
    """
    capacity = ring.rows.shape[0]
    count = usable.sum(dtype=jnp.int32)
    place = (ring.cursor + jnp.cumsum(usable, dtype=jnp.int32) - 1) % capacity
    place = jnp.where(usable, place, capacity + jnp.arange(len(rows), dtype=jnp.int32))  # out of bounds: dropped

    def put(a: jax.Array, new: jax.Array) -> jax.Array:
        return a.at[place].set(new, mode="drop", unique_indices=True)

    priority = ring.priority
    if priority is not None:  # new ones are drawn soon
        most = priority.max()
        priority = put(priority, jnp.full(len(rows), jnp.where(most > 0, most, 1.0)))
    return Ring(
        rows=put(ring.rows, rows),
        priority=priority,
        cursor=(ring.cursor + count) % capacity,
        size=jnp.minimum(ring.size + count, capacity),
    )


def draw(
    ring: Ring, layout: RowLayout, replay: Replay, updates: int, *, key: jax.Array
) -> tuple[Transitions, jax.Array]:
    """A batch for each of some gradient steps, and where its rows are, `[updates, batch]`."""
    shape = (updates, replay.batch)
    if ring.priority is None:
        index = jax.random.randint(key, shape, 0, ring.size)
        return unpack(layout, _fetched(ring, index)), index
    index, probability = _by_priority(ring.priority, jax.random.uniform(key, shape))
    weight = (ring.size * probability) ** -replay.priority_correction
    weight /= weight.max(axis=1, keepdims=True)
    return unpack(layout, _fetched(ring, index), weight=weight), index


def _fetched(ring: Ring, index: jax.Array) -> jax.Array:
    """Rows, copied as they are: without the barrier XLA would fetch them anew for every field, number by number."""
    return jax.lax.optimization_barrier(ring.rows[index])


def _by_priority(priority: jax.Array, uniform: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Rows drawn by their priority, and how likely each was."""
    blocks = priority.reshape(-1, BLOCK)
    ends = jnp.cumsum(blocks.sum(axis=1))
    point = uniform * ends[-1]
    block = jnp.minimum(jnp.searchsorted(ends, point, side="right"), len(ends) - 1)
    within = jnp.cumsum(blocks[block], axis=-1)
    left = point - jnp.where(block > 0, ends[block - 1], 0.0)
    # Rounding may lead past the last row of a block; rows without a priority are never taken.
    left = jnp.clip(left, 0.0, within[..., -1] * (1.0 - 2.0**-22))
    index = block * BLOCK + (within <= left[..., None]).sum(axis=-1)
    return index, priority[index] / ends[-1]


def surprised(ring: Ring, replay: Replay, index: jax.Array, surprise: jax.Array) -> Ring:
    """The ring with priorities by how wrong the values of its rows were."""
    if ring.priority is None:
        return ring
    new = (jnp.abs(surprise) + LEAST) ** replay.priority
    priority = ring.priority.at[index.reshape(-1)].set(jnp.where(jnp.isfinite(new), new, 1.0).reshape(-1))
    return eqx.tree_at(lambda r: r.priority, ring, priority)
