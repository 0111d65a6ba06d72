"""Uneven ground: how it is drawn, where robots stand on it, and how worlds move from level to level."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np
import pytest

from slipstream.envs.locomotion.terrain import Ground
from slipstream.envs.registry import make, make_env
from slipstream.physics import surface

NAME = "humanoid-flagrun-harder-terrain"
SMALL = Ground(levels=5, variants=2, half_size=10.0)
WORLDS = 12


def slopes(heights):
    return np.abs(np.diff(heights)).mean() / SMALL.spacing


def test_the_same_seed_draws_the_same_ground():
    assert (SMALL.heights() == SMALL.heights()).all()
    other = Ground(levels=5, variants=2, half_size=10.0, seed=1).heights()
    assert (SMALL.heights()[2:] != other[2:]).any((1, 2)).all()


def test_every_level_is_rougher_than_the_one_before():
    for variant in range(SMALL.variants):
        fields = [SMALL.field(level, variant) for level in range(SMALL.levels)]
        assert not fields[0].any()
        assert (np.diff([slopes(field) for field in fields]) > 0).all()


def test_the_last_levels_have_obstacles_that_are_too_steep_to_walk_up():
    steepest = [np.abs(np.diff(SMALL.field(level))).max() / SMALL.spacing for level in range(SMALL.levels)]
    assert max(steepest[:2]) < 1.0
    assert min(steepest[3:]) > 1.5


def test_episodes_begin_on_flat_ground():
    along = np.linspace(-SMALL.half_size, SMALL.half_size, SMALL.points)
    near = np.hypot(*np.meshgrid(along, along)) <= SMALL.pad
    assert not SMALL.heights()[:, near].any()


@pytest.fixture(scope="module")
def moved():
    """Worlds all over the grounds of all levels, after a step there."""
    worlds = make(NAME, WORLDS, curriculum=False, random_push=0.0)
    rng = np.random.default_rng(0)
    level, variant = np.arange(WORLDS) % 10, np.arange(WORLDS) % 3
    qpos = np.tile(np.array(worlds.env.model.qpos0)[:, None], WORLDS)
    qpos[:2] = rng.uniform(-20, 20, (2, WORLDS))
    qpos[2] = [height(worlds.env, *where) + 1.35 for where in zip(level, variant, *qpos[:2])]
    worlds.set_state(qpos=qpos, qvel=np.zeros((23, WORLDS)), level=level, variant=variant)
    for _ in range(10):  # until they touch the ground
        worlds.step(np.zeros((17, WORLDS)))
    before = worlds.get_state()
    action = rng.uniform(-1, 1, (17, WORLDS))
    return worlds, before, action, worlds.step(action)


def height(env, level, variant, x, y):
    """Of the ground: the plane through the three corners of the triangle that a place is in."""
    heights = env.uneven.heights[level * 3 + variant]
    u, v = (x + 25.0) / 0.25, (y + 25.0) / 0.25
    i, j = int(v), int(u)
    fy, fx = v - i, u - j
    corner, far = heights[i, j], heights[i + 1, j + 1]
    if fx > fy:
        right = heights[i, j + 1]
        return corner + fx * (right - corner) + fy * (far - right)
    up = heights[i + 1, j]
    return corner + fx * (far - up) + fy * (up - corner)


def test_heights_are_those_of_mujocos_height_field():
    """How far down MuJoCo's rays go."""
    env = make_env(NAME, levels=3)
    env.show({"level": np.array([2]), "variant": np.array([1])})
    model, data = env.model.mujoco, mujoco.MjData(env.model.mujoco)
    data.qpos[:3] = 1000.0  # the robot is out of the way
    mujoco.mj_forward(model, data)
    state = env.start_state(env.model.qpos0, [0.0] * 23)
    field = env.terrain(replace(state, level=2, variant=1))
    geom = np.zeros(1, np.int32)
    for x, y in np.random.default_rng(0).uniform(-24, 24, (20, 2)):
        down = mujoco.mj_ray(model, data, np.array([x, y, 20.0]), np.array([0.0, 0.0, -1.0]), None, 1, -1, geom)
        found = surface(env.model, field, float(x), float(y))[0]
        assert found == pytest.approx(20.0 - down, abs=1e-4)
        assert found == pytest.approx(height(env, 2, 1, x, y), abs=1e-5)


