"""Robots that differ: what is drawn, what it does, and that it leaves no trace when it is off."""

from __future__ import annotations

import numpy as np
import pytest

from slipstream.envs.locomotion.robot import Robot
from slipstream.envs.registry import make, make_env
from slipstream.envs.worlds import Worlds

EVERYTHING = {
    "random_mass": 0.2,
    "random_friction": 0.3,
    "random_strength": 0.1,
    "random_latency": 2,
    "random_push": 0.5,
    "push_interval": 0.1,
}


def test_off_leaves_no_trace():
    assert make("hopper", 4).state_fields == ["qpos", "qvel", "qacc", "start", "paid", "step"]


@pytest.mark.parametrize("name", ["ant", "hopper", "reacher", "inverted-double-pendulum"])
def test_every_robot_can_be_randomised(name):
    worlds = make(name, 64, **EVERYTHING)
    model = worlds.env.model
    drawn = worlds.get_state()["drawn"]
    links = len(model.links) - 1
    assert drawn.shape == (links + 1 + model.nu + 1, 64)
    for rows, spread in ((drawn[:links], 0.2), (drawn[links], 0.3), (drawn[links + 1 : -1], 0.1)):
        assert 0.5 * spread < np.abs(rows - 1.0).max() <= spread
    assert set(drawn[-1]) == {0.0, 1.0, 2.0}
    for _ in range(3):
        outcome = worlds.step(worlds.sample_actions())
    assert np.isfinite(np.asarray(outcome.observation)).all()
    assert worlds.episode_statistics.broken == 0


def test_strength_scales_what_motors_do():
    weak, plain = make("half-cheetah", 8, random_strength=0.5), make("half-cheetah", 8)
    start = plain.get_state()
    state = {"qpos": start["qpos"], "qvel": start["qvel"]}
    weak.set_state(**state, drawn=np.full((6, 8), 0.5))
    action = np.random.default_rng(0).uniform(-1, 1, (6, 8))
    found = weak.step(action)
    plain.set_state(**state)
    expected = plain.step(0.5 * action)
    assert np.asarray(found.observation) == pytest.approx(np.asarray(expected.observation), abs=1e-5)


def test_actions_arrive_late():
    late, plain = make("half-cheetah", 9, random_latency=2), make("half-cheetah", 9)
    start = plain.get_state()
    delay = np.arange(9) % 3
    late.set_state(qpos=start["qpos"], qvel=start["qvel"], drawn=delay.astype(float))
    actions = np.random.default_rng(0).uniform(-1, 1, (5, 6, 9))
    for k in range(5):
        found = late.step(actions[k])
        due = np.stack([actions[k - d, :, i] if k >= d else np.zeros(6) for i, d in enumerate(delay)], -1)
        expected = plain.step(due)
        assert np.asarray(found.observation) == pytest.approx(np.asarray(expected.observation), abs=1e-2)


class Ball(Robot):
    """A ball in space with a small rotor, at rest until it is pushed."""

    def __init__(self, **robot):
        super().__init__(frame_skip=2, **robot)

    def reset(self, rng):
        return self.start_state(self.model.qpos0, [0.0] * self.model.nv, rng)

    def step(self, state, action, rng):
        return self.simulate(state, action, rng), 0.0, False

    def observe(self, state):
        return state.qvel[:3]


BALL = """<mujoco><option gravity="0 0 0" timestep="0.01"/><worldbody><body><freejoint/>
  <inertial pos="0 0 0" mass="2" diaginertia="1 1 1"/>
  <body><joint name="rotor"/><inertial pos="0 0 0" mass="1e-5" diaginertia="1e-6 1e-6 1e-6"/></body>
  </body></worldbody><actuator><motor joint="rotor" ctrllimited="true" ctrlrange="-1 1"/></actuator></mujoco>"""


def test_pushes_have_the_stated_strength_and_frequency(tmp_path):
    file = tmp_path / "ball.xml"
    file.write_text(BALL)
    worlds = Worlds(Ball(xml_file=str(file), random_push=0.7, push_interval=0.2), 2000)
    x, y, z = np.asarray(worlds.step(np.zeros((1, 2000))).observation)
    speed = np.hypot(x, y)
    pushed = speed > 0
    assert pushed.mean() == pytest.approx(0.02 / 0.2, abs=0.03)
    assert speed[pushed] == pytest.approx(0.7, rel=1e-3)
    assert np.abs(z).max() == 0
    assert np.abs(np.exp(1j * np.arctan2(y, x)[pushed]).mean()) < 0.2


def test_mass_and_friction_change_the_motion_and_draw_anew_each_episode():
    worlds = make("hopper", 64, random_mass=0.3, random_friction=0.3)
    first = worlds.get_state()["drawn"]
    worlds.reset()
    assert (worlds.get_state()["drawn"] != first).mean() > 0.9
    state = worlds.get_state()
    same = {name: np.repeat(state[name][:, :1], 64, axis=1) for name in ("qpos", "qvel")}
    worlds.set_state(**same)
    for _ in range(5):
        outcome = worlds.step(np.full((3, 64), 0.5))
    assert np.asarray(outcome.observation).std(1).min() > 0


@pytest.mark.parametrize(
    "options",
    [{"random_mass": 1.0}, {"random_friction": -0.1}, {"random_latency": 0.5}, {"random_push": -1.0}],
)
def test_senseless_amounts_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        make_env("hopper", **options)


def test_a_push_interval_must_be_positive():
    with pytest.raises(ValueError, match="push_interval"):
        make_env("hopper", push_interval=0.0)
