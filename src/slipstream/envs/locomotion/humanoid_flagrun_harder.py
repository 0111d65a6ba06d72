"""The humanoid of Liang et al. 2018 that gets up, is pushed, and runs from flag to flag."""

from __future__ import annotations

from typing import Any

from slipstream.envs.locomotion.course import Flags
from slipstream.envs.locomotion.humanoid_flagrun import LIMBS
from slipstream.envs.locomotion.humanoid_run import HumanoidRun
from slipstream.envs.locomotion.posture import GettingUp


class HumanoidFlagrunHarder(HumanoidRun):
    """Get up from the ground, withstand pushes, and run from flag to flag.

    `humanoid_flagrun_harder` of Liang et al. 2018.
    """

    touching = LIMBS

    def __init__(
        self,
        *,
        full_height: float = 1.0,
        ground_steps: int = 170,
        flag_distance: float = 40.0,
        flag_steps: int = 180,
        flag_radius: float = 1.0,
        random_push: float = 0.5,
        push_interval: float = 5.0,
        **runner: Any,
    ):
        """Args:
        full_height: 0.7 x the height of the torso + 0.3 x that of the pelvis from which on the robot stands.
        ground_steps: the episode ends after so many steps on the ground.
        flag_distance: how far away a new flag is at most, in metres.
        flag_steps: after so many steps a flag that was not reached moves.
        flag_radius: nearer than this it is reached.
        random_push: pushes make the robot so much faster, in m/s, in a random horizontal direction.
        push_interval: seconds between two pushes, in the mean.
        """
        self.posture = GettingUp(full_height, ground_steps)
        self.course = Flags(flag_distance, flag_steps, flag_radius)
        super().__init__(random_push=random_push, push_interval=push_interval, **runner)
