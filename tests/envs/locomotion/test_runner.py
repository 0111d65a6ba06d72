"""Robots that run to a target: observation and reward against MuJoCo's own account of the same states."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from slipstream.envs.registry import make, make_env

ALIVE = {"humanoid-run": 2.0, "ant-run": 0.5}
ENERGY = {"humanoid-run": 3.0, "ant-run": 2.0}
EFFORT = {"humanoid-run": 0.2, "ant-run": 0.1}
START_HEIGHT = {"humanoid-run": 1.3, "ant-run": 0.55}
FEET = {
    "humanoid-run": ("right_foot", "left_foot"),
    "ant-run": ("left_ankle_geom", "right_ankle_geom", "third_ankle_geom", "fourth_ankle_geom"),
}
WORLDS = 64


class Reference:
    """What MuJoCo says about one state."""

    def __init__(self, model: mujoco.MjModel, qpos: np.ndarray, qvel: np.ndarray):
        self.model, self.data = model, mujoco.MjData(model)
        self.data.qpos[:], self.data.qvel[:] = qpos, qvel
        mujoco.mj_forward(model, self.data)
        self.torso = model.body("torso").id
        self.rotation = self.data.xmat[self.torso].reshape(3, 3)
        self.yaw = np.arctan2(self.rotation[1, 0], self.rotation[0, 0])
        ranges = model.jnt_range[1:]
        self.joints = 2 * (qpos[7:] - ranges.mean(1)) / np.diff(ranges)[:, 0]

    def distance(self, target):
        return np.linalg.norm(np.subtract(target, self.data.xpos[self.torso][:2]))

    def touches(self, geom: str, other: str) -> bool:
        pair = {self.model.geom(geom).id, self.model.geom(other).id}
        return any({c.geom1, c.geom2} == pair for c in self.data.contact)

    def observation(self, name: str, target, last: np.ndarray) -> np.ndarray:
        turn = np.array([[np.cos(self.yaw), np.sin(self.yaw), 0], [-np.sin(self.yaw), np.cos(self.yaw), 0], [0, 0, 1]])
        angle = np.arctan2(target[1] - self.data.qpos[1], target[0] - self.data.qpos[0]) - self.yaw
        velocity = np.zeros(6)
        mujoco.mj_objectVelocity(self.model, self.data, mujoco.mjtObj.mjOBJ_BODY, self.torso, velocity, 0)
        features = [
            [self.data.xpos[self.torso][2] - START_HEIGHT[name], np.sin(angle), np.cos(angle)],
            0.25 * turn @ self.data.qvel[:3],
            0.25 * turn @ velocity[:3],
            [np.arctan2(self.rotation[2, 1], self.rotation[2, 2]), np.arcsin(-self.rotation[2, 0])],
            self.joints,
            0.1 * self.data.qvel[6:],
            [self.touches(foot, "floor") for foot in FEET[name]],
            last,
        ]
        return np.clip(np.concatenate(features), -5, 5)

    def reward(self, name: str, before: Reference, target, action: np.ndarray) -> float:
        joint_of = self.model.actuator_trnid[:, 0]
        strength = self.model.actuator_gear[:, 0] / self.model.actuator_gear[:, 0].mean()
        speeds = self.data.qvel[self.model.jnt_dofadr[joint_of]]
        direction = np.subtract(target, self.data.qpos[:2]) / self.distance(target)
        heading = direction @ self.rotation[:2, 0]
        feet = name == "humanoid-run" and self.touches(*FEET[name])
        return (
            60.0 * (before.distance(target) - self.distance(target))
            + ALIVE[name]
            - ENERGY[name] * np.mean(strength * np.abs(action * 0.1 * speeds))
            - EFFORT[name] * np.mean(action**2)
            - 0.2 * np.sum(np.abs(self.joints) > 0.99)
            - 1.0 * feet
            + 0.5 * min(1.0, heading / 0.8)
            + 0.05 * (self.rotation[2, 2] > 0.93)
        )


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
    expected = [after.reward(name, before, target[:, i], action[:, i]) for i, (before, after) in zip(kept, pairs)]
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
