"""Gymnasium's Walker2d-v5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slipstream.envs.locomotion.forward import UprightRobot
from slipstream.envs.locomotion.robot import within


class Walker2d(UprightRobot):
    """Walk forward on two legs in a plane without falling.

    Gymnasium's Walker2d-v5.
    """

    name = "walker"
    gymnasium_id = "Walker2d-v5"
    largest_seen_speed = 10.0

    def __init__(
        self,
        xml_file: str = "walker2d_v5.xml",
        frame_skip: int = 4,
        ctrl_cost_weight: float = 1e-3,
        healthy_z_range: Sequence[float] = (0.8, 2.0),
        healthy_angle_range: Sequence[float] = (-1.0, 1.0),
        reset_noise_scale: float = 5e-3,
        **upright: Any,
    ):
        """Args:
        healthy_z_range: at which heights of its torso, in metres, the robot has not fallen.
        healthy_angle_range: at which angles of its torso, in radians, the robot has not fallen.
        """
        self.healthy_z_range, self.healthy_angle_range = healthy_z_range, healthy_angle_range
        super().__init__(
            xml_file, frame_skip, ctrl_cost_weight=ctrl_cost_weight, reset_noise_scale=reset_noise_scale, **upright
        )

    def is_healthy(self, state):
        """Whether the torso is high and upright."""
        _, height, angle = state.qpos[:3]
        return within(height, self.healthy_z_range) & within(angle, self.healthy_angle_range)
