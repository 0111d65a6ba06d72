"""A ladder of tiny worlds whose values are known, from the easiest to the hardest."""

from dataclasses import dataclass

import drjit as dr

from slipstream.envs.env import Env, Float, Group, Int
from slipstream.spaces import Box, Discrete, MultiDiscrete


@dataclass
class Nothing:
    dummy: Float


@dataclass
class Sign:
    sign: Float


@dataclass
class Clock:
    step: Int


@dataclass
class Choice:
    chosen: Float
    step: Int


class ConstantReward(Env):
    """Reward 1, then the end: every value is 1."""

    groups = (Group("agent", Box(1), Discrete(2)),)

    def reset(self, rng):
        return Nothing(0.0)

    def step(self, state, action, rng):
        return state, 1.0, True

    def observe(self, state):
        return (state.dummy,)


class RewardIsObservation(Env):
    """The observation is a random sign, and the reward is that sign: so is the value."""

    groups = (Group("agent", Box(1), Discrete(2)),)

    def reset(self, rng):
        return Sign(dr.select(rng.chance(0.5), 1.0, -1.0))

    def step(self, state, action, rng):
        return state, state.sign, True

    def observe(self, state):
        return (state.sign,)


class TwoSteps(Env):
    """Reward 1 in the second of two steps: worth 1 there, and the discount one step earlier."""

    groups = (Group("agent", Box(1), Discrete(2)),)

    def reset(self, rng):
        return Clock(0)

    def step(self, state, action, rng):
        last = state.step >= 2
        return state, dr.select(last, 1.0, 0.0), last

    def observe(self, state):
        return (state.step * 1.0,)


class ActionMatters(Env):
    """One of two buttons pays 1, the other takes 1; the observed sign says which is which."""

    groups = (Group("agent", Box(1), Discrete(2)),)

    def reset(self, rng):
        return Sign(dr.select(rng.chance(0.5), 1.0, -1.0))

    def step(self, state, action, rng):
        return state, dr.select(action == 1, state.sign, -state.sign), True

    def observe(self, state):
        return (state.sign,)


class BothButtons(Env):
    """Two choices at once, of which each earns a half if it is the last one."""

    groups = (Group("agent", Box(1), MultiDiscrete((2, 3))),)

    def reset(self, rng):
        return Nothing(0.0)

    def step(self, state, action, rng):
        first, second = action
        return state, dr.select(first == 1, 0.5, 0.0) + dr.select(second == 2, 0.5, 0.0), True

    def observe(self, state):
        return (state.dummy,)


class Target(Env):
    """A continuous action earns 1 minus its squared distance from half of the observed sign."""

    groups = (Group("agent", Box(1), Box(1, -1.0, 1.0)),)

    def reset(self, rng):
        return Sign(dr.select(rng.chance(0.5), 1.0, -1.0))

    def step(self, state, action, rng):
        (x,) = action
        error = x - 0.5 * state.sign
        return state, 1.0 - error * error, True

    def observe(self, state):
        return (state.sign,)


class DelayedCredit(Env):
    """The first of three actions decides the reward at the end; the others do nothing."""

    groups = (Group("agent", Box(2), Discrete(2)),)

    def reset(self, rng):
        return Choice(0.0, 0)

    def step(self, state, action, rng):
        chosen = dr.select(state.step == 1, action * 1.0, state.chosen)
        last = state.step >= 3
        return Choice(chosen, state.step), dr.select(last, chosen, 0.0), last

    def observe(self, state):
        return state.step * 1.0, state.chosen


class Truncated(Env):
    """Reward 1 for ever, cut off after 4 steps: worth 1 / (1 - discount) all the time."""

    max_steps = 4
    groups = (Group("agent", Box(1), Discrete(2)),)

    def reset(self, rng):
        return Clock(0)

    def step(self, state, action, rng):
        return state, 1.0, False

    def observe(self, state):
        return (state.step * 0.25,)


class Terminated(Truncated):
    """The same, but after 4 steps nothing follows: worth what is left."""

    max_steps = None

    def step(self, state, action, rng):
        return state, 1.0, state.step >= 4


@dataclass
class Hint:
    hint: Float
    step: Int


class Recall(Env):
    """A hint is shown for one step; two blank steps later the action must match it."""

    groups = (Group("agent", Box(2), Discrete(2)),)

    def reset(self, rng):
        return Hint(dr.select(rng.chance(0.5), 1.0, -1.0), 0)

    def step(self, state, action, rng):
        last = state.step >= 3
        right = (action == 1) == (state.hint > 0.0)
        return state, dr.select(last & right, 1.0, 0.0), last

    def observe(self, state):
        return dr.select(state.step == 0, state.hint, 0.0), dr.select(state.step == 2, 1.0, 0.0)
