"""Algorithms that learn from replay: what holds of each of them, whatever they learn."""

from __future__ import annotations

import dataclasses
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from slipstream.algos.algo import SURPRISE, Algorithm, Inputs, Transitions
from slipstream.algos.settings import ALGORITHMS, DDPGConfig, DQNConfig, SACConfig, Settings, TD3Config
from slipstream.nets.average import Average
from slipstream.spaces import Box, Discrete, MultiDiscrete, Space

OBSERVATION, LANES, UPDATES = Box(3), 16, 4
SMALL = dict(hidden=(8,), n_step=1, learning_rate=1e-2)
CASES: dict[str, tuple[Settings, Space]] = {
    "sac": (SACConfig(**SMALL), Box(2, (-1.0, 0.0), (1.0, 5.0))),
    "td3": (TD3Config(**SMALL), Box(2, (-1.0, 0.0), (1.0, 5.0))),
    "ddpg": (DDPGConfig(**SMALL), Box(2, (-1.0, 0.0), (1.0, 5.0))),
    "dqn": (DQNConfig(**SMALL), MultiDiscrete((2, 3))),
}

QUIET = ["td3", "ddpg", "dqn"]
"""Those that learn without drawing actions, if they are told so."""


def made(algo: str, settings: Settings | None = None, space: Space | None = None, **how) -> Algorithm:
    """An algorithm, its functions compiled."""
    usual, everywhere = CASES[algo]
    algorithm = ALGORITHMS[algo].load_maker()(settings or usual, OBSERVATION, space or everywhere, **how)
    return dataclasses.replace(
        algorithm,
        init=jax.jit(algorithm.init),
        act=jax.jit(algorithm.act, static_argnames="explore"),
        update=jax.jit(algorithm.update),
    )


shared = cache(made)
"""Compiled once for several tests."""


def transitions(algo: str, seed: int = 0, lanes: int = LANES) -> Transitions:
    rng = np.random.default_rng(seed)

    def numbers(*shape: int) -> jax.Array:
        return jnp.asarray(rng.normal(size=shape), jnp.float32)

    choices = np.stack([rng.integers(0, n, (UPDATES, lanes)) for n in (2, 3)], axis=1)
    action = jnp.asarray(choices, jnp.int32) if algo == "dqn" else jnp.tanh(numbers(UPDATES, 2, lanes))
    discount = jnp.asarray(rng.choice([0.0, 0.9], (UPDATES, lanes)), jnp.float32)
    return Transitions(
        numbers(UPDATES, 3, lanes), action, numbers(UPDATES, lanes), discount, numbers(UPDATES, 3, lanes)
    )


@pytest.fixture(params=list(CASES))
def algo(request) -> str:
    return request.param


def learned(algorithm: Algorithm, batch: Transitions, times: int = 1):
    state, metrics = algorithm.init(key=jax.random.key(0)), {}
    for i in range(times):
        state, metrics = algorithm.update(state, batch, elapsed=0.0, key=jax.random.key(i))
    return state, metrics


def test_actions_stay_within_their_space_and_untrained_ones_fill_it(algo):
    algorithm, space = shared(algo), CASES[algo][1]
    actor = algorithm.actor(algorithm.init(key=jax.random.key(0)))
    inputs = Inputs(jax.random.normal(jax.random.key(1), (3, 4000)))
    random = np.asarray(algorithm.act(actor, inputs, explore=True, key=jax.random.key(2)).action)
    if isinstance(space, Box):
        assert (random >= space.lows[:, None]).all() and (random <= space.highs[:, None]).all()
        share = (random - space.lows[:, None]) / (space.highs - space.lows)[:, None]
        assert share.mean(axis=1) == pytest.approx([0.5] * 2, abs=0.03)
        assert share.var(axis=1) == pytest.approx([1 / 12] * 2, abs=0.01)
    else:
        assert [np.bincount(r).tolist() for r in random] == [
            pytest.approx([4000 / n] * n, rel=0.15) for n in space.choices
        ]


def test_an_agent_that_has_learned_explores_around_what_it_thinks_best(algo):
    algorithm = shared(algo)
    actor = algorithm.actor(learned(algorithm, transitions(algo))[0])
    assert not bool(actor.untrained)
    actor = eqx.tree_at(lambda a: a.noise, actor, jnp.float32(0.05))
    inputs = Inputs(jax.random.normal(jax.random.key(1), (3, 4000)))
    best = algorithm.act(actor, inputs, explore=False, key=jax.random.key(2)).action
    again = algorithm.act(actor, inputs, explore=False, key=jax.random.key(3)).action
    tried = algorithm.act(actor, inputs, explore=True, key=jax.random.key(2)).action
    assert (best == again).all() and not (best == tried).all()
    near = jnp.abs(best - tried).mean() if algo != "dqn" else (best != tried).mean()
    assert near < (1.0 if algo != "dqn" else 0.05)


