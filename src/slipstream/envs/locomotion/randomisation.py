"""Robots that differ from world to world and from episode to episode, so that a policy works on all of them.

Everything is off by default, and then leaves no trace in the state or in the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import drjit as dr

from slipstream import physics
from slipstream.random import Rng


@dataclass(frozen=True)
class Randomisation:
    """How much robots differ. Factors are uniform in 1 - x .. 1 + x and drawn once per episode.

    Attributes:
        mass: of the mass and inertia of each link.
        friction: of all friction coefficients together.
        strength: of each motor.
        latency: the largest delay of actions in control steps; an episode's own is 0 .. latency.
        push: how fast a push makes the robot, in m/s, in a random horizontal direction. It lasts a control step.
        push_interval: the mean time between two pushes, in seconds.
    """

    mass: float = 0.0
    friction: float = 0.0
    strength: float = 0.0
    latency: int = 0
    push: float = 0.0
    push_interval: float = 3.0

    def __post_init__(self) -> None:
        for name in ("mass", "friction", "strength"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"random_{name} must be within 0 .. 1 (1 excluded), got {getattr(self, name)}.")
        if not isinstance(self.latency, int) or self.latency < 0:
            raise ValueError(f"random_latency must be a whole number of steps, 0 or more, got {self.latency!r}.")
        if self.push < 0.0:
            raise ValueError(f"random_push must be 0 or more, got {self.push}.")
        if self.push_interval <= 0.0:
            raise ValueError(f"push_interval must be positive, got {self.push_interval}.")

    def draw(self, model: physics.Model, rng: Rng) -> tuple:
        """What an episode's robot differs by, in the order `Variation.of` reads it."""
        drawn: list[Any] = []
        if self.mass:
            drawn += [_factor(rng, self.mass) for _ in model.links[1:]]
        if self.friction:
            drawn.append(_factor(rng, self.friction))
        if self.strength:
            drawn += [_factor(rng, self.strength) for _ in range(model.nu)]
        if self.latency:
            drawn.append(1.0 * rng.integer(self.latency + 1))
        return tuple(drawn)

    def pushes(self, model: physics.Model, rng: Rng, time_step: float) -> dict[int, tuple]:
        """Forces on the robot's first link during one control step."""
        if not self.push:
            return {}
        root = next(i for i, body in enumerate(model.bodies) if body.link > 0)
        force = self.push * sum(link.mass for link in model.links[1:]) / time_step
        force = dr.select(rng.chance(time_step / self.push_interval), 1.0, 0.0) * force
        sin, cos = dr.sincos(rng.uniform(-math.pi, math.pi))
        return {root: (force * cos, force * sin, 0.0, 0.0, 0.0, 0.0)}


def _factor(rng: Rng, spread: float) -> Any:
    return rng.uniform(1.0 - spread, 1.0 + spread)


@dataclass(frozen=True)
class Variation:
    """One episode's robot, read out of the numbers that `Randomisation.draw` returned."""

    mass: dict[int, Any]
    friction: Any
    least_friction: float
    strength: tuple
    delay: Any

    @staticmethod
    def of(random: Randomisation, model: physics.Model, drawn: Sequence[Any]) -> Variation:
        rest = list(drawn)
        mass = {i: rest.pop(0) for i in range(1, len(model.links))} if random.mass else {}
        friction = rest.pop(0) if random.friction else 1.0
        strength = tuple(rest.pop(0) for _ in range(model.nu)) if random.strength else ()
        return Variation(mass, friction, 1.0 - random.friction, strength, rest.pop(0) if random.latency else None)

    @property
    def parameters(self) -> physics.Parameters:
        return physics.Parameters(friction=self.friction, mass=self.mass, least_friction=self.least_friction)

    def drive(self, action: tuple, past: tuple) -> tuple:
        """What the motors are told when a policy chooses `action`.

        Args:
            action: nu scalars.
            past: earlier actions, the newest first, flat.
        """
        applied = self.delayed(action, past)
        return tuple(s * a for s, a in zip(self.strength, applied)) if self.strength else applied

    def delayed(self, action: tuple, past: tuple) -> tuple:
        """The action that is carried out now."""
        count = len(action)
        applied = action
        for steps in range(1, len(past) // count + 1):
            earlier = past[(steps - 1) * count : steps * count]
            applied = tuple(dr.select(self.delay == steps, old, a) for old, a in zip(earlier, applied))
        return applied
