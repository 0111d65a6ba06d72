"""Gymnasium's Ant-v5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import drjit as dr

from slipstream import physics
from slipstream.envs.locomotion.forward import UprightRobot
from slipstream.envs.locomotion.robot import squares


class Ant(UprightRobot):
    """Run forward on four legs without turning over.

    Gymnasium's Ant-v5 without the contact forces in the observation (`include_cfrc_ext_in_observation=False`).
    """

    name = "ant"
    camera = (3.5, -22.0)
    gymnasium_id = "Ant-v5"
    gymnasium_kwargs = {"include_cfrc_ext_in_observation": False}
    ground_coordinates = 2
    normal_velocities = True

    def __init__(
        self,
        xml_file: str = "ant.xml",
        frame_skip: int = 5,
        ctrl_cost_weight: float = 0.5,
        contact_cost_weight: float = 5e-4,
        main_body: int | str = 1,
        healthy_z_range: Sequence[float] = (0.2, 1.0),
        contact_force_range: Sequence[float] = (-1.0, 1.0),
        reset_noise_scale: float = 0.1,
        **upright: Any,
    ):
        """Args:
        contact_cost_weight: what the sum of the squares of all contact wrenches costs; 0 leaves them out.
        main_body: the body whose speed is paid for, by number or by name.
        healthy_z_range: at which heights of its torso, in metres, the robot has not fallen.
        contact_force_range: components of contact wrenches are clipped to it.
        """
        self.contact_cost_weight, self.contact_force_range = contact_cost_weight, contact_force_range
        self.main_body, self.healthy_z_range = main_body, healthy_z_range
        super().__init__(
            xml_file, frame_skip, ctrl_cost_weight=ctrl_cost_weight, reset_noise_scale=reset_noise_scale, **upright
        )

    def place(self, state):
        """Where the main body is along x."""
        body = self.model.body(self.main_body) if isinstance(self.main_body, str) else self.main_body
        return physics.body_position(self.model, physics.pose(self.model, state.qpos), body)[0]

    def is_healthy(self, state):
        """Whether the torso is neither on the ground nor in the air."""
        low, high = self.healthy_z_range
        return (low <= state.qpos[2]) & (state.qpos[2] <= high)

    def contact_cost(self, wrenches):
        low, high = self.contact_force_range
        return self.contact_cost_weight * squares(dr.clip(value, low, high) for wrench in wrenches for value in wrench)
