"""The humanoid of Liang et al. 2018 on complex terrain, with a curriculum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import drjit as dr

from slipstream import physics
from slipstream.arrays import ArrayTypes, array_types
from slipstream.envs.env import Float, Int
from slipstream.envs.locomotion.humanoid_flagrun_harder import HarderState, HumanoidFlagrunHarder
from slipstream.envs.locomotion.runner import CLIP
from slipstream.envs.locomotion.terrain import DEPTH, Ground, show
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
        self.start_level, self.curriculum, self.levels = start_level, curriculum, levels
        self.ground = Ground(levels, variants, seed=terrain_seed)
        self.heights = self.ground.heights()
        self._terrains: dict[Any, physics.Terrain] = {}
        super().__init__(**runner)

    # The ground.

    def read_model(self, path: Path) -> Any:
        return self.ground.put_under(path)

    def tables(self, types: ArrayTypes) -> Any:
        made = physics.make_terrain(self.model, types, self.heights + DEPTH)
        self._terrains[dr.backend_v(types.Float)] = made
        return [*super().tables(types), *([made.corners] if types.compiled else [])]

    def terrain(self, state: Any) -> physics.Terrain:
        return replace(self.start_terrain(state.qpos), level=state.level * self.ground.variants + state.variant)

    def start_terrain(self, qpos: Sequence[Any]) -> physics.Terrain:
        """The first field: robots begin in the middle, which is flat and alike on all of them."""
        traced = next((q for q in qpos if dr.is_jit_v(q)), 0.0)
        if not self._terrains:  # the features are counted before there are any worlds
            self.tables(array_types("scalar"))
        return self._terrains[dr.backend_v(traced)]

    def parameters(self, state: Any) -> physics.Parameters:
        return replace(super().parameters(state), terrain=self.terrain(state))

    def over_ground(self, state, place):
        x, y, z = place
        return z - physics.surface(self.model, self.terrain(state), x, y)[0]

    def show(self, state):
        show(self.model.mujoco, self.heights[state["level"][0] * self.ground.variants + state["variant"][0]])

    # Episodes.

    def start_state(self, qpos: Sequence[Any], qvel: Sequence[Any], rng: Rng | None = None) -> Any:
        state = super().start_state(qpos, qvel, rng)
        return replace(state, level=self.start_level, variant=0 if rng is None else rng.integer(self.ground.variants))

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
        sin, cos = self.heading(state)
        x, y = state.qpos[:2]
        terrain = self.terrain(state)
        below, _ = physics.surface(self.model, terrain, x, y)
        places = ((x + a * cos - s * sin, y + a * sin + s * cos) for a in AHEAD for s in ASIDE)
        seen = (physics.surface(self.model, terrain, *place)[0] - below for place in places)
        return [dr.clip(height, -CLIP, CLIP) for height in seen]

    def report(self, state):
        return super().report(state) | {"level": 1.0 * state.level, "covered": state.covered}
