"""Predators and prey among obstacles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import drjit as dr
import numpy as np

from slipstream.envs.drawing import GREEN, GREY, INK, RED, Circle, Picture, Text
from slipstream.envs.env import Env, Group
from slipstream.envs.particles.particles import Body, State, distance, everybody, moved, others, scattered, seen
from slipstream.spaces import Box, Discrete

OBSTACLE = 0.2
BODIES = {"adversary": Body(0.075, 3.0, 1.0), "agent": Body(0.05, 4.0, 1.3)}
CATCH = 10.0
"""What touching is worth, to whom touches and to whom is touched."""


class SimpleTag(Env):
    """Slow adversaries hunt quick agents among obstacles (simple_tag of MPE)."""

    tolerances = {"velocity_x": 1e-4, "velocity_y": 1e-4, "x": 1e-5, "y": 1e-5, "observation": 1e-4}

    def __init__(self, num_good: int = 1, num_adversaries: int = 3, num_obstacles: int = 2, episode_length: int = 25):
        """Args:
        num_good: agents that are hunted.
        num_adversaries: agents that hunt them.
        num_obstacles: round, and in everybody's way.
        episode_length: steps until an episode is truncated.
        """
        counts = {"num_good": num_good, "num_adversaries": num_adversaries, "num_obstacles": num_obstacles}
        for name, count in {**counts, "episode_length": episode_length}.items():
            if count < 1:
                raise ValueError(f"{name} must be at least 1, got {count}.")
        self.max_steps, self.num_obstacles = episode_length, num_obstacles
        common = 4 + 2 * num_obstacles + 2 * (num_good + num_adversaries - 1)
        self.adversary = Group("adversary", Box(common + 2 * num_good), Discrete(5), num_adversaries)
        self.agent = Group("agent", Box(common + 2 * (num_good - 1)), Discrete(5), num_good)
        self.groups = (self.adversary, self.agent)

    def reset(self, rng):
        return scattered(self.groups, self.num_obstacles, 0.9, rng)

    def step(self, state, action, rng):
        after = moved(self.groups, BODIES, OBSTACLE, state, action)
        touched = self._touched(after)
        out = _out(after.x["agent"]) + _out(after.y["agent"])
        caught = self.adversary.spread(self.agent.sum(touched))
        return after, {"adversary": CATCH * caught, "agent": -CATCH * touched - out}, False

    def _touched(self, state: State) -> Any:
        """By how many adversaries each agent is."""
        here, reach = (state.x["agent"], state.y["agent"]), sum(body.size for body in BODIES.values())
        hunters = everybody((self.adversary,), self.agent, state)
        return sum(dr.select(distance(here, there) < reach, 1.0, 0.0) for _, _, there in hunters)

    def observe(self, state):
        return {group.name: (*seen(self.groups, group, state), *self._speeds(group, state)) for group in self.groups}

    def _speeds(self, seeker: Group, state: State) -> list[Any]:
        """Of the hunted, in the order in which they are seen."""
        return [
            group.shown_to(seeker, axis["agent"], number)
            for group, number in others(self.groups, seeker, state)
            if group is self.agent
            for axis in (state.velocity_x, state.velocity_y)
        ]

    def draw(self, state: Mapping[str, np.ndarray]) -> Picture:
        places = list(zip(state["x"].tolist(), state["y"].tolist()))
        obstacles = zip(state["landmark_x"][:, 0].tolist(), state["landmark_y"][:, 0].tolist())
        hunters, hunted = places[: self.adversary.size], places[self.adversary.size :]
        shapes = [
            *(Circle(place, OBSTACLE, GREY) for place in obstacles),
            *(Circle(place, BODIES["adversary"].size, RED) for place in hunters),
            *(Circle(place, BODIES["agent"].size, GREEN) for place in hunted),
            Text((-1.3, 1.3), f"step {int(state['step'][0])}", 0.1, INK, "left"),
        ]
        return Picture(shapes, bounds=(-1.4, -1.4, 1.4, 1.4))


def _out(x: Any) -> Any:
    """What it costs to be near the edge, or beyond it."""
    x = abs(x)
    beyond = dr.minimum(dr.exp(2.0 * x - 2.0), 10.0)
    return dr.select(x < 0.9, 0.0, dr.select(x < 1.0, (x - 0.9) * 10.0, beyond))
