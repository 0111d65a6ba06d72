"""Agents that share out landmarks between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import drjit as dr
import numpy as np

from slipstream.envs.drawing import BLUE, INK, Circle, Picture, Text
from slipstream.envs.env import Env, Group
from slipstream.envs.particles.particles import Body, State, distance, everybody, moved, scattered, seen
from slipstream.spaces import Box, Discrete

BODY = Body(0.15, 5.0)
SAID = 2
"""Numbers that every other agent could say, and never does."""


class SimpleSpread(Env):
    """Agents cover landmarks and keep apart (simple_spread of MPE)."""

    tolerances = {"velocity_x": 1e-4, "velocity_y": 1e-4, "x": 1e-5, "y": 1e-5, "observation": 1e-4}

    def __init__(self, num_agents: int = 3, local_ratio: float = 0.5, episode_length: int = 25):
        """Args:
        num_agents: agents, and as many landmarks.
        local_ratio: how much an agent's own collisions count, against how well all landmarks are covered.
        episode_length: steps until an episode is truncated.
        """
        if num_agents < 2:
            raise ValueError(f"num_agents must be at least 2, got {num_agents}.")
        if not 0 <= local_ratio <= 1:
            raise ValueError(f"local_ratio must be within 0 .. 1, got {local_ratio}.")
        if episode_length < 1:
            raise ValueError(f"episode_length must be at least 1, got {episode_length}.")
        self.max_steps, self.local_ratio = episode_length, local_ratio
        features = 4 + 2 * num_agents + (2 + SAID) * (num_agents - 1)
        self.agent = Group("agent", Box(features), Discrete(5), num_agents)
        self.groups = (self.agent,)

    def reset(self, rng):
        return scattered(self.groups, self.agent.size, 1.0, rng)

    def step(self, state, action, rng):
        after = moved(self.groups, {"agent": BODY}, None, state, {"agent": action})
        alone = -self._touching(after)
        shared = -self.agent.spread(self._uncovered(after))
        return after, shared * (1.0 - self.local_ratio) + alone * self.local_ratio, False

    def _touching(self, state: State) -> Any:
        """How many others each agent touches."""
        here = state.x["agent"], state.y["agent"]
        everyone = everybody(self.groups, self.agent, state)
        near = sum(dr.select(distance(here, there) < 2 * BODY.size, 1.0, 0.0) for _, _, there in everyone)
        return near - 1.0  # itself

    def _uncovered(self, state: State) -> Any:
        """How far from each landmark the nearest agent is, in all."""
        here = state.x["agent"], state.y["agent"]
        landmarks = zip(state.landmark_x, state.landmark_y)
        return sum(self.agent.min(distance(here, tuple(map(self.agent.spread, there)))) for there in landmarks)

    def observe(self, state):
        silence = [0.0] * (SAID * (self.agent.size - 1))
        return (*seen(self.groups, self.agent, state), *silence)

    def report(self, state):
        return {"uncovered": self._uncovered(state)}

    def draw(self, state: Mapping[str, np.ndarray]) -> Picture:
        landmarks = zip(state["landmark_x"][:, 0].tolist(), state["landmark_y"][:, 0].tolist())
        shapes = [
            *(Circle(place, BODY.size, BLUE) for place in zip(state["x"].tolist(), state["y"].tolist())),
            *(Circle(place, 0.05, INK) for place in landmarks),
            Text((-1.3, 1.3), f"step {int(state['step'][0])}", 0.1, INK, "left"),
        ]
        return Picture(shapes, bounds=(-1.4, -1.4, 1.4, 1.4))