@pytest.mark.parametrize("algo", QUIET)
def test_a_stack_of_batches_is_learned_from_one_after_another(algo):
    """A stack of four leads to the same weights as the four on their own, but for noise and statistics."""
    settings = dataclasses.replace(CASES[algo][0], normalize_observation=False)
    if algo in ("td3", "ddpg"):
        settings = dataclasses.replace(settings, smoothing_noise=0.0)
    algorithm = made(algo, settings)
    batch = transitions(algo)
    together, _ = learned(algorithm, batch)
    state = algorithm.init(key=jax.random.key(0))
    for i in range(UPDATES):
        one = jax.tree.map(lambda a, i=i: a[i : i + 1], batch)
        state, metrics = algorithm.update(state, one, elapsed=0.0, key=jax.random.key(9))
        assert metrics[SURPRISE].shape == (1, LANES)
    assert int(state.updates) == int(together.updates) == UPDATES
    for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(state)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_what_is_not_finite_does_not_spoil_the_weights(algo):
    algorithm, batch = shared(algo), transitions(algo)
    bad = eqx.tree_at(lambda b: b.reward, batch, batch.reward.at[1, 3].set(jnp.inf))
    state, metrics = learned(algorithm, bad)
    assert all(np.isfinite(a).all() for a in jax.tree.leaves(state))
    assert float(metrics["steps_skipped"]) == 1 / UPDATES
    broken = eqx.tree_at(lambda b: b.reward, batch, jnp.full_like(batch.reward, jnp.nan))
    _, metrics = learned(algorithm, broken, times=3)
    assert int(metrics["updates_skipped_in_a_row"]) == 3


@pytest.mark.parametrize("algo", QUIET)
def test_two_processes_learn_what_one_with_all_samples_learns(algo):
    """The noise of actions differs between processes, so it is switched off where that is possible."""
    quiet = dataclasses.replace(CASES[algo][0], **({} if algo == "dqn" else dict(smoothing_noise=0.0)))
    batch = transitions(algo)
    halves = jax.tree.map(lambda a: jnp.stack([a[..., : LANES // 2], a[..., LANES // 2 :]]), batch)
    alone, together = made(algo, quiet), made(algo, quiet, average=Average(("processes",), 2))
    state = alone.init(key=jax.random.key(0))

    def update(algorithm: Algorithm):
        return lambda b: algorithm.update(state, b, elapsed=0.0, key=jax.random.key(1))

    one, _ = update(alone)(batch)
    two, _ = jax.jit(jax.vmap(update(together), axis_name="processes"))(halves)
    for part in (lambda a: a.network, lambda a: (a.normalizer.mean, a.normalizer.variance)):
        mine, theirs = (jax.tree.leaves(part(made.actor(state))) for made, state in ((alone, one), (together, two)))
        for a, b in zip(mine, theirs):
            np.testing.assert_array_equal(b[0], b[1])
            np.testing.assert_allclose(a, b[0], rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("algo", ["sac", "td3"])
def test_what_is_learned_in_pieces_is_what_is_learned_at_once(algo, monkeypatch):
    """But for the rounding of sums: of losses, gradients and surprises."""
    batch = transitions(algo, lanes=32)
    at_once = learned(shared(algo), batch)
    monkeypatch.setattr("slipstream.algos.pieces.PIECE", 8)
    monkeypatch.setattr("slipstream.algos.pieces.NUMBERS", 1)
    in_pieces = learned(made(algo), batch)
    for a, b in zip(jax.tree.leaves(at_once), jax.tree.leaves(in_pieces), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4)


def test_a_choice_that_is_not_allowed_is_never_made():
    algorithm = made("dqn", space=Discrete(4))
    state = algorithm.init(key=jax.random.key(0))
    mask = jax.random.uniform(jax.random.key(3), (4, 2000)) < 0.5
    mask = mask.at[0].set(mask[0] | ~mask.any(axis=0))
    inputs = Inputs(jax.random.normal(jax.random.key(1), (3, 2000)), mask)
    for explore in (False, True):
        action = algorithm.act(algorithm.actor(state), inputs, explore=explore, key=jax.random.key(2)).action[0]
        assert mask[action, jnp.arange(2000)].all()


def test_the_policy_learns_at_every_other_step_of_the_critics():
    algorithm = shared("sac")
    batch = transitions("sac")
    one = jax.tree.map(lambda a: a[:1], batch)
    state = algorithm.init(key=jax.random.key(0))
    before = jax.tree.map(np.array, state.policy.value)
    state, _ = algorithm.update(state, one, elapsed=0.0, key=jax.random.key(1))
    assert jax.tree.all(jax.tree.map(np.array_equal, before, state.policy.value))
    state, _ = algorithm.update(state, one, elapsed=0.0, key=jax.random.key(1))
    assert not jax.tree.all(jax.tree.map(np.array_equal, before, state.policy.value))
