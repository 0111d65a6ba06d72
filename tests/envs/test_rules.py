"""What the system says about rules that do not fit their declaration."""

from dataclasses import dataclass

import pytest
from small_worlds import Drift, Position

from slipstream.envs import Float, Group, Worlds
from slipstream.envs.transition import RulesError
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
