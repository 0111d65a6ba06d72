"""Advantages, compared with a slow sum written down from their definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rollouts import FEATURES, LANES, PPO, STEPS, new_learner, new_rollout, prepared, with_fields

from slipstream.algos import actor_critic
from slipstream.algos.actor_critic import normalized, value_after
from slipstream.algos.returns import generalized_advantage
from slipstream.algos.settings import PPOConfig

advantage = jax.jit(generalized_advantage)


def slow_advantage(reward, value, next_value, terminated, done, discount, trace):
    """For every step, the sum over all later surprises of its episode: O(steps^2), in double precision."""
    steps, lanes = reward.shape
    result = np.zeros((steps, lanes))
    for lane in range(lanes):
        for t in range(steps):
            for later in range(t, steps):
                following = 0.0 if terminated[later, lane] else next_value[later, lane]
                surprise = reward[later, lane] + discount * following - value[later, lane]
                result[t, lane] += (discount * trace) ** (later - t) * surprise
                if done[later, lane]:
                    break
    return result


def case(seed: int, end: float):
    rng = np.random.default_rng(seed)
    reward, value, next_value = rng.normal(size=(3, 7, 4)).astype(np.float32)
    terminated, truncated = rng.random((2, 7, 4)) < end
    return reward, value, next_value, terminated, terminated | truncated


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 100_000),
    end=st.sampled_from([0.0, 0.2, 0.9]),
    discount=st.floats(0.0, 1.0, width=32),
    trace=st.floats(0.0, 1.0, width=32),
)
def test_advantages_are_the_discounted_sum_of_surprises_within_the_episode(seed, end, discount, trace):
    arrays = case(seed, end)
    np.testing.assert_allclose(
        advantage(*arrays, discount, trace), slow_advantage(*arrays, discount, trace), rtol=1e-4, atol=1e-4
    )


def test_a_termination_is_worth_its_reward_alone():
    reward, value, next_value, *_ = case(0, 0.0)
    every = np.ones_like(reward, bool)
    np.testing.assert_allclose(advantage(reward, value, next_value, every, every, 0.9, 0.9), reward - value, rtol=1e-6)


def test_a_truncation_is_worth_what_would_have_followed():
    reward, value, next_value, *_ = case(1, 0.0)
    never, every = np.zeros_like(reward, bool), np.ones_like(reward, bool)
    got = advantage(reward, value, next_value, never, every, 0.9, 0.9)
    np.testing.assert_allclose(got, reward + np.float32(0.9) * next_value - value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("how", ["terminated", "truncated"])
def test_no_credit_crosses_the_end_of_an_episode(how):
    reward, value, next_value, *_ = case(2, 0.0)
    done = np.zeros_like(reward, bool)
    done[3] = True
    terminated = done if how == "terminated" else np.zeros_like(done)
    before = np.asarray(advantage(reward, value, next_value, terminated, done, 0.9, 0.9))
    reward[4:], value[4:], next_value[4:] = 100.0, -50.0, 70.0
    after = np.asarray(advantage(reward, value, next_value, terminated, done, 0.9, 0.9))
    np.testing.assert_array_equal(before[:4], after[:4])
    assert not np.any(before[4:] == after[4:])


def test_the_last_reward_of_an_unfinished_episode_counts():
    reward, value, next_value, terminated, done = case(3, 0.0)
    more = reward.copy()
    more[-1] += 1.0
    difference = np.asarray(advantage(more, value, next_value, terminated, done, 0.9, 0.8)) - np.asarray(
        advantage(reward, value, next_value, terminated, done, 0.9, 0.8)
    )
    expected = 0.72 ** np.arange(6, -1, -1)
    np.testing.assert_allclose(difference, np.repeat(expected[:, None], 4, axis=1), rtol=1e-4)


# What follows a step.


def values_of(learner, observations) -> np.ndarray:
    return np.asarray(learner.network.value(normalized(learner.normalizer, observations)))


@pytest.mark.parametrize("chunk", [1, 3, 7, 4096])
def test_truncated_steps_are_valued_by_their_final_observation_and_no_others(monkeypatch, chunk):
    monkeypatch.setattr(actor_critic, "FINAL_CHUNK", chunk)
    learner = new_learner(PPO)
    rollout = new_rollout(learner, 1)
    rng = np.random.default_rng(5)
    terminated, truncated = rng.random((2, STEPS, LANES)) < 0.4
    cut = truncated & ~terminated
    assert cut.sum() > 7, "more than one chunk is wanted"
    # What is not truncated has no final observation: were it looked at, it would show.
    final = np.where(cut[:, None, :], np.asarray(rollout.final_observation), np.nan)
    rollout = with_fields(rollout, terminated=terminated, truncated=truncated, final_observation=final)
    following = rng.normal(size=(STEPS, LANES)).astype(np.float32)
    got = np.asarray(value_after(learner, rollout, jnp.asarray(following), None))
    np.testing.assert_array_equal(got[~cut], following[~cut])
    steps, lanes = np.nonzero(cut)
    expected = values_of(learner, jnp.asarray(final[steps, :, lanes].T))
    np.testing.assert_allclose(got[cut], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("every", [False, True])
def test_all_or_no_step_may_be_truncated(monkeypatch, every):
    monkeypatch.setattr(actor_critic, "FINAL_CHUNK", 16)
    learner = new_learner(PPO)
    rollout = new_rollout(learner, 2)
    flags = np.full((STEPS, LANES), every)
    rollout = with_fields(rollout, terminated=~flags & False, truncated=flags)
    following = jnp.zeros((STEPS, LANES))
    got = np.asarray(value_after(learner, rollout, following, None))
    final = jnp.moveaxis(rollout.final_observation, 0, 1).reshape(FEATURES, -1)
    expected = values_of(learner, final).reshape(STEPS, LANES) if every else following
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_the_last_reward_of_a_rollout_reaches_its_samples():
    config = PPOConfig(normalize_advantage=False, hidden=(8,))
    learner = new_learner(config)
    rollout = new_rollout(learner, 3)
    never = np.zeros((STEPS, LANES), bool)
    rollout = with_fields(rollout, terminated=never, truncated=never)
    more = with_fields(rollout, reward=rollout.reward.at[-1].add(1.0))
    before, after = (prepared(config, learner, r) for r in (rollout, more))
    for name in ("advantage", "target"):
        gained = np.asarray(getattr(after, name) - getattr(before, name)).reshape(STEPS, LANES)
        decay = (config.discount * config.trace) ** np.arange(STEPS - 1, -1, -1)
        np.testing.assert_allclose(gained, np.repeat(decay[:, None], LANES, axis=1), rtol=1e-3)


def test_rewards_are_scaled_before_learning():
    learner = new_learner(PPO)
    rollout = new_rollout(learner, 4)
    scaled = PPOConfig(reward_scale=0.5, normalize_advantage=False, hidden=(8,))
    plain = PPOConfig(normalize_advantage=False, hidden=(8,))
    halved = with_fields(rollout, reward=rollout.reward * 0.5)
    a, b = prepared(scaled, learner, rollout), prepared(plain, learner, halved)
    np.testing.assert_array_equal(a.target, b.target)
