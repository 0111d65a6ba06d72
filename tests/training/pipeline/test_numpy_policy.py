"""A policy acts in NumPy as its JAX actor does."""

from __future__ import annotations

import dataclasses
import json
from functools import cache

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


@cache
def made(algo: str, observation: Box, action, seed: int, **settings):
    """A JAX algorithm, its functions compiled, and an actor of it."""
    config = make_settings(algo, {"hidden": (16, 12), **settings})
    algorithm = ALGORITHMS[algo].load_maker()(config, observation, action)
    algorithm = dataclasses.replace(algorithm, act=jax.jit(algorithm.act, static_argnames="explore"))
    actor = algorithm.actor(jax.jit(lambda key: algorithm.init(key=key))(jax.random.key(seed)))
    actor = jax.tree.map(lambda a: lively(a, seed), actor)
    if actor.normalizer is not None:
        samples = 3.0 * np.random.default_rng(9).standard_normal((4, observation.size, 50)) + 1.0
        samples[:, 0] = 2.0
        actor = replaced(actor, normalizer=merged(Normalizer.create(observation.size), samples))
    return algorithm, actor


@jax.jit
def merged(normalizer: Normalizer, samples) -> Normalizer:
    samples = jnp.asarray(samples, jnp.float32)
    return normalizer.merge(samples, jnp.ones((samples.shape[0], samples.shape[2])))


def pair(algo: str, observation: Box, action, *, seed: int = 0, **settings):
    """A JAX algorithm, an actor of it, and the same in NumPy."""
    algorithm, actor = made(algo, observation, action, seed, **settings)
    return algorithm, actor, in_numpy(algo, observation, action, actor, **settings)


def replaced(actor, **fields):
    """An actor with some of its fields changed."""
    return actor.__class__(**{**vars(actor), **fields})


def in_numpy(algo: str, observation: Box, action, actor, **settings) -> NumpyPolicy:
    config = PolicyConfig(("agent",), algo, make_settings(algo, settings))
    recipe = json.loads(json.dumps(recipe_of(config, observation, action)))
    return NumpyPolicy(recipe, named_arrays(actor))


def lively(array: jax.Array, seed: int) -> jax.Array:
    """Weights as after much learning: no output layer near 0, no bias at 0."""
    if not jnp.issubdtype(array.dtype, jnp.floating) or array.ndim == 0:
        return array
    noise = np.random.default_rng(seed + array.size).standard_normal(array.shape, np.float32)
    return jnp.asarray(array + np.float32(0.7 / max(array.shape[-1], 1) ** 0.5) * noise)


def looks(observation: Box, lanes: int = LANES, seed: int = 1) -> np.ndarray:
    return (4.0 * np.random.default_rng(seed).standard_normal((observation.size, lanes))).astype(np.float32)


def in_jax(algorithm, actor, x, explore=False, seed=0, mask=None):
    inputs = Inputs(jnp.asarray(x), mask, None, algorithm.memory(x.shape[1]))
    return algorithm.act(actor, inputs, explore=explore, key=jax.random.key(seed))


CHOICES = MultiDiscrete((3, 2, 5))
ACTOR_CRITICS = [("ppo", REACH), ("ppo", Discrete(4)), ("ppo", CHOICES), ("a2c", REACH)]
BOUNDED = Box(3, (-2.0, 0.0, -1.0), (2.0, 10.0, 1.0))
OFF_POLICY = [("sac", BOUNDED), ("td3", BOUNDED), ("ddpg", BOUNDED), ("dqn", Discrete(4)), ("dqn", CHOICES)]
PICTURE = Box(40 * 36 * 3, 0.0, 255.0, image=(40, 36, 3))


ACTIVATED = [("ppo", REACH, activation) for activation in ("relu", "swish", "elu")]


@pytest.mark.parametrize(
    ("algo", "action", "activation"), [(*both, "tanh") for both in ACTOR_CRITICS + OFF_POLICY] + ACTIVATED
)
def test_the_best_action_is_the_one_jax_takes(algo, action, activation):
    algorithm, actor, policy = pair(algo, SEEN, action, activation=activation)
    x = looks(SEEN)
    unit, env, kept = policy.act(x, False, np.random.default_rng(0))
    choice = in_jax(algorithm, actor, x)
    assert env.dtype == choice.action.dtype
    np.testing.assert_allclose(env, choice.action, atol=1e-5)
    np.testing.assert_allclose(unit, choice.kept.action, atol=1e-5)
    assert set(kept) == ({"log_prob"} if algo in ("ppo", "a2c") else set())
    if kept:
        np.testing.assert_allclose(kept["log_prob"], choice.kept.log_prob, atol=1e-5)


