"""What a legged robot observes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import drjit as dr

from slipstream.envs.legged.command import walks
from slipstream.random import Rng

if TYPE_CHECKING:  # a robot has senses
    from slipstream.envs.legged.legged import Legged

AHEAD, ASIDE = (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0), (-0.5, 0.0, 0.5)
"""Where a robot on uneven ground sees its height, in heights of the base."""
SPEED_SCALE = 0.1
"""Speeds of joints are observed in 10 rad/s."""
NOISE = {"velocity": 0.1, "spin": 0.2, "down": 0.05, "joints": 0.02, "speeds": 0.1}
"""What a noise of 1 adds at most, to what is observed."""


@dataclass(frozen=True)
class Observation:
    """Which of its features a robot sees, and how well.

    Attributes:
        velocity: whether it knows its velocity over ground.
        noise: how noisy its sensors are.
        history: how many earlier observations it sees too.
    """

    velocity: bool
    noise: float
    history: int

    def draw_noise(self, robot: Legged, state: Any, rng: Rng | None) -> tuple:
        """What the sensors will add this time; nothing, if they are exact."""
        if not self.noise:
            return ()
        count = len(self._features(robot, state))
        return (0.0,) * count if rng is None else tuple(rng.uniform(-1.0, 1.0) for _ in range(count))

    def no_history(self, robot: Legged, state: Any) -> tuple:
        """What a robot remembers as an episode begins."""
        return (0.0,) * (self.history * len(self._features(robot, state))) if self.history else ()

    def now(self, robot: Legged, state: Any) -> list[Any]:
        """The features of now, as the sensors give them."""
        features = self._features(robot, state)
        if not state.noise:
            return [value for value, _ in features]
        return [value + self.noise * spread * noise for (value, spread), noise in zip(features, state.noise)]

    def _features(self, robot: Legged, state: Any) -> list[tuple[Any, float]]:
        """What there is to see, each with how noisy it is."""
        motion, home = robot.sense(state), robot.anatomy.home
        sin, cos = dr.sincos(2.0 * math.pi * state.phase)
        walking = walks(state.command)
        kinds = {
            "velocity": (motion.ahead, motion.left, motion.up) if self.velocity else (),
            "spin": motion.spin,
            "down": motion.down,
            "command": state.command,
            "clock": (dr.select(walking, sin, 0.0), dr.select(walking, cos, 0.0)),
            "joints": tuple(state.qpos[j.qpos] - home[j.qpos] for j in robot.legs),
            "speeds": tuple(SPEED_SCALE * state.qvel[j.dof] for j in robot.legs),
            "last": state.last,
            "ground": _heights_around(robot, state, motion.heading),
        }
        return [(value, NOISE.get(kind, 0.0)) for kind, values in kinds.items() for value in values]


def _heights_around(robot: Legged, state: Any, heading: tuple[Any, Any]) -> Sequence[Any]:
    if robot.uneven is None:
        return ()
    ahead, aside = (tuple(robot.anatomy.height * distance for distance in grid) for grid in (AHEAD, ASIDE))
    return robot.uneven.heights_around(robot.model, state, heading, ahead, aside)
