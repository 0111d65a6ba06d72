"""Robots that run to a target: observation and reward against MuJoCo's own account of the same states."""

from __future__ import annotations

import numpy as np
import pytest
from running import ALIVE, Reference

from slipstream.envs.registry import make, make_env

WORLDS = 64


@pytest.fixture(scope="module", params=ALIVE)
def stepped(request):
    """Worlds that moved about, then a step of which everything is known."""
    name = request.param
    worlds = make(name, WORLDS, seed=3)
    rng = np.random.default_rng(0)
    count = worlds.action_space.size
    for _ in range(6):
        worlds.step(rng.uniform(-1, 1, (count, WORLDS)))
    state = worlds.get_state()
    turn = rng.uniform(-np.pi, np.pi, WORLDS)
    state["qpos"][3:7] = [np.cos(turn / 2), 0 * turn, 0 * turn, np.sin(turn / 2)]
    target = rng.uniform(-20, 20, (2, WORLDS))
    worlds.set_state(qpos=state["qpos"], qvel=state["qvel"], target=target)
    before = worlds.get_state()
    action = rng.uniform(-1, 1, (count, WORLDS)).astype(np.float32)
    outcome = worlds.step(action)
    after = worlds.get_state()
    model = worlds.env.model.mujoco
    kept = np.flatnonzero(~np.asarray(outcome.terminated))
    pairs = [[Reference(model, s["qpos"][:, i], s["qvel"][:, i]) for s in (before, after)] for i in kept]
    return name, kept, pairs, before["target"], action, outcome


def test_the_reward_is_the_published_one(stepped):
    name, kept, pairs, target, action, outcome = stepped
    assert len(kept) > WORLDS // 2
    expected = [
        sum(after.rewards(name, before, target[:, i], action[:, i]).values()) for i, (before, after) in zip(kept, pairs)
    ]
    assert np.asarray(outcome.reward)[kept] == pytest.approx(np.array(expected), abs=2e-3)


def test_the_observation_is_the_published_one(stepped):
    name, kept, pairs, target, action, outcome = stepped
    expected = [after.observation(name, target[:, i], action[:, i]) for i, (_, after) in zip(kept, pairs)]
    assert np.asarray(outcome.observation)[:, kept] == pytest.approx(np.array(expected).T, abs=1e-3)


@pytest.mark.parametrize(("name", "height"), [("humanoid-run", 1.0), ("ant-run", 0.295)])
def test_a_fall_costs_one_and_ends_the_episode(name, height):
    worlds = make(name, 2)
    state = worlds.get_state()
    qpos, qvel = state["qpos"], 0 * state["qvel"]
    qpos[:, 1] = qpos[:, 0]
    qpos[2] = [height - 0.02, height + 0.02]
    qpos[3:7] = [[0], [1], [0], [0]]  # upside down, so that the legs do not push the torso up
    worlds.set_state(qpos=qpos, qvel=qvel)
    outcome = worlds.step(np.zeros((worlds.action_space.size, 2)))
    assert np.asarray(outcome.terminated).tolist() == [True, False]
    fallen, alive = np.asarray(outcome.reward)
    assert alive - fallen == pytest.approx(ALIVE[name] + 1.0, abs=0.01)


def test_feet_that_touch_cost_one():
    env = make_env("humanoid-run")
    assert env.collision_cost(env.start_state(env.model.qpos0, [0.0] * 23)) == 0.0
    crossed = list(env.model.qpos0)
    for side in ("right", "left"):  # hips turned inwards, as far as it takes
        crossed[env.model.joint(f"{side}_hip_x").qpos] = 0.2
    assert env.collision_cost(env.start_state(crossed, [0.0] * 23)) == 1.0


@pytest.mark.parametrize("name", ALIVE)
def test_control_runs_at_60_hz_for_1000_steps(name):
    env = make_env(name)
    assert env.time_step == pytest.approx(1 / 60)
    assert env.max_steps == 1000
    assert (env.groups[0].action.low, env.groups[0].action.high) == (-1.0, 1.0)


def test_full_action_is_the_full_torque():
    env = make_env("humanoid-run")
    state = env.start_state(env.model.qpos0, [0.0] * 23)
    assert env.drive(state, (1.0,) * 17) == pytest.approx((0.4,) * 17)
    assert env.drive(state, (-0.5,) * 17) == pytest.approx((-0.2,) * 17)


@pytest.mark.parametrize("name", ALIVE)
def test_episodes_begin_on_the_feet(name):
    worlds = make(name, 32)
    state = worlds.get_state()
    ranges = worlds.env.model.mujoco.jnt_range[1:]
    assert (state["qpos"][7:] >= ranges[:, :1] - 1e-6).all() and (state["qpos"][7:] <= ranges[:, 1:] + 1e-6).all()
    assert state["qpos"][7:].std(1).min() > 0.005
    terminated = [worlds.step(np.zeros((worlds.action_space.size, 32))).terminated for _ in range(10)]
    assert not np.any(terminated)
