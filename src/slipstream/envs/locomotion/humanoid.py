"""Gymnasium's Humanoid-v5."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import drjit as dr

from slipstream import physics
from slipstream.envs.locomotion.forward import UprightRobot
from slipstream.envs.locomotion.robot import squares, within


class Humanoid(UprightRobot):
    """Run forward on two legs without falling.

    Gymnasium's Humanoid-v5 without the inertias, velocities and forces of all bodies in the observation (its
    `include_..._in_observation=False`).
    """

    name = "humanoid"
    gymnasium_id = "Humanoid-v5"
    gymnasium_kwargs = {
        "include_cinert_in_observation": False,
        "include_cvel_in_observation": False,
        "include_qfrc_actuator_in_observation": False,
        "include_cfrc_ext_in_observation": False,
    }
    ground_coordinates = 2

    def __init__(
        self,
        xml_file: str = "humanoid.xml",
        frame_skip: int = 5,
        forward_reward_weight: float = 1.25,
        ctrl_cost_weight: float = 0.1,
        contact_cost_weight: float = 5e-7,
        contact_cost_range: Sequence[float] = (-math.inf, 10.0),
        healthy_reward: float = 5.0,
        healthy_z_range: Sequence[float] = (1.0, 2.0),
        reset_noise_scale: float = 1e-2,
        **upright: Any,
    ):
        """Args:
        contact_cost_weight: what the sum of the squares of all contact wrenches costs; 0 leaves them out.
        contact_cost_range: the cost of contacts is clipped to it.
        healthy_z_range: at which heights of its torso, in metres, the robot has not fallen.
        """
        self.contact_cost_weight, self.contact_cost_range = contact_cost_weight, contact_cost_range
        self.healthy_z_range = healthy_z_range
        super().__init__(
            xml_file,
            frame_skip,
            forward_reward_weight=forward_reward_weight,
            ctrl_cost_weight=ctrl_cost_weight,
            healthy_reward=healthy_reward,
            reset_noise_scale=reset_noise_scale,
            **upright,
        )

    def place(self, state):
        """Where the centre of mass is along x."""
        return physics.centre_of_mass(self.model, physics.pose(self.model, state.qpos))[0]

    def is_healthy(self, state):
        """Whether the torso is at a height of someone on their feet."""
        return within(state.qpos[2], self.healthy_z_range)

    def contact_cost(self, wrenches):
        cost = self.contact_cost_weight * squares(value for wrench in wrenches for value in wrench)
        return dr.clip(cost, *self.contact_cost_range)
