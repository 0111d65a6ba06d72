"""Policies that remember: what was remembered while acting is what learning sees."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rollouts import FEATURES, LANES, SMALL, STEPS, learn, new_learner, new_rollout, prepared, same_bits, with_fields

from slipstream.algos.actor_critic import act, actor, features_of, value_after
from slipstream.algos.algo import Inputs
from slipstream.algos.settings import A2CConfig, PPOConfig
from slipstream.nets.memory import Memory, forget

SIZE = dict(memory_size=5, **SMALL)
CONFIGS = {
    "ppo-gru": PPOConfig(epochs=1, minibatches=1, memory="gru", **SIZE),
    "ppo-lstm": PPOConfig(epochs=1, minibatches=1, memory="lstm", **SIZE),
    "a2c-gru": A2CConfig(memory="gru", **SIZE),
}


@pytest.fixture(params=list(CONFIGS))
def config(request):
    return CONFIGS[request.param]


def log_probs(learner, samples) -> np.ndarray:
    parameters = learner.network.policy(features_of(learner.network, samples), samples.mask)
    return np.asarray(learner.network.policy.distribution.log_prob(parameters, samples.action))


def test_learning_sees_the_probabilities_that_acting_had(config):
    learner = new_learner(config)
    samples = prepared(config, learner, new_rollout(learner, 1))
    np.testing.assert_allclose(log_probs(learner, samples), samples.log_prob, atol=1e-5)
    after, _ = learn(config, learner, new_rollout(learner, 1))
    assert not same_bits(after.network.memory, learner.network.memory), "the memory learns too"


def test_an_action_depends_on_what_was_seen_before():
    learner = new_learner(CONFIGS["ppo-gru"])
    memory = learner.network.memory.empty(2)
    past = jnp.asarray([[1.0, -1.0]] * FEATURES)
    now = jnp.zeros((FEATURES, 2))
    memory = act(actor(learner), Inputs(past, memory=memory), explore=False, key=jax.random.key(0)).memory
    remembered = act(actor(learner), Inputs(now, memory=memory), explore=False, key=jax.random.key(0)).memory
    assert not np.allclose(remembered[:, 0], remembered[:, 1])


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_an_episode_that_begins_has_no_past(kind):
    memory = Memory(kind, FEATURES, 4, key=jax.random.key(0))
    x = jnp.asarray(np.random.default_rng(0).normal(size=(4, FEATURES, 3)), jnp.float32)
    begins = jnp.zeros((4, 3), bool).at[2, 1].set(True)
    out, _ = memory.unroll(x, memory.empty(3), begins)
    fresh, _ = memory.unroll(x[2:], memory.empty(3), jnp.zeros((2, 3), bool))
    np.testing.assert_allclose(out[2:, :, 1], fresh[:, :, 1], rtol=1e-5)
    assert not np.allclose(out[2:, :, 0], fresh[:, :, 0])
    cleared = forget(memory.empty(3), jnp.asarray([True, False, False]))
    assert jax.tree.structure(cleared) == jax.tree.structure(memory.empty(3))


def test_lanes_are_shuffled_whole():
    config = PPOConfig(epochs=1, minibatches=4, memory="gru", **SIZE)
    learner = new_learner(config)
    samples = prepared(config, learner, new_rollout(learner, 1))
    assert samples.pieces == LANES
    some = samples.take(jnp.asarray([5, 2]), 1)
    np.testing.assert_allclose(log_probs(learner, some), some.log_prob, atol=1e-5)
    order = np.asarray(samples.log_prob).reshape(STEPS, LANES)[:, [5, 2]].reshape(-1)
    np.testing.assert_array_equal(some.log_prob, order)


def test_a_truncated_episode_is_valued_with_what_was_remembered_of_it():
    config = CONFIGS["ppo-gru"]
    learner = new_learner(config)
    rollout = new_rollout(learner, 3)
    cut = np.zeros((STEPS, LANES), bool)
    cut[2, 4] = True
    rollout = with_fields(rollout, truncated=cut, terminated=np.zeros_like(cut))
    network = learner.network
    x = jax.vmap(learner.normalizer)(rollout.observation)
    _, carried = network.memory.unroll(x, network.memory.empty(LANES), rollout.begins)
    got = value_after(learner, rollout, jnp.zeros((STEPS, LANES)), carried)
    final = learner.normalizer(rollout.final_observation[2, :, 4:5])
    features, _ = network.memory(final, carried[2][:, 4:5])
    assert float(got[2, 4]) == pytest.approx(float(network.value(features)[0]), rel=1e-5)
    assert np.count_nonzero(np.asarray(got)) == 1
