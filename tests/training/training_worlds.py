"""Worlds of a few lines, for tests of training."""

from dataclasses import dataclass

import drjit as dr

from slipstream.envs.env import Env, Float, Group, Int
from slipstream.spaces import Box, Discrete


@dataclass
class Walk:
    x: Float
    step: Int


class Walker(Env):
    """A random walk with a push; 6 steps long, and over when it strays."""

    max_steps = 6
    groups = (Group("walker", Box(2), Discrete(2)),)

    def reset(self, rng):
        return Walk(rng.uniform(-0.5, 0.5), 0)

    def step(self, state, action, rng):
        x = state.x + dr.select(action == 1, 0.1, -0.1) + rng.uniform(-0.2, 0.2)
        return Walk(x, state.step), 1.0 - abs(x), abs(x) > 1.0

    def observe(self, state):
        return state.x, state.step * 0.1


class Counter(Env):
    """Reward 1 each step; the episode of a world ends after 1 to 5 steps, drawn at its start."""

    groups = (Group("agent", Box(1), Discrete(2)),)

    def reset(self, rng):
        return Walk(rng.uniform(0.0, 5.0), 0)

    def step(self, state, action, rng):
        return state, 1.0, state.step > state.x

    def observe(self, state):
        return (state.x,)


class Pull(Env):
    """A continuous action pulls a point towards 0."""

    max_steps = 8
    groups = (Group("hand", Box(1), Box(1, -2.0, 2.0)),)

    def reset(self, rng):
        return Walk(rng.uniform(-1.0, 1.0), 0)

    def step(self, state, action, rng):
        (force,) = action
        x = state.x + 0.1 * force
        return Walk(x, state.step), -abs(x), False

    def observe(self, state):
        return (state.x,)


class Fragile(Env):
    """Divides by zero when the second button is pressed."""

    max_steps = 8
    groups = (Group("agent", Box(1), Discrete(2)),)

    def reset(self, rng):
        return Walk(rng.uniform(-1.0, 1.0), 0)

    def step(self, state, action, rng):
        x = state.x / dr.select(action == 1, 0.0, 1.0)
        return Walk(x, state.step), 1.0, False

    def observe(self, state):
        return (state.x,)


@dataclass
class Duel:
    strength: dict
    step: Int


class Duels(Env):
    """Two groups of the same kind. Agents drop out as their strength goes, and weak ones may not strike (choice 2)."""

    max_steps = 8
    groups = (Group("red", Box(2), Discrete(3), size=2), Group("blue", Box(2), Discrete(3), size=3))

    def reset(self, rng):
        return Duel({g.name: rng.of(g.name).uniform(0.2, 1.0) for g in self.groups}, 0)

    def step(self, state, action, rng):
        strength, reward = {}, {}
        for g in self.groups:
            fought = dr.select(action[g.name] == 2, 0.4, dr.select(action[g.name] == 1, 0.1, 0.0))
            in_game = state.strength[g.name] > 0.0
            # Striking without the strength for it is forbidden: it would show as a reward of 100.
            cheat = (action[g.name] == 2) & (state.strength[g.name] <= 0.5) & in_game
            reward[g.name] = dr.select(cheat, 100.0, dr.select(in_game, fought, 0.0))
            strength[g.name] = dr.select(in_game, state.strength[g.name] - fought, state.strength[g.name])
        return Duel(strength, state.step), reward, False

    def observe(self, state):
        return {g.name: (state.strength[g.name], g.spread(state.step * 0.1)) for g in self.groups}

    def active(self, state):
        return {g.name: state.strength[g.name] > 0.0 for g in self.groups}

    def action_mask(self, state):
        return {g.name: (True, True, state.strength[g.name] > 0.5) for g in self.groups}


class HalfMasked(Duels):
    """Only blue has forbidden actions."""

    def active(self, state):
        return None

    def action_mask(self, state):
        return {"blue": super().action_mask(state)["blue"]}


class Poisoned(Counter):
    """Observations that are not numbers, though the state is sound."""

    def observe(self, state):
        return (state.x + dr.nan,)


class Speechless(Counter):
    """Allows nothing at all in every other step."""

    def action_mask(self, state):
        allowed = state.step % 2 == 0
        return allowed, allowed


class Unpaid(Pull):
    """A reward that is not a number in every other step."""

    groups = (Group("agent", Box(1), Box(1, -2.0, 2.0)),)

    def step(self, state, action, rng):
        return state, dr.select(state.step % 2 == 0, dr.nan, 1.0), False


class Hasty(Pull):
    """It leaves something out."""

    groups = (Group("agent", Box(1), Box(1, -2.0, 2.0)),)
    max_steps = 4

    def left_out(self, state):
        return {"collisions": 2.0}
