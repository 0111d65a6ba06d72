"""Gymnasium's Humanoid-v5."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import drjit as dr

from slipstream import physics
from slipstream.envs.locomotion.robot import Robot, negated, squares, within


class Humanoid(Robot):
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

    def __init__(
        self,
        xml_file: str = "humanoid.xml",
        frame_skip: int = 5,
        forward_reward_weight: float = 1.25,
        ctrl_cost_weight: float = 0.1,
        contact_cost_weight: float = 5e-7,
        contact_cost_range: Sequence[float] = (-math.inf, 10.0),
        healthy_reward: float = 5.0,
        terminate_when_unhealthy: bool = True,
        healthy_z_range: Sequence[float] = (1.0, 2.0),
        reset_noise_scale: float = 1e-2,
        exclude_current_positions_from_observation: bool = True,
        **robot: Any,
    ):
        self.forward_reward_weight, self.ctrl_cost_weight = forward_reward_weight, ctrl_cost_weight
        self.contact_cost_weight, self.contact_cost_range = contact_cost_weight, contact_cost_range
        self.healthy_reward, self.healthy_z_range = healthy_reward, healthy_z_range
        self.terminate_when_unhealthy = terminate_when_unhealthy
        self.reset_noise_scale = reset_noise_scale
        self.hidden_positions = 2 if exclude_current_positions_from_observation else 0
        super().__init__(xml_file, frame_skip, **robot)

    def reset(self, rng):
        scale = self.reset_noise_scale
        return self.start_state(self.noisy_positions(rng, scale), self.noisy_velocities(rng, scale), rng)

    def step(self, state, action, rng):
        after, contact_cost = self.simulate_and_measure(state, action, rng, self.contact_cost)
        healthy = self.is_healthy(after)
        reward = self.forward_reward(state, after) + self.alive_reward(healthy)
        return (
            after,
            reward - self.control_cost(action) - contact_cost,
            self.terminate_when_unhealthy & negated(healthy),
        )

    def observe(self, state):
        return (*state.qpos[self.hidden_positions :], *state.qvel)

    def report(self, state):
        return {"forward_speed": self.episode_speed(state)}

    def forward_reward(self, before, after):
        return self.forward_reward_weight * self.speed(before, after)

    def place(self, state):
        """Where the centre of mass is along x."""
        return physics.centre_of_mass(self.model, physics.pose(self.model, state.qpos))[0]

    def alive_reward(self, healthy):
        return dr.select(healthy, self.healthy_reward, 0.0)

    def control_cost(self, action):
        return self.ctrl_cost_weight * squares(action)

    def contact_cost(self, wrenches):
        if self.contact_cost_weight == 0:
            return 0.0  # nothing to compute
        cost = self.contact_cost_weight * squares(value for wrench in wrenches for value in wrench)
        return dr.clip(cost, *self.contact_cost_range)

    def is_healthy(self, state):
        """Whether the torso is at a height of someone on their feet."""
        return within(state.qpos[2], self.healthy_z_range)
