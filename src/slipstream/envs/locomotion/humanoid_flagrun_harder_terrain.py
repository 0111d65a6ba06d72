"""The humanoid of Liang et al. 2018 on complex terrain, with a curriculum."""

from __future__ import annotations

from typing import Any

from slipstream.envs.locomotion.curriculum import Curriculum
from slipstream.envs.locomotion.humanoid_flagrun_harder import HumanoidFlagrunHarder
from slipstream.envs.locomotion.terrain import Ground, Uneven

SUCCESS, FAILURE = 8.0, 3.0
"""An episode that comes so many metres nearer to its flags raises the world's level; one with fewer lowers it."""


class HumanoidFlagrunHarderTerrain(HumanoidFlagrunHarder):
    """Get up and run from flag to flag over ground that gets harder with success.

    `humanoid_flagrun_harder` of Liang et al. 2018 on complex terrain.
    """

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
        self.uneven = Uneven(Ground(levels, variants, seed=terrain_seed))
        self.curriculum = Curriculum(self.uneven, start_level, curriculum, SUCCESS, FAILURE)
        super().__init__(**runner)