def test_the_ground_ahead_is_observed(moved):
    worlds, _, _, outcome = moved
    state = worlds.get_state()
    seen = np.asarray(outcome.observation)[-12:]
    assert seen.std() > 0.05
    for i in range(WORLDS):
        w, x, y, z = state["qpos"][3:7, i]
        front = np.array([1 - 2 * (y * y + z * z), 2 * (x * y + w * z)])
        front /= np.linalg.norm(front)
        left = np.array([-front[1], front[0]])
        here = state["qpos"][:2, i]
        where = (state["level"][i], state["variant"][i])
        below = height(worlds.env, *where, *here)
        for k, (ahead, aside) in enumerate((a, s) for a in (0.4, 0.8, 1.4, 2.2) for s in (-0.4, 0.0, 0.4)):
            expected = height(worlds.env, *where, *(here + ahead * front + aside * left)) - below
            assert seen[k, i] == pytest.approx(expected, abs=2e-3)


def test_height_is_measured_over_the_ground(moved):
    worlds, _, _, outcome = moved
    state = worlds.get_state()
    for i in range(WORLDS):
        below = height(worlds.env, state["level"][i], state["variant"][i], *state["qpos"][:2, i])
        expected = state["qpos"][2, i] - below - 1.3
        assert np.asarray(outcome.observation)[0, i] == pytest.approx(expected, abs=2e-3)


def test_compiled_and_scalar_worlds_agree(moved):
    _, before, action, outcome = moved
    few = slice(6, 10)
    plain = make(NAME, 4, backend="scalar", curriculum=False, random_push=0.0)
    plain.set_state(**{name: values[..., few] for name, values in before.items()})
    expected = plain.step(action[:, few])
    assert np.asarray(outcome.observation)[45:47, few].any()
    assert np.asarray(outcome.observation)[:, few] == pytest.approx(np.asarray(expected.observation), abs=2e-3)
    assert np.asarray(outcome.reward)[few] == pytest.approx(np.asarray(expected.reward), abs=2e-2)


def test_success_raises_the_level_and_failure_lowers_it():
    worlds = make(NAME, 6)
    level, covered = np.array([0, 4, 9, 0, 4, 4]), np.array([20.0, 20.0, 20.0, 0.0, 0.0, 5.0])
    worlds.set_state(level=level, covered=covered, step=np.full(6, 999))
    worlds.step(np.zeros((17, 6)))
    after = worlds.get_state()
    assert after["level"].tolist() == [1, 5, 9, 0, 3, 4]
    assert not after["covered"].any() and not after["step"].any()
    assert worlds.episode_statistics.report["level"] == pytest.approx(level.mean())
    worlds.step(np.zeros((17, 6)))
    assert worlds.get_state()["level"].tolist() == [1, 5, 9, 0, 3, 4]
    worlds.reset()
    assert not worlds.get_state()["level"].any()


def test_without_a_curriculum_the_level_stays():
    worlds = make(NAME, 2, start_level=3, curriculum=False)
    worlds.set_state(covered=np.array([20.0, 0.0]), step=np.full(2, 999))
    worlds.step(np.zeros((17, 2)))
    assert worlds.get_state()["level"].tolist() == [3, 3]


def test_senseless_levels_are_refused():
    with pytest.raises(ValueError, match="start_level"):
        make_env(NAME, start_level=10)
    with pytest.raises(ValueError, match="variant"):
        make_env(NAME, variants=0)
