"""Tiny worlds that show one thing each."""

from __future__ import annotations

from dataclasses import dataclass

import drjit as dr

from slipstream.envs import Bool, Env, Float, Group, Int
from slipstream.spaces import Box, Discrete, MultiDiscrete


@dataclass
class Position:
    x: Float


class Drift(Env):
    """A point that an action pushes along a line, from a random start."""

    max_steps = 10
    groups = (Group("point", observation=Box(1), action=Box(1, -1.0, 1.0)),)

    def reset(self, rng):
        return Position(rng.uniform(-0.5, 0.5))

    def step(self, state, action, rng):
        x = state.x + 0.1 * action[0] + 0.01 * rng.uniform(-1.0, 1.0)
        return Position(x), -abs(x), abs(x) > 1.0

    def observe(self, state):
        return (state.x,)


@dataclass
class Count:
    step: Int
    last: Int


class Masked(Env):
    """Two choices, of which the allowed ones change with time."""

    max_steps = 50
    groups = (Group("one", observation=Box(2), action=MultiDiscrete((3, 2))),)

    def reset(self, rng):
        return Count(0, 0)

    def step(self, state, action, rng):
        forbidden = (action[0] == state.step % 3) | (action[1] == 1)
        return Count(state.step, action[0]), dr.select(forbidden, -1.0, 0.0), False

    def observe(self, state):
        return state.step, state.last

    def action_mask(self, state):
        following = (state.step + 1) % 3
        return [following != 0, following != 1, following != 2, True, False]


@dataclass
class Lives:
    alive: dict[str, Bool]
    place: tuple[Float, Float]
    step: Int


class Leaving(Env):
    """Agent i of three leaves after step i + 2; the world ends with the last of them."""

    max_steps = 20
    walker = Group("walker", observation=Box(1), action=Discrete(2), size=3)
    watcher = Group("watcher", observation=Box(3), action=Discrete(2))
    groups = (walker, watcher)

    def reset(self, rng):
        return Lives({"walker": True, "watcher": True}, (rng.uniform(), rng.normal()), 0)

    def step(self, state, action, rng):
        stays = self.walker.spread(state.step) < self.walker.index(state.step) + 2
        alive = {"walker": state.alive["walker"] & stays, "watcher": state.alive["watcher"]}
        reward = {"walker": dr.select(state.alive["walker"], 1.0, 0.0), "watcher": 0.5}
        over = self.walker.count(alive["walker"]) == 0
        return Lives(alive, state.place, state.step), reward, over

    def observe(self, state):
        walker = (dr.select(state.alive["walker"], 1.0, 0.0),)
        return {"walker": walker, "watcher": (*state.place, state.step)}

    def active(self, state):
        return state.alive

    def report(self, state):
        return {"left": 3 - self.walker.count(state.alive["walker"])}


class Fragile(Env):
    """A number that doubles where the action is 1, until float32 has no room for it."""

    groups = (Group("one", observation=Box(1), action=Discrete(2)),)

    def reset(self, rng):
        return Position(rng.uniform(1.0, 2.0) * 1e37)

    def step(self, state, action, rng):
        x = state.x * dr.select(action == 1, 4.0, 1.0)
        return Position(x), x, False

    def observe(self, state):
        return (state.x,)


@dataclass
class Places:
    x: dict[str, Float]
    wind: Float


class Swarm(Env):
    """Two groups of agents that start anywhere and are blown about, each by a wind of its own."""

    max_steps = 5
    bee = Group("bee", observation=Box(2), action=Box(1, -1.0, 1.0), size=3)
    wasp = Group("wasp", observation=Box(2), action=Discrete(3), size=2)
    groups = (bee, wasp)

    def reset(self, rng):
        return Places({g.name: rng.of(g.name).uniform(-1.0, 1.0) for g in self.groups}, rng.normal())

    def step(self, state, action, rng):
        push = {"bee": action["bee"][0], "wasp": action["wasp"] - 1}
        blown = {g.name: rng.of(g.name).normal(0.0, 0.3) for g in self.groups}
        x = {g: state.x[g] + 0.1 * push[g] + blown[g] for g in push}
        return Places(x, state.wind + 0.1 * rng.uniform()), x, self.wasp.max(x["wasp"]) > 1.5

    def observe(self, state):
        return {g.name: (state.x[g.name], g.spread(state.wind)) for g in self.groups}
