"""The same state and action lead to the same observation, reward and end as in Gymnasium.

Compiled worlds compute in float32. A control step is up to 20 solves of stiff contacts, each of which
multiplies rounding errors (6e-8) by the condition of the problem: over 200 states of each robot the largest
relative error measured is 3e-5 in an observation and 2e-5 in a reward. The scalar backend computes in float64,
and its observations are rounded to float32 only in the end.
"""

from __future__ import annotations

import numpy as np
import pytest
from judge import (
    ROBOTS,
    Cases,
    gymnasium_env,
    observation_error,
    our_step,
    reward_error,
    sharpen,
    visited_cases,
)

from slipstream.envs.registry import make_env

FLOAT32 = 1e-4
ROUNDED_FLOAT64 = 1e-6
PAYS_FOR_CONTACTS = {"humanoid", "humanoid-standup", "ant"}
OFTEN_ENDS = {"humanoid", "hopper", "walker2d", "inverted-pendulum", "inverted-double-pendulum"}


@pytest.fixture(scope="module", params=ROBOTS)
def case(request) -> tuple[str, Cases]:
    env = gymnasium_env(request.param)
    sharpen(env)
    return request.param, visited_cases(env, 100)


def test_the_compiled_step_is_gymnasiums(case):
    name, cases = case
    observation, reward, terminated = our_step(name, cases)
    assert observation_error(observation, cases).max() < FLOAT32
    assert reward_error(reward, cases).max() < FLOAT32
    assert (terminated == cases.terminated).all()
    if name in OFTEN_ENDS:
        assert 0 < cases.terminated.sum() < len(terminated)
    if name in PAYS_FOR_CONTACTS:
        assert (cases.contact_cost > 0).sum() > 10


def test_the_scalar_step_is_gymnasiums_to_rounding(case):
    name, cases = case
    some = Cases(*(column[::40] for column in vars(cases).values()))
    observation, reward, terminated = our_step(name, some, backend="scalar")
    assert observation_error(observation, some).max() < ROUNDED_FLOAT64
    assert reward_error(reward, some).max() < ROUNDED_FLOAT64
    assert (terminated == some.terminated).all()


@pytest.mark.parametrize("name", ROBOTS)
def test_unmodified_gymnasium_is_close(name):
    """Where Gymnasium stops the solver early, or rewards positions from before the end of the step."""
    cases = visited_cases(gymnasium_env(name), 100, seed=1)
    observation, reward, terminated = our_step(name, cases)
    assert observation_error(observation, cases).max() < 1e-3
    assert np.median(reward_error(reward, cases)) < 1e-3
    assert reward_error(reward, cases).max() < 0.1
    assert (terminated == cases.terminated).mean() > 0.98


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("hopper", {"forward_reward_weight": 2.0, "ctrl_cost_weight": 0.3, "healthy_reward": 0.5, "frame_skip": 2}),
        ("hopper", {"healthy_state_range": (-3.0, 3.0), "healthy_angle_range": (-1.0, 1.0)}),
        ("walker2d", {"healthy_z_range": (1.2, 1.3), "exclude_current_positions_from_observation": False}),
        ("walker2d", {"terminate_when_unhealthy": False, "xml_file": "walker2d.xml"}),
        ("half-cheetah", {"ctrl_cost_weight": 1.0, "exclude_current_positions_from_observation": False}),
        ("ant", {"main_body": 3, "healthy_z_range": (0.5, 0.7), "contact_cost_weight": 0.0}),
        ("ant", {"contact_cost_weight": 0.1, "contact_force_range": (-2.0, 0.5)}),
        ("humanoid", {"contact_cost_weight": 1e-5, "contact_cost_range": (1.0, 5.0)}),
        ("humanoid-standup", {"impact_cost_weight": 1e-4, "impact_cost_range": (2.0, 20.0)}),
        ("swimmer", {"forward_reward_weight": 3.0, "ctrl_cost_weight": 0.1}),
        ("reacher", {"reward_dist_weight": 2.0, "reward_control_weight": 0.5}),
        ("inverted-double-pendulum", {"healthy_reward": 3.0}),
    ],
)
def test_options_mean_what_they_mean_in_gymnasium(name, options):
    env = gymnasium_env(name, **options)
    sharpen(env)
    cases = visited_cases(env, 40, seed=2)
    observation, reward, terminated = our_step(name, cases, **options)
    assert observation_error(observation, cases).max() < FLOAT32
    assert reward_error(reward, cases).max() < FLOAT32
    assert (terminated == cases.terminated).all()


@pytest.mark.parametrize("name", ROBOTS)
def test_spaces_and_time_limits_are_gymnasiums(name):
    env, ours = gymnasium_env(name), make_env(name)
    group = ours.groups[0]
    assert env.observation_space.shape == (group.observation.size,)
    assert env.action_space.low == pytest.approx(group.action.lows)
    assert env.action_space.high == pytest.approx(group.action.highs)
    assert env.spec.max_episode_steps == ours.max_steps
    assert env.unwrapped.dt == pytest.approx(ours.time_step)
    assert ours.model.options.integrator == {0: "euler", 1: "rk4"}[env.unwrapped.model.opt.integrator]
