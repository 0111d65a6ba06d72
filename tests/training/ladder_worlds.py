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


@dataclass
class Phase:
    phase: Float


class Round(Env):
    """Four phases in a circle, of which the last pays 1, cut off after 3 steps, from where it would go on.

    The value of phase p is discount ** (3 - p) / (1 - discount ** 4).
    """

    max_steps = 3
    groups = (Group("agent", Box(1), Discrete(2)),)

    def reset(self, rng):
        return Phase(dr.floor(rng.uniform(0.0, 4.0)))

    def step(self, state, action, rng):
        last = state.phase >= 3.0
        return Phase(dr.select(last, 0.0, state.phase + 1.0)), dr.select(last, 1.0, 0.0), False

    def observe(self, state):
        return (state.phase * 0.5 - 0.75,)


class SteeredRound(Round):
    """`Round` with an action that is a number, and does nothing."""

    groups = (Group("agent", Box(1), Box(1, -2.0, 2.0)),)


class SteeredToTheEnd(Terminated):
    """`Terminated` with an action that is a number, and does nothing."""

    groups = (Group("agent", Box(1), Box(1, -2.0, 2.0)),)


class Forbidden(Env):
    """Three buttons, of which the best is never allowed; after the first step the second best is not either."""

    groups = (Group("agent", Box(1), Discrete(3)),)

    def reset(self, rng):
        return Clock(0)

    def step(self, state, action, rng):
        return state, action * 1.0, state.step >= 2

    def observe(self, state):
        return (state.step * 1.0,)

    def action_mask(self, state):
        return True, state.step == 0, False


@dataclass
class Stay:
    left: dict
    """How many steps each agent has to go."""


class Parting(Env):
    """Agents of two kinds leave after 1, 2 or 3 steps; the world is cut off after 2, when some are still there.

    The best action (1, or -1) earns 1 in every step, others a little less. With n steps to go that is worth
    (1 - discount ** n) / (1 - discount). Who has left looks as if it had one step to go, and loses 100 in every step.
    """

    max_steps = 2
    groups = (Group("chooser", Box(1), Discrete(2), size=2), Group("steerer", Box(1), Box(1, -1.0, 1.0), size=2))

    def reset(self, rng):
        return Stay({g.name: dr.floor(rng.of(g.name).uniform(1.0, 4.0)) for g in self.groups})

    def step(self, state, action, rng):
        (steered,) = action["steerer"]
        earned = {"chooser": dr.select(action["chooser"] == 1, 1.0, 0.8), "steerer": 0.75 - 0.25 * steered}
        reward = {name: dr.select(left > 0.0, earned[name], -100.0) for name, left in state.left.items()}
        return Stay({name: dr.maximum(left - 1.0, 0.0) for name, left in state.left.items()}), reward, False

    def observe(self, state):
        return {name: (dr.maximum(left, 1.0),) for name, left in state.left.items()}

    def active(self, state):
        return {name: left > 0.0 for name, left in state.left.items()}
