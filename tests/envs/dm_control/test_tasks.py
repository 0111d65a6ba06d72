"""The suite's tasks: the same state and action lead to the same observation and reward as in dm_control."""

from __future__ import annotations

import numpy as np
import pytest
from suite_judge import (
    TASKS,
    dm_control_env,
    observation_errors,
    our_step,
    our_view,
    reward_errors,
    situation,
    visited_cases,
)

from slipstream.envs.dm_control.worlds import TASKS as RECORDS
from slipstream.envs.registry import env_class, make, make_env

FLOAT32 = 1e-4
LOOSE = {"dm-swimmer-swimmer15": 2e-3, "dm-quadruped-run": 1e-3}
"""Fifteen links in a row, and stiff feet whose forces are observed, in float32; in float64 they agree to 1e-7."""
SLOW = ("humanoid", "quadruped", "swimmer15")
"""Their kernels take long to compile."""


def one_of_each(slow: bool) -> list[str]:
    """The last task of each model; the others differ in what is observed and paid, which plain Python tells."""
    last = {(env_class(name).task.file, "15" in name, "spin" in name): name for name in TASKS}
    return [name for name in last.values() if any(model in name for model in SLOW) == slow]


def test_every_task_has_a_world():
    assert [name.removeprefix("dm-") for name in TASKS] == list(RECORDS)


@pytest.mark.parametrize("name", TASKS)
def test_the_same_state_is_seen_and_paid_alike(name):
    env = make_env(name)
    for case in visited_cases(name, 6):
        observation, reward = our_view(env, case)
        np.testing.assert_allclose(observation, case.observation, rtol=1e-6, atol=1e-6)
        assert reward == pytest.approx(case.reward, abs=1e-9)


def check_steps(name: str) -> None:
    cases = visited_cases(name, 48, seed=1, episode=24)
    observation, reward = our_step(name, cases)
    limit = LOOSE.get(name, FLOAT32)
    assert observation_errors(observation, cases).max() < limit
    assert reward_errors(reward, cases).max() < limit
    if env_class(name).task.sensors:
        assert sum(np.abs(case.after.sensed[-8:]).max() > 0.1 for case in cases) > 2


@pytest.mark.parametrize("name", one_of_each(slow=False))
def test_a_control_step_is_dm_controls(name):
    check_steps(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", one_of_each(slow=True))
def test_a_control_step_of_a_large_model_is_dm_controls(name):
    check_steps(name)


@pytest.mark.parametrize("name", one_of_each(slow=True))
def test_a_control_step_of_a_large_model_is_dm_controls_in_plain_python(name):
    cases = visited_cases(name, 4, seed=2)[-1:]
    observation, reward = our_step(name, cases, backend="scalar")
    assert observation_errors(observation, cases).max() < 1e-6
    assert reward_errors(reward, cases).max() < 1e-6


@pytest.mark.parametrize("name", one_of_each(slow=False) + one_of_each(slow=True))
def test_spaces_and_times_are_dm_controls(name):
    theirs, ours = dm_control_env(name), make_env(name)
    group = ours.groups[0]
    spec = theirs.action_spec()
    assert spec.minimum == pytest.approx(group.action.lows) and spec.maximum == pytest.approx(group.action.highs)
    assert theirs.control_timestep() == pytest.approx(ours.time_step)
    assert theirs._step_limit == pytest.approx(ours.max_steps)


def test_a_few_steps_stay_close():
    """Without contacts, where errors do not grow."""
    theirs = dm_control_env("dm-reacher-easy", seed=5)
    theirs.reset()
    begun = situation(theirs, make_env("dm-reacher-easy"))
    worlds = make("dm-reacher-easy", 1)
    worlds.set_state(qpos=begun.qpos[:, None], qvel=begun.qvel[:, None], goal=begun.goal[:, None])
    draw = np.random.default_rng(0)
    for _ in range(50):
        action = draw.uniform(-1, 1, 2)
        expected, found = theirs.step(action), worlds.step(action[:, None])
        seen = np.concatenate([np.ravel(v) for v in expected.observation.values()])
        assert np.asarray(found.final_observation)[:, 0] == pytest.approx(seen, abs=1e-4)


def test_each_term_of_the_reward_is_reported_and_makes_the_return():
    worlds = make("dm-pendulum-swingup", 64, seed=1)
    action = np.zeros((1, 64))
    for _ in range(1000):
        worlds.step(action)
    ended = worlds.episode_statistics
    assert ended.episodes == 64 and 0.0 < ended.report["upright"] < 1.0
    assert 1000 * ended.report["upright"] == pytest.approx(ended.returns["pendulum"], rel=1e-5)


def test_a_single_world_with_elliptic_cones_runs():
    """Arrays of one number are special to Dr.Jit."""
    worlds = make("dm-finger-spin", 1)
    assert np.isfinite(np.asarray(worlds.step(np.ones((2, 1))).observation)).all()
