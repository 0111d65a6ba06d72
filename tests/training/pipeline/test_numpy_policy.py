"""A policy acts in NumPy as its JAX actor does."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from slipstream.algos.algo import Inputs
from slipstream.algos.settings import ALGORITHMS
from slipstream.nets.normalizer import Normalizer
from slipstream.spaces import Box, Discrete, MultiDiscrete
from slipstream.training.config import PolicyConfig
from slipstream.training.config_json import make_settings
from slipstream.training.pipeline.numpy_policy import NumpyPolicy, recipe_of
from slipstream.training.saving import named_arrays

SEEN = Box(5)
REACH = Box(3, (-2.0, 0.0, -np.inf), (2.0, 10.0, np.inf))
LANES = 7


def pair(algo: str, observation: Box, action, *, seed: int = 0, **settings):
    """A JAX algorithm, an actor of it, and the same in NumPy."""
    config = PolicyConfig(("agent",), algo, make_settings(algo, {"hidden": (16, 12), **settings}))
    algorithm = ALGORITHMS[algo].load_maker()(config.settings, observation, action)
    actor = algorithm.actor(algorithm.init(key=jax.random.key(seed)))
    actor = jax.tree.map(lambda a: lively(a, seed), actor)
    if getattr(actor, "normalizer", None) is not None:
        samples = 3.0 * jax.random.normal(jax.random.key(9), (4, observation.size, 50)) + 1.0
        merged = Normalizer.create(observation.size).merge(samples.at[:, 0].set(2.0), jnp.ones((4, 50)))
        actor = actor.__class__(**{**vars(actor), "normalizer": merged})
    return algorithm, actor, NumpyPolicy(recipe_of(config, observation, action), named_arrays(actor))


def lively(array: jax.Array, seed: int) -> jax.Array:
    """Weights as after much learning: no output layer near 0, no bias at 0."""
    if not jnp.issubdtype(array.dtype, jnp.floating) or array.ndim == 0:
        return array
    noise = jax.random.normal(jax.random.key(seed + array.size), array.shape)
    return array + (0.7 / max(array.shape[-1], 1) ** 0.5) * noise


def looks(observation: Box, lanes: int = LANES, seed: int = 1) -> np.ndarray:
    return (4.0 * np.random.default_rng(seed).standard_normal((observation.size, lanes))).astype(np.float32)


def in_jax(algorithm, actor, x, explore=False, seed=0, mask=None):
    inputs = Inputs(jnp.asarray(x), mask, None, algorithm.memory(x.shape[1]))
    return algorithm.act(actor, inputs, explore=explore, key=jax.random.key(seed))


ACTOR_CRITICS = [(a, s) for a in ("ppo", "a2c") for s in (REACH, Discrete(4), MultiDiscrete((3, 2, 5)))]


@pytest.mark.parametrize(("algo", "action"), ACTOR_CRITICS)
@pytest.mark.parametrize("activation", ["tanh", "relu", "swish", "elu"])
def test_the_best_action_is_the_one_jax_takes(algo, action, activation):
    algorithm, actor, policy = pair(algo, SEEN, action, activation=activation)
    x = looks(SEEN)
    unit, env, kept = policy.act(x, False, np.random.default_rng(0))
    choice = in_jax(algorithm, actor, x)
    np.testing.assert_allclose(env, choice.action, atol=1e-5)
    np.testing.assert_allclose(unit, choice.kept.action, atol=1e-5)
    np.testing.assert_allclose(kept["log_prob"], choice.kept.log_prob, atol=1e-5)


@pytest.mark.parametrize(("algo", "action"), ACTOR_CRITICS)
def test_the_log_probability_is_the_one_jax_gives_the_same_action(algo, action):
    _, actor, policy = pair(algo, SEEN, action)
    x = looks(SEEN)
    unit, _, kept = policy.act(x, True, np.random.default_rng(3))
    parameters = actor.policy(actor.normalizer(jnp.asarray(x)))
    expected = actor.policy.distribution.log_prob(parameters, jnp.asarray(unit))
    np.testing.assert_allclose(kept["log_prob"], expected, atol=2e-5)


@pytest.mark.parametrize(("algo", "action"), ACTOR_CRITICS[:3])
def test_exploring_draws_from_the_distribution_that_jax_draws_from(algo, action):
    lanes = 20_000
    algorithm, actor, policy = pair(algo, SEEN, action)
    x = np.repeat(looks(SEEN, 1), lanes, axis=1)
    _, env, _ = policy.act(x, True, np.random.default_rng(3))
    drawn = np.asarray(in_jax(algorithm, actor, x, explore=True, seed=5).action)
    if isinstance(action, Box):
        np.testing.assert_allclose(env.mean(axis=1), drawn.mean(axis=1), atol=0.1)
        np.testing.assert_allclose(env.std(axis=1), drawn.std(axis=1), atol=0.1)
        return
    for n, ours, theirs in zip(action.choices, env, drawn):
        counts = [np.bincount(a, minlength=n) / lanes for a in (ours, theirs)]
        np.testing.assert_allclose(*counts, atol=0.02)


def test_without_a_normaliser_observations_are_taken_as_they_are():
    algorithm, actor, policy = pair("ppo", SEEN, REACH, normalize_observation=False)
    x = looks(SEEN)
    np.testing.assert_allclose(
        policy.act(x, False, np.random.default_rng(0))[1], in_jax(algorithm, actor, x).action, atol=1e-5
    )


def test_new_weights_in_the_same_memory_are_noticed():
    _, actor, _ = pair("ppo", SEEN, REACH)
    algorithm, other, _ = pair("ppo", SEEN, REACH, seed=1)
    arrays = {name: a.copy() for name, a in named_arrays(actor).items()}
    config = PolicyConfig(("agent",), "ppo", make_settings("ppo", {}))
    policy, x = NumpyPolicy(recipe_of(config, SEEN, REACH), arrays), looks(SEEN)
    policy.act(x, False, np.random.default_rng(0))
    other = other.__class__(
        **{**vars(other), "normalizer": other.normalizer.merge(jnp.asarray(x)[None], jnp.ones((1, LANES)))}
    )
    for name, a in named_arrays(other).items():
        arrays[name][...] = a
    np.testing.assert_allclose(
        policy.act(x, False, np.random.default_rng(0))[1], in_jax(algorithm, other, x).action, atol=1e-5
    )


def test_actions_are_the_callers_to_keep():
    _, _, policy = pair("ppo", SEEN, REACH)
    rng = np.random.default_rng(0)
    unit, env, kept = policy.act(looks(SEEN), False, rng)
    before = [a.copy() for a in (unit, env, kept["log_prob"])]
    policy.act(looks(SEEN, seed=2), False, rng)
    for was, now in zip(before, (unit, env, kept["log_prob"])):
        np.testing.assert_array_equal(was, now)


def test_what_is_not_allowed_is_never_chosen():
    lanes = 500
    algorithm, actor, policy = pair("ppo", SEEN, MultiDiscrete((3, 4)))
    x = looks(SEEN, lanes)
    mask = np.random.default_rng(2).random((7, lanes)) < 0.5
    mask[[0, 3]] = True
    for explore in (True, False):
        unit, _, _ = policy.act(x, explore, np.random.default_rng(0), mask)
        for part, chosen in zip((mask[:3], mask[3:]), unit):
            assert part[chosen, np.arange(lanes)].all()
    np.testing.assert_array_equal(unit, in_jax(algorithm, actor, x, mask=jnp.asarray(mask)).action)


def test_what_numpy_cannot_do_is_said_before_anything_starts():
    with pytest.raises(ValueError, match="memory"):
        recipe_of(PolicyConfig(("agent",), "ppo", make_settings("ppo", {"memory": "gru"})), SEEN, REACH)
    with pytest.raises(ValueError, match="network"):
        recipe_of(PolicyConfig(("agent",), "ppo", make_settings("ppo", {}), network="some:Network"), SEEN, REACH)
