"""What the system says about rules that do not fit their declaration."""

import inspect
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import drjit as dr
import numpy as np
import pytest
import untraceable_worlds
from small_worlds import Drift, Position

from slipstream.arrays import array_types
from slipstream.cli.main import main
from slipstream.envs import Float, Group, Worlds
from slipstream.envs.check import check
from slipstream.envs.registry import make_env
from slipstream.envs.rules import RulesError, numpy_in_reach
from slipstream.spaces import Box, Discrete

every_backend = pytest.mark.parametrize("backend", ["llvm", "scalar"])


def play(env, backend):
    worlds = Worlds(env, 2, backend=backend)
    worlds.step(worlds.sample_actions())


@dataclass
class Other:
    y: Float


class TooMany(Drift):
    def observe(self, state):
        return state.x, state.x


class NotATuple(Drift):
    def observe(self, state):
        return state.x


class NoDataclass(Drift):
    def reset(self, rng):
        return (rng.uniform(),)


class OtherState(Drift):
    def step(self, state, action, rng):
        return Other(state.x), 0.0, False


class TwoResults(Drift):
    def step(self, state, action, rng):
        return state, 0.0


class ShortMask(Drift):
    groups = (Group("one", Box(1), Discrete(3)),)

    def step(self, state, action, rng):
        return state, 0.0, False

    def action_mask(self, state):
        return [True, True]


class BareReward(Drift):
    groups = (Group("a", Box(1), Discrete(2)), Group("b", Box(1), Discrete(2)))

    def step(self, state, action, rng):
        return state, 0.0, False

    def observe(self, state):
        return {"a": (state.x,), "b": (state.x,)}


class MissingReward(BareReward):
    def step(self, state, action, rng):
        return state, {"a": 0.0}, False


class UnknownGroup(Drift):
    def reset(self, rng):
        return Position({"wolf": 0.0})


@every_backend
@pytest.mark.parametrize(
    ("env", "message"),
    [
        (TooMany, r"returned 2 features for group 'point', which declares Box\(1\)"),
        (NotATuple, r"declares Box\(1\); return a tuple"),
        (NoDataclass, "must return a dataclass, not tuple"),
        (OtherState, "must return a Position"),
        (TwoResults, r"must return \(state, reward, terminated\)"),
        (ShortMask, "returned 2 flags for group 'one', whose discrete actions have 3 choices"),
        (BareReward, r"several groups \(a, b\): return a dictionary"),
        (MissingReward, "no reward for b"),
        (UnknownGroup, "of a group 'wolf'; the groups are"),
    ],
)
def test_the_error_names_what_does_not_fit(backend, env, message):
    with pytest.raises(RulesError, match=message):
        play(env(), backend)


def test_worlds_need_groups_with_different_names_and_a_positive_limit():
    class NoGroups(Drift):
        groups = ()

    class Twins(Drift):
        groups = Drift.groups * 2

    class NoTime(Drift):
        max_steps = 0

    for env, message in ((NoGroups, "declares no groups"), (Twins, "names must differ"), (NoTime, "got 0")):
        with pytest.raises(ValueError, match=message):
            Worlds(env(), 2)
    with pytest.raises(ValueError, match="'pack' needs at least one agent, got size=0"):
        Group("pack", Box(1), Discrete(2), 0)


# What cannot be traced. In the process of the tests a case that is not caught would end them all.

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def said():
    command = [sys.executable, str(HERE / "untraceable_worlds.py")]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr[-2000:]
    return json.loads(finished.stdout)


@pytest.mark.parametrize("num_worlds", [1, 3])
@pytest.mark.parametrize("env", untraceable_worlds.CASES, ids=lambda env: env.__name__)
def test_what_cannot_be_traced_is_named_by_file_and_line_with_a_way_out(said, env, num_worlds):
    kind, text = said[f"{env.__name__} {num_worlds}"]
    assert kind == "RulesError"
    assert untraceable_worlds.CASES[env] in text
    place, _, rest = text.partition(", in ")
    file, _, line = place.rpartition(":")
    assert Path(file).resolve() == HERE / "untraceable_worlds.py"
    source = inspect.getsource(untraceable_worlds).splitlines()[int(line) - 1].strip()
    assert source.endswith("# here") and f"`{source}`" in rest
    assert "\n" not in text


@pytest.mark.parametrize("command", ["check", "train"])
def test_commands_say_it_too(command, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    world = tmp_path / "mine.py"
    world.write_text(
        "from slipstream.envs.classic.cartpole import CartPole\n\n\nclass Mine(CartPole):\n"
        "    def step(self, state, action, rng):\n        return state, 1.0 if state.x > 0 else 0.0, False\n"
    )
    assert main([command, "mine.py:Mine"]) == {"check": 1, "train": 2}[command]
    shown = capsys.readouterr()
    text = "".join((shown.out + shown.err).split())
    assert "mine.py:6,instep" in text and "dr.select(" in text.replace("│", "")


class Foreign(Drift):
    """Reads an array that nobody has told the system of."""

    def __init__(self):
        self.map = array_types("llvm").Float([1.0, 2.0, 3.0])
        dr.make_opaque(self.map)

    def step(self, state, action, rng):
        return state, dr.gather(type(self.map), self.map, dr.uint32_array_t(state.x)(1)) * state.x, False


class Returns(Drift):
    def step(self, state, action, rng):
        return state, np.ones(2, np.float32), False


def test_arrays_that_are_no_part_of_the_state_are_named():
    with pytest.raises(RulesError, match=r"The rules of Foreign use an array.*Env\.tables"):
        play(Foreign(), "llvm")
    with pytest.raises(RulesError, match=r"The reward that Returns\.step returned is a numpy\.ndarray"):
        play(Returns(), "scalar")


class Scalars(Drift):
    """Constants of NumPy are numbers like any other."""

    scale = np.array([0.5, 0.25], np.float32)

    def reset(self, rng):
        return Position(rng.uniform() + np.float64(0.1))

    def step(self, state, action, rng):
        moved = state.x * float(self.scale[0]) + self.scale.sum().item() + np.pi
        return Position(moved), np.float32(1.0), np.bool_(False)


def test_numbers_of_numpy_are_numbers():
    assert [p for r in check(Scalars, num_worlds=3, num_steps=5) for p in r.problems] == []


def test_only_worlds_in_reach_of_numpy_are_traced_twice():
    assert numpy_in_reach(Scalars()) and numpy_in_reach(untraceable_worlds.If())
    assert not numpy_in_reach(make_env("humanoid-flagrun-harder-terrain"))  # it has arrays, but it is one of ours
    assert not numpy_in_reach(Drift())


def test_arrays_convert_as_ever_outside_of_rules():
    worlds = Worlds(Drift(), 2, backend="llvm")
    worlds.step(worlds.sample_actions())
    array = array_types("llvm").Float([1.0, 4.0])
    np.testing.assert_array_equal(np.sqrt(array), [1.0, 2.0])
    assert dr.all(array > 0.5) and max(array_types("llvm").Float(3.0), 2.0) == 3.0
