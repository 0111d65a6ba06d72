"""How episodes of robots begin and end, what they report, and what is said when something is wrong."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from judge import ROBOTS, gymnasium_env

from slipstream.envs.locomotion.robot import Robot
from slipstream.envs.registry import env_options, make, make_env
from slipstream.envs.worlds import Worlds

WORLDS = 512


@pytest.mark.parametrize("name", ROBOTS)
def test_episodes_begin_like_gymnasiums(name):
    """The mean and the spread of every coordinate and velocity, over many resets."""
    env = gymnasium_env(name)
    theirs = []
    env.reset(seed=0)
    for _ in range(WORLDS):
        env.reset()
        theirs.append(np.concatenate([env.unwrapped.data.qpos, env.unwrapped.data.qvel]))
    expected = np.array(theirs).T
    state = make(name, WORLDS).get_state()
    found = np.concatenate([state["qpos"], state["qvel"]])
    spread = expected.std(1)
    assert found.std(1) == pytest.approx(spread, rel=0.2, abs=1e-7)
    assert (np.abs(found.mean(1) - expected.mean(1)) <= 0.3 * spread + 1e-6).all()
    assert (np.abs(found).max(1) <= 1.5 * np.abs(expected).max(1) + 1e-6).all()


def test_an_episode_is_truncated_at_its_time_limit():
    worlds = make("reacher", 8)
    for _ in range(49):
        assert not np.asarray(worlds.step(np.zeros((2, 8))).truncated).any()
    outcome = worlds.step(np.zeros((2, 8)))
    assert np.asarray(outcome.truncated).all() and not np.asarray(outcome.terminated).any()
    assert worlds.episode_statistics.length == 50
    assert 0 < worlds.episode_statistics.report["final_distance"] < 0.5


def test_forward_speed_is_reported():
    worlds = make("half-cheetah", 8)
    worlds.set_state(step=np.full(8, 999))
    state = worlds.get_state()
    qpos = state["qpos"].copy()
    qpos[0] = state["start"] + 100.0
    worlds.set_state(qpos=qpos, qvel=0 * state["qvel"])
    worlds.step(np.zeros((6, 8)))
    assert worlds.episode_statistics.report["forward_speed"] == pytest.approx(100.0 / 50.0, rel=0.01)


@pytest.mark.parametrize("name", ["hopper", "humanoid-flagrun-harder", "reacher", "humanoid-standup"])
def test_what_an_episode_earned_is_reported_term_by_term(name):
    worlds = make(name, 4)
    worlds.set_state(step=np.full(4, worlds.env.max_steps - 1))
    reward = np.asarray(worlds.step(worlds.sample_actions()).reward)
    terms = {n: v for n, v in worlds.episode_statistics.report.items() if n.startswith("reward_")}
    assert list(terms) == [f"reward_{term}" for term in worlds.env.terms] and len(terms) >= 2
    assert sum(terms.values()) == pytest.approx(reward.mean(), rel=1e-4, abs=1e-4)


def test_the_integrator_can_be_chosen():
    assert make_env("hopper", integrator="euler").model.options.integrator == "euler"
    with pytest.raises(ValueError, match="rk4"):
        make_env("hopper", integrator="leapfrog")


def test_the_solver_can_be_bounded():
    model = make_env("hopper", newton_iterations=3).model  # pyright: ignore[reportAttributeAccessIssue]
    assert model.newton_iterations == 3


def test_options_of_all_robots_are_known():
    for name in ROBOTS:
        assert {"xml_file", "frame_skip", "integrator", "random_mass"} <= set(env_options(name))
    with pytest.raises(ValueError, match="ctrl_cost_weight"):
        make_env("hopper", control_cost_weight=1.0)


def test_a_missing_file_is_named():
    with pytest.raises(ValueError, match=r"no model file 'robot.xml'.*hopper.xml"):
        make_env("hopper", xml_file="robot.xml")


def test_without_mujoco_the_way_out_is_named():
    code = "import sys; sys.modules['mujoco'] = None; import slipstream.envs.registry as r; r.make_env('ant')"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Robots need mujoco: pip install slipstream-rl[robots]" in result.stderr


BALLS = """<mujoco><worldbody><geom type="plane" size="5 5 1"/><body pos="0 0 0.1"><freejoint/><geom size="0.1"/>
  <geom size="0.1" pos="0.3 0 0"/></body><body pos="0.15 0 0.2"><joint name="slide" type="slide" axis="0 0 1"/>
  <geom size="0.1"/></body></worldbody><actuator><motor joint="slide" ctrlrange="-1 1"/></actuator></mujoco>"""


class Balls(Robot):
    """A ball that lies on two others."""

    max_steps = 5

    def reset(self, rng):
        return self.start_state(self.model.qpos0, (0.0,) * self.model.nv, rng)

    def step(self, state, action, rng):
        return self.simulate(state, action, rng), 0.0, False

    def observe(self, state):
        return state.qpos


@pytest.mark.parametrize(("self_contacts", "left_out"), [(1, 15.0), (2, None), (0, None)])
def test_contacts_that_are_left_out_are_reported(tmp_path, self_contacts, left_out):
    (tmp_path / "balls.xml").write_text(BALLS)
    worlds = Worlds(Balls(str(tmp_path / "balls.xml"), 3, self_contacts=self_contacts), 4)
    for _ in range(5):
        worlds.step(np.zeros((1, 4)))
    assert worlds.episode_statistics.report.get("contacts_left_out") == left_out
    assert ("dropped" in worlds.state_fields) == (left_out is not None)


def test_a_robot_can_be_loaded_without_the_pairs_that_are_not_simulated(tmp_path):
    file = tmp_path / "can.xml"
    text = BALLS.replace("<worldbody>", '<option><flag nativeccd="disable"/></option><worldbody>')
    file.write_text(
        text.replace('<geom size="0.1"/></body></w', '<geom type="ellipsoid" size="0.1 0.1 0.1"/></body></w')
    )
    with pytest.raises(ValueError, match="leave_out_pairs"):
        Balls(str(file), 3)
    assert len(Balls(str(file), 3, leave_out_pairs=True).model.left_out.geoms) == 2
    assert "leave_out_pairs" in env_options("hopper")
