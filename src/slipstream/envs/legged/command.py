"""Where a legged robot is told to go, and how it is to lift its feet on the way."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import drjit as dr

from slipstream.random import Rng

STILL = 0.1
"""Slower than this, in m/s and rad/s together, a command means to stand."""
PERIOD, CLEARANCE = 3.0, 0.22
"""By default, the period of a gait in sqrt(height / g), and how high feet are lifted, in heights of the base."""


@dataclass(frozen=True)
class Commands:
    """How fast to go ahead and to the left, in m/s, and to turn, in rad/s: three numbers for each world.

    Attributes:
        ahead: the fastest; backwards half of it.
        sideways: the fastest.
        turn: the fastest.
        steps: control steps after which there is a new one.
        standing_share: how many of all are to stand.
    """

    ahead: float
    sideways: float
    turn: float
    steps: int
    standing_share: float

    @property
    def ranges(self) -> tuple[tuple[float, float], ...]:
        """From the slowest to the fastest: ahead, to the left, to turn."""
        return (-0.5 * self.ahead, self.ahead), (-self.sideways, self.sideways), (-self.turn, self.turn)

    def draw(self, rng: Rng) -> tuple:
        """A new command."""
        stands = rng.chance(self.standing_share)
        return tuple(dr.select(stands, 0.0, rng.uniform(low, high)) for low, high in self.ranges)

    def after(self, command: tuple, step: Any, rng: Rng) -> tuple:
        """The command after a step of the episode: the old one, or a new one."""
        renew = step - step // self.steps * self.steps == 0
        return tuple(dr.select(renew, new, old) for new, old in zip(self.draw(rng), command))


def walks(command: tuple) -> Any:
    """Whether a command is to go anywhere, or to turn."""
    ahead, left, turn = command
    return dr.abs(ahead) + dr.abs(left) + dr.abs(turn) > STILL


@dataclass(frozen=True)
class Gait:
    """A clock by which feet are lifted: neighbours around the base by turns, each for half of the time.

    That is a walk on two legs, a trot on four, and on six three feet are always down.

    Attributes:
        feet: how many.
        period: seconds in which each foot is lifted once.
        clearance: how high, in metres.
    """

    feet: int
    period: float
    clearance: float

    @staticmethod
    def of(feet: int, height: float, period: float | None) -> Gait:
        """The gait of a robot whose base is so high; its period follows from that, unless it is given."""
        return Gait(feet, period or PERIOD * math.sqrt(height / 9.81), CLEARANCE * height)

    def after(self, phase: Any, seconds: float) -> Any:
        """The phase, 0 .. 1, after some time."""
        later = phase + seconds / self.period
        return later - dr.floor(later)

    def heights(self, phase: Any, walking: Any) -> tuple:
        """How high each foot should be over where it stands."""
        return tuple(dr.select(walking, self._height(phase + 0.5 * (foot % 2)), 0.0) for foot in range(self.feet))

    def _height(self, phase: Any) -> Any:
        turn = phase - dr.floor(phase)
        return dr.maximum(self.clearance * dr.sin(2.0 * math.pi * turn), 0.0)
