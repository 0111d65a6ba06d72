"""Robots that walk as commanded: what they are told, see and are paid for, on all kinds of ground."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from slipstream.envs.legged.command import Gait
from slipstream.envs.legged.legged import MODELS, LeggedState
from slipstream.envs.registry import make, make_env
from slipstream.envs.worlds import Worlds

WORLDS = 64


@pytest.fixture(scope="module")
def quadrupeds() -> Worlds:
    return make("legged", WORLDS, command_time=0.4)


def still(worlds: Worlds) -> np.ndarray:
    return np.zeros((worlds.env.model.nu, worlds.num_worlds), np.float32)


def oracle(worlds: Worlds, world: int) -> tuple[mujoco.MjModel, mujoco.MjData]:
    """MuJoCo's view of one world."""
    m = worlds.env.model.mujoco
    data = mujoco.MjData(m)
    state = worlds.get_state()
    data.qpos, data.qvel = state["qpos"][:, world], state["qvel"][:, world]
    mujoco.mj_forward(m, data)
    return m, data


def test_a_robot_told_nothing_stands(quadrupeds):
    quadrupeds.reset(0)
    for _ in range(50):
        outcome = quadrupeds.step(still(quadrupeds))
    assert not np.asarray(outcome.terminated).any()
    assert np.allclose(quadrupeds.get_state()["qpos"][2], quadrupeds.env.anatomy.height, atol=0.05)


def test_velocities_and_gravity_are_seen_from_the_robot(quadrupeds):
    quadrupeds.reset(1)
    for _ in range(5):
        outcome = quadrupeds.step(quadrupeds.sample_actions())
    seen = np.asarray(outcome.observation)
    for world in range(4):
        _, data = oracle(quadrupeds, world)
        rotation = data.body("torso").xmat.reshape(3, 3)
        front = rotation[:2, 0] / np.linalg.norm(rotation[:2, 0])
        left = np.array([-front[1], front[0]])
        expected = [front @ data.qvel[:2], left @ data.qvel[:2], data.qvel[2]]
        assert seen[:3, world] == pytest.approx(expected, abs=1e-4)
        assert seen[3:6, world] == pytest.approx(data.sensor("gyro").data, abs=1e-4)
        assert seen[6:9, world] == pytest.approx(rotation.T @ [0, 0, -1], abs=1e-5)


def test_commands_last_for_their_time_and_some_are_to_stand(quadrupeds):
    quadrupeds.reset(2)
    before = quadrupeds.get_state()["command"]
    for _ in range(19):
        quadrupeds.step(still(quadrupeds))
    alive = quadrupeds.get_state()["step"] == 19
    assert (quadrupeds.get_state()["command"] == before)[:, alive].all()
    quadrupeds.step(still(quadrupeds))
    after = quadrupeds.get_state()["command"]
    assert (np.abs(after - before).max(0) > 0)[alive].mean() > 0.9
    many = make("legged", 2048, standing_share=0.25).get_state()["command"]
    assert (many == 0).all(0).mean() == pytest.approx(0.25, abs=0.05)
    assert -0.5 <= many[0].min() < -0.4 and 0.9 < many[0].max() <= 1.0


def test_what_an_episode_earned_is_reported_term_by_term():
    worlds = make("legged", 8, jerk_cost_weight=0.0)
    rng = np.random.default_rng(0)
    total = np.zeros(8)
    worlds.set_state(step=np.full(8, 990))
    for _ in range(10):
        outcome = worlds.step(rng.uniform(-1, 1, (12, 8)).astype(np.float32))
        total += np.asarray(outcome.reward)
    report = worlds.episode_statistics.report
    terms = [value for name, value in report.items() if name.startswith("reward_")]
    assert "reward_velocity" in report and "reward_jerk" not in report
    assert sum(terms) == pytest.approx(total.mean(), rel=1e-4)
    assert 0 < report["velocity_error"] < 2


def test_going_as_told_earns_the_whole_tracking_reward():
    env = make_env("legged")
    for command, earns in (((0.5, 0.0, 0.0), 1.0), ((-0.5, 0.0, 0.0), np.exp(-1.0 / 0.4**2))):
        worlds = make(make_env("legged"), 1, 0, "scalar")
        qvel = np.zeros((18, 1))
        qvel[0] = 0.5
        home = np.array(env.anatomy.home)[:, None]
        worlds.set_state(qpos=home, qvel=qvel, command=np.array(command)[:, None])
        worlds.env.physics_step = lambda model, state, ctrl, **how: state  # nothing moves
        worlds.step(np.zeros((12, 1)))
        paid = worlds.get_state()["paid"][:2, 0]
        assert paid == pytest.approx([1.5 * earns, 1.0], rel=1e-5)


def test_robots_begin_just_on_the_ground():
    for name in ("quadruped", "biped"):
        worlds = make("legged", 8, model=name)
        for world in range(8):
            m, data = oracle(worlds, world)
            m.geom_margin[:] = 0.02
            mujoco.mj_forward(m, data)
            assert min(contact.dist for contact in data.contact) == pytest.approx(0.0, abs=1e-5)


