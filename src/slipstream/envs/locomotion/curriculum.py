"""Ground that gets harder with success."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import drjit as dr

from slipstream.envs.locomotion.terrain import Uneven
from slipstream.random import Rng


@dataclass(frozen=True)
class Curriculum:
    """Levels of uneven ground.

    Attributes:
        uneven: the ground.
        start_level: of a world's first episode.
        changes: whether the level changes from episode to episode.
        success: an episode with more than this (in the sense of the task) raises the world's level.
        failure: one with less than this lowers it.
    """

    uneven: Uneven
    start_level: int
    changes: bool
    success: float
    failure: float

    def __post_init__(self) -> None:
        levels = self.uneven.ground.levels
        if not 0 <= self.start_level < levels:
            raise ValueError(f"start_level must be within 0 .. {levels - 1}, got {self.start_level}.")

    def begin(self, state: Any, rng: Rng | None) -> Any:
        """The first state of an episode, with its ground."""
        variant = 0 if rng is None else rng.integer(self.uneven.ground.variants)
        return replace(state, level=self.start_level, variant=variant, covered=0.0)

    def after(self, state: Any, gained: Any) -> Any:
        """The state after a step that was worth so much."""
        return replace(state, covered=state.covered + gained)

    def next_episode(self, ended: Any, fresh: Any) -> Any:
        """Harder ground after a success, easier ground after a failure."""
        if not self.changes:
            return fresh
        change = dr.select(ended.covered > self.success, 1, 0) - dr.select(ended.covered < self.failure, 1, 0)
        return replace(fresh, level=dr.clip(ended.level + change, 0, self.uneven.ground.levels - 1))

    def for_evaluation(self) -> Curriculum:
        """The middle level for everybody: what policies are judged on, whatever level they learn on."""
        return replace(self, start_level=self.uneven.ground.levels // 2, changes=False)

    def report(self, runner: Any, state: Any) -> Mapping[str, Any]:
        """What an episode tells of it."""
        return {"level": 1.0 * state.level, "covered": state.covered}
