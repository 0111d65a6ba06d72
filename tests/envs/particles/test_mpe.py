"""Games of particles against PettingZoo's own, from the same states."""

from __future__ import annotations

import numpy as np
import pytest
from mpe2 import simple_spread_v3, simple_tag_v3

from slipstream.envs import make

GAMES = {
    "simple-tag": (simple_tag_v3, {}, {}),
    "simple-tag-crowd": (
        simple_tag_v3,
        {"num_good": 2, "num_adversaries": 4, "num_obstacles": 3},
        {"num_good": 2, "num_adversaries": 4, "num_obstacles": 3},
    ),
    "simple-spread": (simple_spread_v3, {}, {}),
    "simple-spread-crowd": (simple_spread_v3, {"num_agents": 5, "local_ratio": 0.2}, {"N": 5, "local_ratio": 0.2}),
}
WORLDS = 9


@pytest.fixture(params=list(GAMES))
def games(request):
    """Our worlds, and as many of PettingZoo's, with agents and landmarks at the same crowded places."""
    module, ours, theirs = GAMES[request.param]
    worlds = make(request.param.removesuffix("-crowd"), num_worlds=WORLDS, **ours)
    originals = [module.parallel_env(max_cycles=25, **theirs) for _ in range(WORLDS)]
    for seed, original in enumerate(originals):
        original.reset(seed=seed)
    draw = np.random.default_rng(0)
    for original in originals:
        for entity in _world(original).entities:
            entity.state.p_pos = draw.uniform(-0.4, 0.4, 2).astype(np.float32).astype(float)
            entity.state.p_vel = draw.uniform(-1.0, 1.0, 2).astype(np.float32).astype(float)
    agents, landmarks = ([getattr(_world(o), kind) for o in originals] for kind in ("agents", "landmarks"))
    worlds.set_state(
        x=_numbers(agents, "p_pos", 0),
        y=_numbers(agents, "p_pos", 1),
        velocity_x=_numbers(agents, "p_vel", 0),
        velocity_y=_numbers(agents, "p_vel", 1),
        landmark_x=_numbers(landmarks, "p_pos", 0).T,
        landmark_y=_numbers(landmarks, "p_pos", 1).T,
    )
    return worlds, originals


def _world(original):
    return original.unwrapped.world


def _numbers(entities, which, axis) -> np.ndarray:
    return np.array([[getattr(e.state, which)[axis] for e in world] for world in entities], np.float32)


def test_whole_episodes_are_those_of_pettingzoo(games):
    worlds, originals = games
    draw = np.random.default_rng(1)
    names = originals[0].possible_agents
    first = 0
    members = {}
    for group in worlds.groups:
        members[group.name] = names[first : first + group.size]
        first += group.size
    for i in range(25):
        action = draw.integers(0, 5, (WORLDS, len(names)))
        given = {g: action[:, [names.index(n) for n in who]].reshape(-1) for g, who in members.items()}
        step = worlds.step(given if len(given) > 1 else next(iter(given.values())))
        outcomes = [o.step(dict(zip(names, map(int, a)))) for o, a in zip(originals, action)]
        for group, who in members.items():
            observed = np.stack([outcome[0][n] for outcome in outcomes for n in who], axis=-1)
            rewards = np.array([outcome[1][n] for outcome in outcomes for n in who])
            np.testing.assert_allclose(_of(step.final_observation, group), observed, rtol=1e-3, atol=1e-3)
            np.testing.assert_allclose(_of(step.reward, group), rewards, rtol=1e-3, atol=1e-3)
            assert (np.asarray(_of(step.truncated, group)) == (i == 24)).all()
            assert not np.asarray(_of(step.terminated, group)).any()


def _of(by_group, group):
    return np.asarray(by_group[group] if isinstance(by_group, dict) else by_group)


def test_agents_and_landmarks_begin_where_they_do_in_pettingzoo():
    state = make("simple-tag", num_worlds=2000).get_state()
    for name, reach in (("x", 1.0), ("y", 1.0), ("landmark_x", 0.9), ("landmark_y", 0.9)):
        assert -reach <= state[name].min() < -0.98 * reach and 0.98 * reach < state[name].max() <= reach
    assert not state["velocity_x"].any() and not state["velocity_y"].any()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("simple-tag", {"num_good": 0}, "num_good must be at least 1, got 0"),
        ("simple-spread", {"num_agents": 1}, "num_agents must be at least 2, got 1"),
        ("simple-spread", {"local_ratio": 2.0}, "local_ratio must be within 0 .. 1, got 2.0"),
    ],
)
def test_senseless_options_are_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        make(name, num_worlds=2, **options)