def test_neighbouring_feet_are_lifted_by_turns():
    gait = Gait.of(4, 0.3, None)
    for phase in np.linspace(0, 0.99, 23):
        heights = gait.heights(phase, True)
        assert heights[0] == heights[2] and heights[1] == heights[3]
        assert min(heights[0], heights[1]) == 0.0 and max(heights) <= gait.clearance
    assert gait.heights(0.2, False) == (0.0,) * 4
    assert gait.after(0.9, 0.2 * gait.period) == pytest.approx(0.1)


def test_a_robot_that_lies_on_its_side_has_fallen(quadrupeds):
    quadrupeds.reset(3)
    qpos = quadrupeds.get_state()["qpos"].copy()
    qpos[3:7, 0] = [np.sqrt(0.5), np.sqrt(0.5), 0, 0]
    qpos[2, 1] = 0.1
    quadrupeds.set_state(qpos=qpos)
    terminated = np.asarray(quadrupeds.step(still(quadrupeds)).terminated)
    assert terminated[:2].all() and not terminated[2:].any()


def test_history_and_noise_are_seen():
    plain, rich = make("legged", 16), make("legged", 16, history=2, observation_noise=1.0)
    features = plain.env.groups[0].observation.size
    assert rich.env.groups[0].observation.size == 3 * features
    action = np.random.default_rng(0).uniform(-1, 1, (12, 16)).astype(np.float32)
    first = np.asarray(rich.step(action).observation)
    second = np.asarray(rich.step(action).observation)
    going = rich.get_state()["step"] == 2
    assert np.array_equal(second[features : 2 * features, going], first[:features, going])
    exact = np.asarray(plain.step(action).observation)
    off = np.abs(first[:features] - exact).max(1)
    assert (off[9:14] == 0).all()  # the command and the clock
    assert 0.01 < off[14:26].max() <= 0.0201  # joints, in rad
    assert 0.05 < off[26:38].max() <= 0.101  # their speeds, in 10 rad/s


@pytest.mark.parametrize("ground", ["rough", "stairs"])
def test_uneven_ground_is_seen_and_gets_harder_with_success(ground):
    worlds = make("legged", 16, ground=ground, levels=4, start_level=2, max_ahead=0.5)
    flat = make_env("legged").groups[0].observation.size
    assert worlds.env.groups[0].observation.size == flat + 21
    worlds.set_state(step=np.full(16, 999), covered=np.repeat([900.0, 100.0], 8))
    worlds.step(still(worlds))
    assert worlds.get_state()["level"].tolist() == [3] * 8 + [1] * 8


def test_uneven_ground_is_judged_on_its_middle_level():
    env = make_env("legged", ground="rough", levels=6, velocity_reward_weight=0.0)
    assert (make(env.for_evaluation(), 4).get_state()["level"] == 3).all()
    assert (make(env, 4).get_state()["level"] == 0).all()
    first, second = make(env, 4), make(env, 8)
    for worlds in (second, first):
        worlds.step(still(worlds))
    fixed = make_env("legged", ground="rough", curriculum=False)
    assert fixed.for_evaluation() is fixed


def test_servos_with_gears_go_where_they_are_told(tmp_path):
    text = (MODELS / "quadruped.xml").read_text()
    text = text.replace('<position kp="40" kv="1"', '<position kp="10" kv="0.25" gear="-2"')
    for low, high in (("-0.8", "0.8"), ("-0.8", "2.4"), ("-2.6", "-0.6")):
        new = sorted((-2 * float(low), -2 * float(high)))
        text = text.replace(f'ctrlrange="{low} {high}"', f'ctrlrange="{new[0]} {new[1]}"')
    (tmp_path / "geared.xml").write_text(text)
    geared, plain = make("legged", 4, model=str(tmp_path / "geared.xml")), make("legged", 4)
    action = np.random.default_rng(0).uniform(-0.3, 0.3, (12, 4)).astype(np.float32)
    for _ in range(10):
        geared.step(action)
        plain.step(action)
    assert geared.get_state()["qpos"][7:] == pytest.approx(plain.get_state()["qpos"][7:], abs=0.02)


def test_a_weak_servo_wants_to_go_less_far():
    env = make_env("legged", random_strength=0.5)
    state = make(env, 1, 0, "scalar").get_state()
    qpos = tuple(env.anatomy.home)
    made = LeggedState(qpos, (0.0,) * 18, (0.0,) * 18, 0.0, 0, drawn=(0.5,) * 12)
    told = env.drive(made, (1.0,) * 12)
    assert told[1] - qpos[8] == pytest.approx(0.5 * env.action_scale)
    assert state["drawn"].shape == (12, 1)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"model": "no_such_robot.xml"}, "no_such_robot.xml"),
        ({"control_time": 0.0}, "control_time"),
        ({"ground": "rough", "levels": 3, "start_level": 3}, "start_level"),
        ({"ground": "sand"}, "sand"),
        ({"history": -1}, "history"),
        ({"gait_period": 0.0}, "gait_period"),
        ({"standing_share": 2.0}, "standing_share"),
        ({"max_ahead": -1.0}, "max_ahead"),
        ({"feet": "torso,rear_left_foot"}, "base"),
        ({"feet": "rear_left_foot,rear_left_foot"}, "same"),
        ({"feet": "paw"}, "paw"),
    ],
)
def test_bad_options_are_refused_by_name(options, told):
    with pytest.raises(ValueError, match=told):
        make_env("legged", **options)
