"""Rows hold what happened: checked against a plain loop over the steps of each agent."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from slipstream.algos.algo import Rollout
from slipstream.algos.off_policy import Kept
from slipstream.replay.layout import RowLayout
from slipstream.replay.rows import pack, unpack
from slipstream.spaces import Box, Discrete

STEPS, LANES, DISCOUNT = 7, 40, 0.9


def rollout(seed: int, *, masked: bool = False, leaving: bool = False) -> Rollout:
    rng = np.random.default_rng(seed)

    def numbers(*shape: int) -> jax.Array:
        return jnp.asarray(rng.normal(size=shape), jnp.float32)

    end = rng.random((STEPS, LANES))
    return Rollout(
        observation=numbers(STEPS + 1, 3, LANES),
        kept=Kept(jnp.asarray(rng.integers(0, 4, (STEPS, 1, LANES)))),
        reward=numbers(STEPS, LANES),
        terminated=jnp.asarray(end < 0.15),
        truncated=jnp.asarray((end > 0.1) & (end < 0.3)),
        final_observation=numbers(STEPS, 3, LANES),
        begins=jnp.zeros((STEPS + 1, LANES), bool),
        active=jnp.asarray(rng.random((STEPS + 1, LANES)) < 0.7) if leaving else None,
        action_mask=jnp.asarray(rng.random((STEPS + 1, 4, LANES)) < 0.6) if masked else None,
    )


def expected(r: Rollout, t: int, lane: int, n_step: int) -> tuple[float, float, np.ndarray, int]:
    """Reward, discount, next observation and the step that was looked ahead to, of one transition."""
    total, factor = 0.0, 1.0
    for k in range(t, min(t + n_step, STEPS)):
        total += factor * float(r.reward[k, lane])
        factor *= DISCOUNT
        if r.terminated[k, lane]:
            return total, 0.0, np.zeros(3), k
        if r.truncated[k, lane]:
            return total, factor, np.asarray(r.final_observation[k, :, lane]), k
    return total, factor, np.asarray(r.observation[k + 1, :, lane]), k


@pytest.mark.parametrize("n_step", [1, 3, 20])
def test_rows_look_as_many_steps_ahead_as_the_episode_and_the_rollout_allow(n_step):
    r = rollout(n_step)
    layout = RowLayout.of(Box(3), Discrete(4), masked=False)
    rows, usable = jax.jit(pack, static_argnums=(0, 2, 3))(layout, r, n_step, DISCOUNT)
    assert usable.all()
    batch = unpack(layout, rows.reshape(STEPS, LANES, -1))
    assert batch.action.dtype == jnp.int32 and batch.next_mask is None
    assert (batch.action == r.kept.action).all() and (batch.observation == r.observation[:-1]).all()
    for t in range(STEPS):
        for lane in range(LANES):
            reward, discount, after, _ = expected(r, t, lane, n_step)
            assert batch.reward[t, lane] == pytest.approx(reward, abs=1e-5)
            assert batch.discount[t, lane] == pytest.approx(discount, abs=1e-6)
            assert np.array_equal(batch.next_observation[t, :, lane], after)


def test_where_choices_are_masked_a_truncated_step_is_not_learned_from():
    r = rollout(5, masked=True)
    layout = RowLayout.of(Box(3), Discrete(4), masked=True)
    rows, usable = pack(layout, r, 3, DISCOUNT)
    batch = unpack(layout, rows.reshape(STEPS, LANES, -1))
    assert batch.next_mask is not None and r.action_mask is not None
    for t, lane in np.ndindex(STEPS, LANES):
        _, discount, _, last = expected(r, t, lane, 3)
        cut = bool(r.truncated[last, lane]) and discount > 0
        assert bool(usable.reshape(STEPS, LANES)[t, lane]) is not cut
        if discount > 0 and not cut:
            assert (batch.next_mask[t, :, lane] == r.action_mask[last + 1, :, lane]).all()


def test_agents_out_of_the_game_and_numbers_that_are_not_finite_leave_no_row():
    r = rollout(6, leaving=True)
    r = eqx.tree_at(lambda r: r.observation, r, r.observation.at[2, 0, 5].set(jnp.nan))
    assert r.active is not None
    layout = RowLayout.of(Box(3), Discrete(4), masked=False)
    _, usable = pack(layout, r, 1, DISCOUNT)
    usable = usable.reshape(STEPS, LANES)
    assert not (usable & ~r.active[:-1]).any()
    assert not usable[2, 5]
    ended = bool(r.terminated[1, 5] | r.truncated[1, 5])
    assert bool(usable[1, 5]) is (ended and bool(r.active[1, 5]))  # it would lead to the bad observation
    assert usable[:, :5].sum() == r.active[:-1, :5].sum()


def test_pixels_are_kept_apart_as_bytes():
    layout = RowLayout({"action": slice(0, 1), "reward": slice(1, 2), "discount": slice(2, 3)}, 3, pixels=8)
    layout = RowLayout(
        {"observation": slice(0, 0), "next_observation": slice(0, 0), **layout.slices, "next_mask": slice(3, 3)}, 3, 8
    )
    pixels = np.arange(2 * 5 * 8, dtype=np.uint8).reshape(2, 5, 8)
    batch = unpack(layout, jnp.zeros((2, 5, 3)), jnp.asarray(pixels))
    assert batch.observation.dtype == jnp.uint8
    assert np.array_equal(batch.observation, np.moveaxis(pixels[..., :4], -1, -2))
    assert np.array_equal(batch.next_observation, np.moveaxis(pixels[..., 4:], -1, -2))
