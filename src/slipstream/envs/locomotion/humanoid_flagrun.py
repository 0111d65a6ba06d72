"""The humanoid of Liang et al. 2018 that runs from flag to flag."""

from __future__ import annotations

from typing import Any

from slipstream.envs.locomotion.course import Flags
from slipstream.envs.locomotion.humanoid_run import HumanoidRun

LIMBS = ("right_shin1", "left_shin1", "right_hand", "left_hand")
"""Whose contacts with the ground are observed beside those of the feet."""


class HumanoidFlagrun(HumanoidRun):
    """Run to a flag that moves when it is reached, or after three seconds.

    `humanoid_flagrun` of Liang et al. 2018: `humanoid-run` whose target is anywhere around the robot.
    """

    touching = LIMBS

    def __init__(
        self,
        *,
        flag_distance: float = 40.0,
        flag_steps: int = 180,
        flag_radius: float = 1.0,
        **runner: Any,
    ):
        """Args:
        flag_distance: how far away a new flag is at most, in metres.
        flag_steps: after so many steps a flag that was not reached moves.
        flag_radius: nearer than this it is reached.
        """
        self.course = Flags(flag_distance, flag_steps, flag_radius)
        super().__init__(**runner)
