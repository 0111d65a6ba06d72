"""Worlds with one mistake each, and the test of `slipstream check` that must find it."""

from __future__ import annotations

import random

import drjit as dr
from small_worlds import Drift, Position

from slipstream.envs import Group
from slipstream.spaces import Box, Discrete


class OtherRulesWhenCompiled(Drift):
    """Does something else where it is compiled."""

    def step(self, state, action, rng):
        factor = 1.01 if dr.is_jit_v(state.x) else 1.0
        return Position(state.x * factor + 0.1 * action[0]), 0.0, False


class CountsCalls(Drift):
    """Counts its steps in Python, which happens once where the step is recorded."""

    calls = 0

    def step(self, state, action, rng):
        self.calls += 1
        return Position(state.x * 0.5 + self.calls), 0.0, False


class Overflows(Drift):
    """Whole numbers have 32 bits where they are compiled, and as many as it takes in Python."""

    groups = (Group("point", Box(1), Discrete(2)),)

    def step(self, state, action, rng):
        large = (action + 1) * 2_000_000_000
        return state, dr.select(large > 0, 1.0, 0.0), False


class Dice(Drift):
    """Draws a number of its own."""

    def step(self, state, action, rng):
        return Position(state.x * 0.9 + random.random()), 0.0, False


class Meets(Drift):
    """Looks at all worlds at once."""

    def step(self, state, action, rng):
        mean = dr.mean(state.x) if dr.is_jit_v(state.x) else state.x
        return Position(0.5 * state.x + 0.5 * mean), 0.0, False


class Counted(Drift):
    """Depends on how many worlds there are."""

    def step(self, state, action, rng):
        others = len(state.x) if dr.is_jit_v(state.x) else 1
        return Position(state.x + 0.001 * others), 0.0, False


class Contagious(Drift):
    """A world that looks at its neighbour catches what it has."""

    def step(self, state, action, rng):
        if not dr.is_jit_v(state.x):
            return state, 0.0, False
        lane = dr.arange(dr.uint32_array_t(type(state.x)), len(state.x))
        left = dr.gather(type(state.x), state.x, dr.select(lane == 0, 0, lane - 1))
        return (
            Position(state.x + 0.0 * dr.minimum(left, 1.0) + dr.select(dr.isnan(left), 1.0, 0.0)),
            0.0,
            False,
        )


class Explodes(Drift):
    """Leaves the numbers that there are."""

    def step(self, state, action, rng):
        return Position(state.x * 1e9), 0.0, False


class InfiniteReward(Drift):
    """Divides by something that is 0 now and then."""

    def step(self, state, action, rng):
        reward = dr.select(action[0] > 0.5, float("inf"), 1.0)
        return state, reward, False


class UndefinedObservation(Drift):
    def observe(self, state):
        return (dr.sqrt(state.x) if dr.is_jit_v(state.x) else abs(state.x) ** 0.5,)


class OutOfBounds(Drift):
    """Observes what its space excludes."""

    groups = (Group("point", Box(1, -0.4, 0.4), Box(1, -1.0, 1.0)),)


class NothingAllowed(Drift):
    groups = (Group("point", Box(1), Discrete(2)),)

    def step(self, state, action, rng):
        return Position(state.x + 0.1), 0.0, False

    def action_mask(self, state):
        return [state.x < 0.5, state.x < 0.5]


class NobodyPlays(Drift):
    """Its agents are out of the game from the beginning."""

    def active(self, state):
        return state.x > 100.0


class WrongCount(Drift):
    def observe(self, state):
        return (state.x, state.x)


class UsesIf(Drift):
    def step(self, state, action, rng):
        if state.x > 0:
            return state, 1.0, False
        return state, 0.0, False


class SameStartForEver(Drift):
    """Draws a start once and keeps it."""

    start = None

    def reset(self, rng):
        if self.start is None:
            self.start = rng.uniform(-0.5, 0.5)
        return Position(self.start)


class SameStartEverywhere(Drift):
    """Throws its random number away."""

    def reset(self, rng):
        return Position(0.0 * rng.uniform())


class BreaksAtTheLimit(Drift):
    """Fine for every action but the highest."""

    def step(self, state, action, rng):
        return Position(0.1 * dr.log(1.0 - action[0])), 0.0, False


FOUND_BY = {
    UsesIf: "builds",
    WrongCount: "builds",
    OtherRulesWhenCompiled: "compiled and scalar agree",
    CountsCalls: "compiled and scalar agree",
    Overflows: "compiled and scalar agree",
    Dice: "deterministic",
    Meets: "worlds are independent",
    Counted: "worlds are independent",
    Contagious: "worlds are independent",
    Explodes: "finite",
    InfiniteReward: "finite",
    UndefinedObservation: "finite",
    OutOfBounds: "spaces",
    NothingAllowed: "spaces",
    NobodyPlays: "agents play",
    SameStartForEver: "resets differ",
    SameStartEverywhere: "resets differ",
    BreaksAtTheLimit: "extreme actions",
}
