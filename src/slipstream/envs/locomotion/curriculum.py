"""Ground that gets harder with success, for a robot that runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import drjit as dr

from slipstream.envs.locomotion.terrain import Uneven
from slipstream.random import Rng

if TYPE_CHECKING:  # a runner has a curriculum
    from slipstream.envs.locomotion.runner import Runner

AHEAD, ASIDE = (0.4, 0.8, 1.4, 2.2), (-0.4, 0.0, 0.4)
"""Where the robot sees the height of the ground, in metres from the torso in its heading frame."""
SUCCESS, FAILURE = 8.0, 3.0
"""An episode that comes so many metres nearer to its flags raises the world's level; one with fewer lowers it."""


@dataclass(frozen=True)
class Curriculum:
    """Levels of uneven ground.

    Attributes:
        uneven: the ground.
        start_level: of a world's first episode.
        changes: whether the level changes from episode to episode.
    """

    uneven: Uneven
    start_level: int
    changes: bool

    def __post_init__(self) -> None:
        levels = self.uneven.ground.levels
        if not 0 <= self.start_level < levels:
            raise ValueError(f"start_level must be within 0 .. {levels - 1}, got {self.start_level}.")

    def begin(self, state: Any, rng: Rng | None) -> Any:
        """The first state of an episode, with its ground."""
        variant = 0 if rng is None else rng.integer(self.uneven.ground.variants)
        return replace(state, level=self.start_level, variant=variant, covered=0.0)

    def after(self, state: Any, nearer: Any) -> Any:
        """The state after a step that came so many metres nearer to the target."""
        return replace(state, covered=state.covered + nearer)

    def next_episode(self, ended: Any, fresh: Any) -> Any:
        """Harder ground after a success, easier ground after a failure."""
        if not self.changes:
            return fresh
        change = dr.select(ended.covered > SUCCESS, 1, 0) - dr.select(ended.covered < FAILURE, 1, 0)
        return replace(fresh, level=dr.clip(ended.level + change, 0, self.uneven.ground.levels - 1))

    def heights_ahead(self, runner: Runner, state: Any) -> list[Any]:
        """The ground before the robot, relative to that below it."""
        return self.uneven.heights_around(runner.model, state, runner.heading(state), AHEAD, ASIDE)

    def report(self, runner: Runner, state: Any) -> Mapping[str, Any]:
        """What an episode tells of it."""
        return {"level": 1.0 * state.level, "covered": state.covered}
