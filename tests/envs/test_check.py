"""`check` finds what is wrong with a world, and nothing wrong with a sound one."""

from __future__ import annotations

from functools import partial

import drjit as dr
import pytest
from broken_worlds import FOUND_BY, NobodyPlays
from small_worlds import Drift, Leaving, Masked, Position

from slipstream.envs import Group
from slipstream.envs.check import PROPERTIES, Subject, _run, check
from slipstream.envs.locomotion.half_cheetah import HalfCheetah
from slipstream.envs.registry import NAMES, make_env
from slipstream.spaces import Box, Discrete


@pytest.mark.parametrize("env", FOUND_BY, ids=lambda e: e.__name__)
def test_every_mistake_is_found_by_the_test_for_it(env):
    name = FOUND_BY[env]
    result = _run(name, PROPERTIES[name], Subject(env, num_worlds=6, num_steps=30, seed=0, backend="llvm"))
    assert not result.passed
    for problem in result.problems:
        assert problem.field and problem.expected and problem.got


@pytest.mark.parametrize("env", [Drift, Masked, Leaving])
def test_sound_worlds_pass(env):
    results = check(env, num_worlds=5, num_steps=25)
    assert [r.name for r in results] == list(PROPERTIES)
    assert [p for r in results for p in r.problems] == []


ROBOTS = [name for name, place in NAMES.items() if "locomotion" in place or "dm_control" in place]
LARGE = [name for name in ROBOTS if name.startswith("humanoid") and name != "humanoid-run"]
"""In plain Python a humanoid takes minutes; one of them is always checked."""
LARGE += [name for name in ROBOTS if name.startswith("dm-") and name not in ("dm-hopper-hop", "dm-reacher-easy")]
PARITY = "compiled and scalar agree"


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in LARGE else []) for n in ROBOTS])
def test_robots_pass(name):
    subject = Subject(partial(make_env, name), num_worlds=2, num_steps=3, seed=0, backend="llvm")
    assert [p for n, test in PROPERTIES.items() for p in _run(n, test, subject).problems] == []


@pytest.mark.parametrize("name", ["half-cheetah", "inverted-double-pendulum"])
def test_robots_pass_for_many_steps(name):
    subject = Subject(partial(make_env, name), num_worlds=4, num_steps=15, seed=0, backend="llvm")
    assert _run(PARITY, PROPERTIES[PARITY], subject).problems == ()


class Stronger(HalfCheetah):
    """The compiled robot's motors are stronger by one part in a thousand."""

    def drive(self, state, action):
        return tuple(1.001 * a if dr.is_jit_v(a) else a for a in super().drive(state, action))


class Lazier(HalfCheetah):
    """The compiled robot observes half of its last velocity."""

    def observe(self, state):
        *others, last = super().observe(state)
        return (*others, 0.5 * last if dr.is_jit_v(last) else last)


@pytest.mark.parametrize("robot", [Stronger, Lazier])
def test_a_robot_that_really_differs_is_found(robot):
    result = _run(PARITY, PROPERTIES[PARITY], Subject(robot, num_worlds=2, num_steps=3, seed=0, backend="llvm"))
    assert any(p.field.startswith("observation/cheetah") for p in result.problems)


class Coupled(Drift):
    """Two numbers, the smaller one of which the compiled world gets wrong by 3e-5 of the larger one."""

    groups = (Group("point", Box(2), Box(1, -1.0, 1.0)),)
    tolerances = {"observation": 1e-4}

    def observe(self, state):
        return 100.0 + 0.0 * state.x, 0.01 + 0.003 * dr.is_jit_v(state.x) + 0.0 * state.x


class Uncoupled(Coupled):
    tolerances = {}


class Misnamed(Coupled):
    tolerances = {"velocity": 1e-4}


