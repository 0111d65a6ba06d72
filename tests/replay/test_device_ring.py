"""A ring remembers the newest rows, and draws from nothing else."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.algos.algo import Replay
from slipstream.replay.layout import RowLayout
from slipstream.replay.ring import BLOCK, Ring, add, draw, surprised
from slipstream.spaces import Box

LAYOUT = RowLayout.of(Box(1), Box(1, -1.0, 1.0), masked=False)


def replay(capacity: int, priority: float = 0.0, batch: int = 64) -> Replay:
    return Replay(capacity, batch, 1.0, 0, 1, 0.99, priority, 0.5)


def numbered(numbers: np.ndarray) -> jax.Array:
    """Rows that are told apart by their observation."""
    return jnp.asarray(numbers, jnp.float32)[:, None] * jnp.ones(LAYOUT.width)


_add = jax.jit(add)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), max_size=12))
def test_the_newest_usable_rows_are_remembered(batches):
    ring, kept, count = Ring.empty(LAYOUT, replay(13)), [], 0
    for usable in batches:
        numbers = np.arange(count, count + 5)
        count += 5
        kept += numbers[np.asarray(usable)].tolist()
        ring = _add(ring, numbered(numbers), jnp.asarray(usable))
    assert int(ring.size) == min(len(kept), 13)
    assert sorted(ring.rows[: int(ring.size), 0].tolist()) == sorted(kept[-13:])


def test_draws_come_from_all_that_is_remembered_and_nothing_else():
    ring = _add(Ring.empty(LAYOUT, replay(1000)), numbered(np.arange(1, 11)), jnp.ones(10, bool))
    batch, index = draw(ring, LAYOUT, replay(1000), 4, key=jax.random.key(0))
    assert batch.observation.shape == (4, 1, 64) and index.shape == (4, 64)
    assert set(np.unique(batch.observation)) == set(range(1, 11))
    assert batch.weight is None


def test_rows_are_drawn_by_their_priority_and_weighted_for_it():
    rule = replay(2 * BLOCK + 3, priority=1.0, batch=4096)
    count = 2 * BLOCK
    ring = _add(Ring.empty(LAYOUT, rule), numbered(np.arange(count)), jnp.ones(count, bool))
    surprise = np.where(np.arange(count) % 4 == 0, 3.0, 0.5)
    ring = surprised(ring, rule, jnp.arange(count), jnp.asarray(surprise))
    batch, index = draw(ring, LAYOUT, rule, 16, key=jax.random.key(1))
    often = np.bincount(np.asarray(index).ravel(), minlength=count)
    assert often[count:].sum() == 0
    share = often[::4].sum() / often.sum()
    assert share == pytest.approx(3.001 / (3.001 + 3 * 0.501), abs=0.01)
    assert np.array_equal(batch.observation[:, 0], index)
    assert batch.weight is not None
    ratio = np.unique(np.asarray(batch.weight[0])).round(5)
    assert ratio.tolist() == pytest.approx([(0.501 / 3.001) ** 0.5, 1.0], abs=1e-4)


def test_new_rows_are_as_likely_as_the_most_surprising_one():
    rule = replay(BLOCK, priority=1.0)
    ring = _add(Ring.empty(LAYOUT, rule), numbered(np.arange(4)), jnp.ones(4, bool))
    ring = surprised(ring, rule, jnp.arange(4), jnp.asarray([1.0, 7.0, 2.0, jnp.nan]))
    ring = _add(ring, numbered(np.arange(4, 6)), jnp.ones(2, bool))
    assert ring.priority is not None
    assert ring.priority[4:6].tolist() == pytest.approx([7.001] * 2)
