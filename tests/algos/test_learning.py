"""What PPO and A2C share: who counts, what is not taken, and that learning helps."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rollouts import (
    A2C,
    LANES,
    PPO,
    STEPS,
    learn,
    leaves,
    new_learner,
    new_rollout,
    prepared,
    same_bits,
    with_fields,
)

from slipstream.algos.settings import A2CConfig, PPOConfig

ALGOS = {"ppo": PPO, "a2c": A2C}


@pytest.fixture(params=list(ALGOS))
def config(request):
    return ALGOS[request.param]


@pytest.fixture
def learner(config):
    return new_learner(config)


# Agents out of the game.


def partly_active():
    """Lane 7 never plays, lane 6 leaves after step 1, lane 5 comes in with step 3."""
    active = np.ones((STEPS + 1, LANES), bool)
    active[:, 7] = False
    active[2:, 6] = False
    active[:3, 5] = False
    terminated = np.zeros((STEPS, LANES), bool)
    terminated[1, 6] = terminated[2, 5] = True
    return active, terminated


def two_rollouts(learner, garbage: float):
    """The same experience of those who play, with other things where nobody does."""
    active, terminated = partly_active()
    rollout = with_fields(new_rollout(learner, 1, active=active), terminated=terminated)
    now, step = active[:, None, :], active[:-1]
    rng = np.random.default_rng(7)

    def spoil(values, where):
        values = np.array(values)
        noise = rng.normal(size=values.shape) * garbage
        if values.dtype == np.int32:
            noise = rng.integers(0, 3, values.shape)
        return np.where(where, values, noise).astype(values.dtype)

    spoiled = with_fields(
        rollout,
        observation=spoil(rollout.observation, now),
        action=spoil(rollout.kept.action, step[:, None, :]),
        log_prob=spoil(rollout.kept.log_prob, step),
        reward=spoil(rollout.reward, step),
        final_observation=spoil(rollout.final_observation, step[:, None, :]),
        truncated=np.where(step, rollout.truncated, ~np.array(rollout.truncated)),
    )
    assert not np.array_equal(rollout.observation, spoiled.observation, equal_nan=True)
    return rollout, spoiled


@pytest.mark.parametrize("garbage", [1.0, 1e6, np.inf, np.nan])
def test_what_happens_to_agents_out_of_the_game_changes_no_bit(config, learner, garbage):
    rollout, spoiled = two_rollouts(learner, garbage)
    (a, metrics_a), (b, metrics_b) = (learn(config, learner, r) for r in (rollout, spoiled))
    assert same_bits(a, b) and same_bits(metrics_a, metrics_b)
    assert not same_bits(a.network, learner.network)


def test_statistics_of_observations_are_of_those_who_play(config, learner):
    rollout, _ = two_rollouts(learner, 1.0)
    after, _ = learn(config, learner, rollout)
    active, _ = partly_active()
    seen = np.moveaxis(np.asarray(rollout.observation[:-1]), 1, 0)[:, active[:-1]]
    assert float(after.normalizer.count) == seen.shape[1]
    np.testing.assert_allclose(after.normalizer.mean, seen.mean(axis=1), atol=1e-5)
    np.testing.assert_allclose(after.normalizer.variance, seen.var(axis=1), rtol=1e-4)


def test_advantages_are_standardised_over_those_who_play(config, learner):
    rollout, _ = two_rollouts(learner, 1.0)
    samples = prepared(config, learner, rollout)
    plays = np.asarray(samples.weight) > 0
    assert plays.sum() == partly_active()[0][:-1].sum()
    advantage = np.asarray(samples.advantage)[plays]
    assert advantage.mean() == pytest.approx(0.0, abs=1e-5)
    assert advantage.std() == pytest.approx(1.0, rel=1e-3)


def test_a_rollout_in_which_nobody_plays_teaches_nothing(config, learner):
    rollout = with_fields(new_rollout(learner, 1, active=np.zeros((STEPS + 1, LANES), bool)))
    after, metrics = learn(config, learner, rollout)
    assert same_bits(after.network, learner.network) and same_bits(after.normalizer, learner.normalizer)
    assert all(np.isfinite(float(m)) for m in metrics.values())


# What is not taken.


def test_a_gradient_that_is_not_finite_is_not_taken(config, learner):
    rollout = new_rollout(learner, 1)
    broken = with_fields(rollout, reward=rollout.reward.at[2, 3].set(jnp.nan))
    after, _ = learn(config, learner, broken)
    assert same_bits(after.network, learner.network) and same_bits(after.optimizer, learner.optimizer)
    onwards, _ = learn(config, after, rollout)
    assert not same_bits(onwards.network, learner.network)
    assert all(np.all(np.isfinite(leaf)) for leaf in leaves(onwards))


def test_an_observation_that_is_not_finite_does_not_spoil_the_statistics(config, learner):
    rollout = new_rollout(learner, 1)
    broken = with_fields(rollout, observation=rollout.observation.at[2, 0, 3].set(jnp.inf))
    after, _ = learn(config, learner, broken)
    assert all(np.all(np.isfinite(leaf)) for leaf in leaves(after))


def test_gradients_are_clipped_to_their_norm(config):
    config = dataclasses.replace(config, max_grad_norm=0.01, normalize_advantage=False, value_cost=1e4)
    if isinstance(config, PPOConfig):
        config = dataclasses.replace(config, epochs=1, minibatches=1)
    learner = new_learner(config)
    after, _ = learn(config, learner, new_rollout(learner, 1))
    # The first moments of Adam are a tenth of the gradient, the squares of RMSProp a hundredth of its square.
    moments = next(v for k, v in after.optimizer.items() if k != "clip")
    if isinstance(config, A2CConfig):
        total = np.sqrt(sum(m.sum() for m in leaves(moments.nu)) / 0.01)
    else:
        total = np.sqrt(sum(np.square(m / 0.1).sum() for m in leaves(moments.mu)))
    assert total == pytest.approx(0.01, rel=1e-3)


# Determinism and normalisation.


def test_the_same_input_gives_the_same_bits(config, learner):
    rollout = new_rollout(learner, 1)
    assert same_bits(learn(config, learner, rollout), learn(config, learner, rollout))


def test_observations_are_left_alone_where_normalisation_is_off(config):
    config = dataclasses.replace(config, normalize_observation=False)
    learner = new_learner(config)
    rollout = new_rollout(learner, 1)
    assert learner.normalizer is None
    x = np.moveaxis(np.asarray(rollout.observation[:-1]), 0, 1).reshape(3, -1)
    np.testing.assert_array_equal(prepared(config, learner, rollout).x, x)


def test_samples_stay_with_their_step_and_lane(config, learner):
    samples = prepared(config, learner, rollout := new_rollout(learner, 1))
    for step, lane in ((0, 0), (2, 5), (STEPS - 1, LANES - 1)):
        i = step * LANES + lane
        np.testing.assert_array_equal(samples.x[:, i], np.clip(rollout.observation[step, :, lane], -10, 10))
        np.testing.assert_array_equal(samples.action[:, i], rollout.kept.action[step, :, lane])
        assert samples.log_prob[i] == rollout.kept.log_prob[step, lane]


def test_explained_variance_is_one_for_perfect_values(config, learner):
    rollout = new_rollout(learner, 1)
    flags = np.ones((STEPS, LANES), bool)
    x = jax.vmap(learner.normalizer)(rollout.observation[:-1])
    value = jax.vmap(learner.network.value)(x)
    perfect = with_fields(rollout, terminated=flags, truncated=~flags, reward=value)
    assert float(learn(config, learner, perfect)[1]["explained_variance"]) == pytest.approx(1.0, abs=1e-4)
    off = with_fields(rollout, terminated=flags, truncated=~flags, reward=-value)
    assert float(learn(config, learner, off)[1]["explained_variance"]) < 0.0


# What went wrong is counted.


def test_what_cannot_be_learned_from_is_counted(config, learner):
    rollout = new_rollout(learner, 1, mask=np.ones((STEPS + 1, 3, LANES), bool))
    _, metrics = learn(config, learner, rollout)
    assert [float(metrics[n]) for n in ("observations_not_finite", "nothing_allowed", "steps_skipped")] == [0, 0, 0]
    broken = with_fields(
        rollout,
        observation=rollout.observation.at[2, 1, 3].set(jnp.nan),
        action_mask=rollout.action_mask.at[1:3, :, 5].set(False),
    )
    _, metrics = learn(config, learner, broken)
    assert [float(metrics[n]) for n in ("observations_not_finite", "nothing_allowed")] == [1, 2]
    assert float(metrics["steps_skipped"]) > 0


def test_updates_that_teach_nothing_are_counted_until_one_does(config, learner):
    rollout = new_rollout(learner, 1)
    broken = with_fields(rollout, reward=jnp.full((STEPS, LANES), jnp.nan))
    counts = []
    for given in (broken, broken, rollout):
        learner, metrics = learn(config, learner, given)
        counts.append(float(metrics["updates_skipped_in_a_row"]))
    assert counts == [1, 2, 0]