def test_a_world_says_which_numbers_share_their_rounding():
    found = {
        env: _run(PARITY, PROPERTIES[PARITY], Subject(env, 4, 3, 0, "llvm")).problems
        for env in (Coupled, Uncoupled, Misnamed)
    }
    assert found[Coupled] == ()
    assert {p.field for p in found[Uncoupled]} == {"observation/point#1", "final_observation/point#1"}
    assert "velocity" in found[Misnamed][0].got


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ROBOTS])
def test_our_own_worlds_pass(name):
    few = {"num_taggers": 2} if name.startswith("tag") else {}
    results = check(name, num_worlds=4, num_steps=15, **few)
    assert [p for r in results for p in r.problems] == []


def test_full_observations_of_tag_pass():
    for name in ("tag-gridworld", "tag-continuous"):
        full = partial(make_env, name, num_taggers=3, full_observation=True)
        subject = Subject(full, num_worlds=4, num_steps=12, seed=1, backend="llvm")
        assert _run(PARITY, PROPERTIES[PARITY], subject).problems == ()


class OnAnEdge(Drift):
    """Whether 0.1 + 0.2 is more than 0.3 is left to rounding."""

    def reset(self, rng):
        rng.uniform()
        return Position(0.1)

    def step(self, state, action, rng):
        above = state.x + 0.2 > 0.3
        return state, dr.select(above, 10.0, -10.0), False


class OffTheEdge(OnAnEdge):
    """The compiled world is wrong by more than rounding."""

    def step(self, state, action, rng):
        limit = 0.30005 if dr.is_jit_v(state.x) else 0.29995
        return state, dr.select(state.x + 0.2 > limit, 10.0, -10.0), False


def test_a_discontinuity_that_rounding_decides_is_no_mistake():
    result = _run(PARITY, PROPERTIES[PARITY], Subject(OnAnEdge, 4, 3, 0, "llvm"))
    assert result.passed
    assert "explained by rounding" in result.note


def test_a_discontinuity_that_is_displaced_is_one():
    result = _run(PARITY, PROPERTIES[PARITY], Subject(OffTheEdge, 4, 3, 0, "llvm"))
    assert {p.field for p in result.problems} >= {"reward/point"}
    first = result.problems[0]
    assert (first.world, first.step, first.expected, first.got) == (0, 1, "10", "-10")


class FixedStart(Drift):
    groups = (Group("point", Box(1), Discrete(2)),)

    def reset(self, rng):
        return Position(0.0)

    def step(self, state, action, rng):
        return Position(state.x + action * 0.1), 0.0, False


def test_a_world_that_always_starts_alike_on_purpose_passes_with_a_note():
    name = "resets differ"
    result = _run(name, PROPERTIES[name], Subject(FixedStart, 4, 3, 0, "llvm"))
    assert result.passed and "starts alike" in result.note


class HalfPlay(Leaving):
    """Nobody watches."""

    def reset(self, rng):
        state = super().reset(rng)
        state.alive["watcher"] = False
        return state


def test_a_group_that_never_plays_is_noted_and_a_world_where_nobody_does_fails():
    name = "agents play"
    result = _run(name, PROPERTIES[name], Subject(HalfPlay, 4, 10, 0, "llvm"))
    assert result.passed and result.note == "no agent of watcher was in the game in 10 steps of 4 worlds"
    (problem,) = _run(name, PROPERTIES[name], Subject(NobodyPlays, 4, 10, 0, "llvm")).problems
    assert (problem.field, problem.expected) == ("active", "an agent that is in the game")
    assert "none in 10 steps of 4 worlds" in problem.got


def test_a_world_that_cannot_be_built_is_not_tested_further():
    broken = next(env for env, name in FOUND_BY.items() if name == "builds")
    assert [r.name for r in check(broken, num_worlds=2, num_steps=2)] == ["builds"]


@pytest.mark.parametrize(("worlds", "steps"), [(1, 10), (10, 0), (-1, 10)])
def test_too_little_to_check_with_is_refused(worlds, steps):
    with pytest.raises(ValueError, match="must be at least 2"):
        check(Drift, num_worlds=worlds, num_steps=steps)
