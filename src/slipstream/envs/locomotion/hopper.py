"""Gymnasium's Hopper-v5."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from slipstream.envs.locomotion.forward import UprightRobot
from slipstream.envs.locomotion.robot import within


class Hopper(UprightRobot):
    """Hop forward on one leg in a plane without falling.

    Gymnasium's Hopper-v5.
    """

    name = "hopper"
    gymnasium_id = "Hopper-v5"
    largest_seen_speed = 10.0

    def __init__(
        self,
        xml_file: str = "hopper.xml",
        frame_skip: int = 4,
        ctrl_cost_weight: float = 1e-3,
        healthy_state_range: Sequence[float] = (-100.0, 100.0),
        healthy_z_range: Sequence[float] = (0.7, math.inf),
        healthy_angle_range: Sequence[float] = (-0.2, 0.2),
        reset_noise_scale: float = 5e-3,
        **upright: Any,
    ):
        """Args:
        healthy_state_range: within which all angles and velocities of a healthy robot are.
        healthy_z_range: at which heights of its torso, in metres, the robot has not fallen.
        healthy_angle_range: at which angles of its torso, in radians, the robot has not fallen.
        """
        self.healthy_state_range, self.healthy_z_range = healthy_state_range, healthy_z_range
        self.healthy_angle_range = healthy_angle_range
        super().__init__(
            xml_file, frame_skip, ctrl_cost_weight=ctrl_cost_weight, reset_noise_scale=reset_noise_scale, **upright
        )

    def is_healthy(self, state):
        """Whether the torso is high and upright, and nothing is out of hand."""
        _, height, angle = state.qpos[:3]
        healthy = within(height, self.healthy_z_range) & within(angle, self.healthy_angle_range)
        for value in (*state.qpos[2:], *state.qvel):
            healthy &= within(value, self.healthy_state_range)
        return healthy
