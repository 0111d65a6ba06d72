"""The humanoid of Liang et al. 2018 on complex terrain, with a curriculum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import drjit as dr

from slipstream.envs.env import Float, Int
from slipstream.envs.locomotion.humanoid_flagrun_harder import HarderState, HumanoidFlagrunHarder
from slipstream.envs.locomotion.runner import CLIP
from slipstream.envs.locomotion.terrain import Ground, Uneven
from slipstream.random import Rng

AHEAD, ASIDE = (0.4, 0.8, 1.4, 2.2), (-0.4, 0.0, 0.4)
"""Where the robot sees the height of the ground, in metres from the torso in its heading frame."""
SUCCESS, FAILURE = 8.0, 3.0
"""An episode that comes so many metres nearer to its flags raises the world's level; one with fewer lowers it."""


@dataclass
class TerrainState(HarderState):
    """A robot on uneven ground, in every world."""

    level: Int = 0
    """How hard the ground is; kept from episode to episode."""
    variant: Int = 0
    """Which ground of that level."""
    covered: Float = 0.0
    """How much nearer to its flags the robot came in the episode, on its feet, in metres."""


class HumanoidFlagrunHarderTerrain(HumanoidFlagrunHarder):
    """Get up and run from flag to flag over ground that gets harder with success.

    `humanoid_flagrun_harder` of Liang et al. 2018 on complex terrain.
    """

    state_type = TerrainState

    def __init__(
        self,
        *,
        start_level: int = 0,
        curriculum: bool = True,
        levels: int = 10,
        variants: int = 3,
        terrain_seed: int = 0,
        **runner: Any,
    ):
        """Args:
        start_level: the level of a world's first episode.
        curriculum: whether the level changes from episode to episode.
        levels: how many there are; level 0 is flat.
        variants: how many grounds of each level.
        terrain_seed: the same seed gives the same ground.
        """
        if not 0 <= start_level < levels:
            raise ValueError(f"start_level must be within 0 .. {levels - 1}, got {start_level}.")
        self.start_level, self.curriculum = start_level, curriculum
        self.levels, self.variants = levels, variants
        self.uneven = Uneven(Ground(levels, variants, seed=terrain_seed))
        super().__init__(**runner)

    # Episodes.

    def start_state(self, qpos: Sequence[Any], qvel: Sequence[Any], rng: Rng | None = None) -> Any:
        state = super().start_state(qpos, qvel, rng)
        variant = 0 if rng is None else rng.integer(self.variants)
        return replace(state, level=self.start_level, variant=variant)

    def move(self, state, action, rng):
        after = super().move(state, action, rng)
        return replace(after, covered=state.covered + self.progress(state, after) * self.time_step)

    def next_episode(self, ended, fresh):
        """Harder ground after a success, easier ground after a failure."""
        if not self.curriculum:
            return fresh
        change = dr.select(ended.covered > SUCCESS, 1, 0) - dr.select(ended.covered < FAILURE, 1, 0)
        return replace(fresh, level=dr.clip(ended.level + change, 0, self.levels - 1))

    def observe(self, state):
        return (*super().observe(state), *self.heights_ahead(state))

    def heights_ahead(self, state):
        """The ground before the robot, relative to that below it."""
        assert self.uneven is not None
        seen = self.uneven.heights_around(self.model, state, self.heading(state), AHEAD, ASIDE)
        return [dr.clip(height, -CLIP, CLIP) for height in seen]

    def report(self, state):
        return super().report(state) | {"level": 1.0 * state.level, "covered": state.covered}
