"""Where a robot runs to."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import drjit as dr

from slipstream.random import Rng

if TYPE_CHECKING:  # a runner has a course
    from slipstream.envs.locomotion.runner import Runner

FAR_AWAY = 1000.0
NEAREST_FLAG = 2.0
"""How far away a new flag is at least, in metres."""


class Course(ABC):
    """Where a runner's targets are."""

    @abstractmethod
    def begin(self, state: Any, rng: Rng | None) -> Any:
        """The first state of an episode, with its target."""

    @abstractmethod
    def after(self, state: Any, rng: Rng) -> Any:
        """The state after a step, with the target it has from now on."""

    @abstractmethod
    def report(self, runner: Runner, state: Any) -> Mapping[str, Any]:
        """What an episode tells of it."""


class Straight(Course):
    """Along x, for ever."""

    def begin(self, state: Any, rng: Rng | None) -> Any:
        return replace(state, target=(FAR_AWAY, 0.0))

    def after(self, state: Any, rng: Rng) -> Any:
        return state

    def report(self, runner: Runner, state: Any) -> Mapping[str, Any]:
        return {"forward_speed": runner.episode_speed(state)}


@dataclass(frozen=True)
class Flags(Course):
    """From flag to flag: a flag moves when it is reached, or after some time.

    Attributes:
        distance: how far away a new flag is at most, in metres.
        steps: after so many steps a flag that was not reached moves.
        radius: nearer than this it is reached.
    """

    distance: float
    steps: int
    radius: float

    def __post_init__(self) -> None:
        if self.distance <= NEAREST_FLAG:
            raise ValueError(f"flag_distance must be more than {NEAREST_FLAG} m, got {self.distance}.")

    def begin(self, state: Any, rng: Rng | None) -> Any:
        target = (self.distance, 0.0) if rng is None else self._flag(rng, (0.0, 0.0))
        return replace(state, target=target, waited=0, reached=0)

    def _flag(self, rng: Rng, place: Sequence[Any]) -> tuple:
        """In any direction from a place, and at any distance."""
        sin, cos = dr.sincos(rng.uniform(-math.pi, math.pi))
        distance = rng.uniform(NEAREST_FLAG, self.distance)
        return place[0] + distance * cos, place[1] + distance * sin

    def after(self, state: Any, rng: Rng) -> Any:
        x, y = (t - q for t, q in zip(state.target, state.qpos[:2]))
        reached = dr.sqrt(x * x + y * y) < self.radius
        waited = state.waited + 1
        moves = reached | (waited >= self.steps)
        flag = self._flag(rng, state.qpos[:2])
        return replace(
            state,
            target=tuple(dr.select(moves, new, old) for new, old in zip(flag, state.target)),
            waited=dr.select(moves, 0, waited),
            reached=state.reached + dr.select(reached, 1, 0),
        )

    def report(self, runner: Runner, state: Any) -> Mapping[str, Any]:
        return {"flags": 1.0 * state.reached, "reached_a_flag": dr.select(state.reached > 0, 1.0, 0.0)}