@pytest.mark.parametrize(("algo", "action"), [("ppo", REACH), ("sac", BOUNDED), ("dqn", CHOICES)])
def test_pictures_are_seen_as_jax_sees_them(algo, action):
    algorithm, actor, policy = pair(algo, PICTURE, action)
    x = np.random.default_rng(1).integers(0, 256, (PICTURE.size, LANES), np.uint8)
    env = policy.act(x, False, np.random.default_rng(0))[1]
    np.testing.assert_allclose(env, in_jax(algorithm, actor, x).action, atol=1e-4)
    assert actor.normalizer is None and len({a.tobytes() for a in env.T}) > 1


@pytest.mark.parametrize(
    "settings", [{"dueling": True}, {"atoms": 11}, {"dueling": True, "atoms": 7}, {"layer_norm": True}]
)
@pytest.mark.parametrize("action", [Discrete(4), CHOICES])
def test_every_kind_of_critic_values_choices_as_jax_does(settings, action):
    algorithm, actor, policy = pair("dqn", SEEN, action, **settings)
    x = looks(SEEN, 200)
    env = policy.act(x, False, np.random.default_rng(0))[1]
    np.testing.assert_array_equal(env, in_jax(algorithm, actor, x).action)
    assert len(np.unique(env[0])) > 1


@pytest.mark.parametrize(("algo", "action"), ACTOR_CRITICS)
def test_the_log_probability_is_the_one_jax_gives_the_same_action(algo, action):
    _, actor, policy = pair(algo, SEEN, action)
    x = looks(SEEN)
    unit, _, kept = policy.act(x, True, np.random.default_rng(3))

    @jax.jit
    def log_prob(x, unit):
        return actor.policy.distribution.log_prob(actor.policy(actor.normalizer(x)), unit)

    expected = log_prob(x, unit)
    np.testing.assert_allclose(kept["log_prob"], expected, atol=2e-5)


@pytest.mark.parametrize(
    ("algo", "action", "untrained"),
    [(*both, False) for both in ACTOR_CRITICS[:3] + OFF_POLICY] + [(*both, True) for both in OFF_POLICY],
)
def test_exploring_draws_from_the_distribution_that_jax_draws_from(algo, action, untrained):
    lanes = 20_000
    algorithm, actor, _ = pair(algo, SEEN, action)
    if algo not in ("ppo", "a2c"):
        actor = replaced(actor, untrained=jnp.asarray(untrained), noise=jnp.float32(0.3))
    policy = in_numpy(algo, SEEN, action, actor)
    x = np.repeat(looks(SEEN, 1), lanes, axis=1)
    unit, env, _ = policy.act(x, True, np.random.default_rng(3))
    choice = in_jax(algorithm, actor, x, explore=True, seed=5)
    if isinstance(action, Box):
        for ours, theirs in zip([*unit, *env], [*choice.kept.action, *choice.action]):
            quantiles = [np.quantile(a, np.linspace(0.05, 0.95, 10)) for a in (ours, theirs)]
            np.testing.assert_allclose(*quantiles, atol=0.08 * float(np.std(theirs)) + 1e-3)
        return
    for n, ours, theirs in zip(action.choices, env, np.asarray(choice.action)):
        counts = [np.bincount(a, minlength=n) / lanes for a in (ours, theirs)]
        np.testing.assert_allclose(*counts, atol=0.02)


def test_without_a_normaliser_observations_are_taken_as_they_are():
    algorithm, actor, policy = pair("ppo", SEEN, REACH, normalize_observation=False)
    x = looks(SEEN)
    np.testing.assert_allclose(
        policy.act(x, False, np.random.default_rng(0))[1], in_jax(algorithm, actor, x).action, atol=1e-5
    )


def test_new_weights_in_the_same_memory_are_put_to_use():
    _, actor, _ = pair("ppo", SEEN, REACH)
    algorithm, other, _ = pair("ppo", SEEN, REACH, seed=1)
    arrays = {name: a.copy() for name, a in named_arrays(actor).items()}
    config = PolicyConfig(("agent",), "ppo", make_settings("ppo", {}))
    policy, x = NumpyPolicy(recipe_of(config, SEEN, REACH), arrays), looks(SEEN)
    policy.act(x, False, np.random.default_rng(0))
    other = replaced(other, normalizer=merged(other.normalizer, x[None]))
    for name, a in named_arrays(other).items():
        arrays[name][...] = a
    policy.renew()
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
