"""Proximal policy optimisation, property by property."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rollouts import LANES, PPO, SMALL, SPACES, STEPS, learn, leaves, new_learner, new_rollout, prepared, same_bits

from slipstream.algos.actor_critic import scheduled
from slipstream.algos.ppo import _adapt, loss
from slipstream.algos.samples import Samples
from slipstream.algos.settings import PPOConfig

ONE_BATCH = PPOConfig(epochs=1, minibatches=1, **SMALL)


def ratio(learner, samples: Samples) -> np.ndarray:
    parameters = learner.network.policy(samples.x, samples.mask)
    return np.exp(
        np.asarray(learner.network.policy.distribution.log_prob(parameters, samples.action) - samples.log_prob)
    )


@pytest.mark.parametrize("space", list(SPACES))
def test_the_ratio_is_one_before_the_first_step_and_another_after_it(space):
    learner = new_learner(ONE_BATCH, SPACES[space])
    rollout = new_rollout(learner, 1)
    samples = prepared(ONE_BATCH, learner, rollout)
    np.testing.assert_allclose(ratio(learner, samples), 1.0, rtol=1e-5)
    after, metrics = learn(ONE_BATCH, learner, rollout)
    assert float(metrics["kl"]) < 1e-9 and float(metrics["clipped"]) == 0.0
    assert np.abs(ratio(after, samples) - 1.0).max() > 1e-3


def test_the_ratio_is_one_again_for_the_next_rollout_though_statistics_have_changed():
    learner = new_learner(ONE_BATCH)
    learner, _ = learn(ONE_BATCH, learner, new_rollout(learner, 1))
    assert float(learner.normalizer.count) == STEPS * LANES
    samples = prepared(ONE_BATCH, learner, new_rollout(learner, 2))
    np.testing.assert_allclose(ratio(learner, samples), 1.0, rtol=1e-5)


def test_later_minibatches_see_that_the_policy_has_moved():
    learner = new_learner(PPO)
    _, metrics = learn(PPO, learner, new_rollout(learner, 1))
    assert float(metrics["kl"]) > 1e-6


def test_masks_are_the_same_in_acting_and_in_learning():
    learner = new_learner(ONE_BATCH)
    mask = np.random.default_rng(0).random((STEPS + 1, 3, LANES)) < 0.5
    mask[:, 0] = True
    rollout = new_rollout(learner, 1, mask=mask)
    samples = prepared(ONE_BATCH, learner, rollout)
    np.testing.assert_allclose(ratio(learner, samples), 1.0, rtol=1e-5)
    allowed = np.take_along_axis(mask[:-1], np.asarray(rollout.kept.action), axis=1)
    assert allowed.all()


# The loss.

gradient_of_loss = jax.jit(jax.grad(loss, has_aux=True), static_argnums=1)
POLICY_ONLY = dataclasses.replace(ONE_BATCH, value_cost=0.0)


def one_sample(learner, *, log_ratio: float, advantage: float) -> Samples:
    """A single sample whose ratio is exp(log_ratio)."""
    samples = prepared(ONE_BATCH, learner, new_rollout(learner, 1)).take(jnp.asarray([0]), 1)
    parameters = learner.network.policy(samples.x)
    log_prob = learner.network.policy.distribution.log_prob(parameters, samples.action)
    return dataclasses.replace(samples, log_prob=log_prob - log_ratio, advantage=jnp.asarray([advantage]))


@pytest.mark.parametrize(
    ("log_ratio", "advantage", "learns"),
    [
        (0.5, 1.0, False),
        (0.5, -1.0, True),
        (-0.5, -1.0, False),
        (-0.5, 1.0, True),
        (0.1, 1.0, True),
        (-0.1, -1.0, True),
    ],
)
def test_clipping_stops_learning_only_away_from_the_old_policy(log_ratio, advantage, learns):
    learner = new_learner(ONE_BATCH)
    samples = one_sample(learner, log_ratio=log_ratio, advantage=advantage)
    gradient, metrics = gradient_of_loss(learner.network, POLICY_ONLY, samples, samples.weight.sum(), 0.0)
    assert any(np.any(g != 0) for g in leaves(gradient)) == learns
    # clip(ratio) * advantage or ratio * advantage, whichever promises less.
    r = np.exp(log_ratio)
    expected = -min(r * advantage, np.clip(r, 0.8, 1.2) * advantage)
    assert float(metrics["policy_loss"]) == pytest.approx(expected, rel=1e-4)
    assert float(metrics["clipped"]) == float(abs(r - 1) > 0.2)


@pytest.mark.parametrize("clip", [None, 0.1])
def test_the_value_loss_takes_the_worse_of_the_clipped_and_the_free_value(clip):
    config = dataclasses.replace(ONE_BATCH, clip_value=clip)
    learner = new_learner(ONE_BATCH)
    samples = prepared(ONE_BATCH, learner, new_rollout(learner, 1))
    rng = np.random.default_rng(0)
    old, target = rng.normal(size=(2, STEPS * LANES)).astype(np.float32)
    samples = dataclasses.replace(samples, value=jnp.asarray(old), target=jnp.asarray(target))
    _, metrics = gradient_of_loss(learner.network, config, samples, samples.weight.sum(), 0.0)
    now = np.asarray(learner.network.value(samples.x))
    error = (now - target) ** 2
    if clip is not None:
        near = old + np.clip(now - old, -clip, clip)
        assert np.any((near - target) ** 2 > error)
        error = np.maximum(error, (near - target) ** 2)
    assert float(metrics["value_loss"]) == pytest.approx(0.5 * error.mean(), rel=1e-4)


def sharpened(learner):
    """A policy with preferences: a fresh one is nearly uniform."""
    return eqx.tree_at(
        lambda s: s.network.policy.body.layers[-1].weight, learner, learner.network.policy.body.layers[-1].weight * 200
    )


FADING = dataclasses.replace(ONE_BATCH, entropy_cost=5.0, entropy_cost_final=0.0)


def test_the_entropy_bonus_raises_entropy():
    learner = sharpened(new_learner(ONE_BATCH))
    rollout = new_rollout(learner, 1)
    samples = prepared(ONE_BATCH, learner, rollout)

    def entropy(state) -> float:
        return float(state.network.policy.distribution.entropy(state.network.policy(samples.x)).mean())

    bonus, plain = (entropy(learn(FADING, learner, rollout, progress)[0]) for progress in (0.0, 1.0))
    assert bonus > entropy(learner) + 1e-3
    assert bonus > plain


def test_the_entropy_bonus_widens_a_continuous_policy():
    learner = new_learner(ONE_BATCH, SPACES["continuous"])
    samples = prepared(ONE_BATCH, learner, new_rollout(learner, 1))
    bonus, plain = (
        gradient_of_loss(learner.network, POLICY_ONLY, samples, samples.weight.sum(), cost)[0].policy.log_std
        for cost in (1.0, 0.0)
    )
    np.testing.assert_allclose(bonus - plain, -1.0, rtol=1e-4)


# Schedules.


def test_the_learning_rate_goes_linearly_to_its_end_and_at_zero_nothing_moves():
    config = dataclasses.replace(PPO, learning_rate=0.01, learning_rate_final=0.0)
    learner = new_learner(config)
    rollout = new_rollout(learner, 1)
    outcomes = [learn(config, learner, rollout, progress) for progress in (0.0, 0.5, 1.0)]
    assert [float(metrics["learning_rate"]) for _, metrics in outcomes] == pytest.approx([0.01, 0.005, 0.0], rel=1e-5)
    assert [same_bits(after.network, learner.network) for after, _ in outcomes] == [False, False, True]


def test_the_entropy_cost_goes_linearly_to_its_end():
    assert [float(scheduled(1.0, 0.2, p)) for p in (0.0, 0.5, 1.0)] == pytest.approx([1.0, 0.6, 0.2])
    assert [float(scheduled(1.0, None, p)) for p in (0.0, 1.0)] == [1.0, 1.0]
    learner = sharpened(new_learner(FADING))
    rollout = new_rollout(learner, 1)
    faded, plain = learn(FADING, learner, rollout, 1.0)[0], learn(ONE_BATCH, learner, rollout)[0]
    for x, y in zip(leaves(faded.network), leaves(plain.network)):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6)


def test_the_learning_rate_adapts_to_how_far_the_policy_moved():
    target = 0.01
    for kl, factor in ((0.021, 1 / 1.5), (0.019, 1.0), (0.0051, 1.0), (0.0049, 1.5)):
        assert float(_adapt(jnp.float32(1e-3), jnp.float32(kl), target)) == pytest.approx(1e-3 * factor, rel=1e-5)
    for rate, kl in ((1e-5, 1.0), (1e-2, 0.0)):
        assert float(_adapt(jnp.float32(rate), jnp.float32(kl), target)) == pytest.approx(rate), "a bound"


def test_an_adapted_learning_rate_is_what_the_next_update_takes():
    config = dataclasses.replace(PPO, learning_rate=1e-3, target_kl=1e-8)
    learner = new_learner(config)
    for expected in (1e-3, 1e-3 / 1.5, 1e-3 / 1.5**2):
        assert float(learner.learning_rate) == pytest.approx(expected, rel=1e-5)
        learner, metrics = learn(config, learner, new_rollout(learner, 1))
        assert float(metrics["learning_rate"]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(learning_rate=0.0), "learning_rate must be positive, got 0.0"),
        (dict(discount=1.5), "discount must be within 0 .. 1, got 1.5"),
        (dict(trace=-0.1), "trace must be within"),
        (dict(max_grad_norm=0.0), "max_grad_norm must be positive"),
        (dict(hidden=(8, 0)), "hidden must be a list of positive sizes"),
        (dict(activation="sigmoid"), "activation must be one of tanh"),
        (dict(epochs=0), "epochs must be at least 1"),
        (dict(minibatches=0), "minibatches must be at least 1"),
        (dict(clip_ratio=0.0), "clip_ratio must be positive"),
        (dict(target_kl=0.01, learning_rate_final=0.0), "learning_rate_final must stay unset"),
    ],
)
def test_settings_that_make_no_sense_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        PPOConfig(**changes)


def test_more_minibatches_than_samples_still_learn():
    config = dataclasses.replace(PPO, minibatches=10 * STEPS * LANES, epochs=1)
    learner = new_learner(config)
    after, metrics = learn(config, learner, new_rollout(learner, 1))
    assert not same_bits(after.network, learner.network)
    assert all(np.isfinite(float(m)) for m in metrics.values())
