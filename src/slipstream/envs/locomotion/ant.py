"""Gymnasium's Ant-v5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import drjit as dr

from slipstream import physics
from slipstream.envs.locomotion.robot import Robot, negated, squares


class Ant(Robot):
    """Run forward on four legs without turning over.

    Gymnasium's Ant-v5 without the contact forces in the observation (`include_cfrc_ext_in_observation=False`).
    """

    name = "ant"
    gymnasium_id = "Ant-v5"
    gymnasium_kwargs = {"include_cfrc_ext_in_observation": False}

    def __init__(
        self,
        xml_file: str = "ant.xml",
        frame_skip: int = 5,
        forward_reward_weight: float = 1.0,
        ctrl_cost_weight: float = 0.5,
        contact_cost_weight: float = 5e-4,
        healthy_reward: float = 1.0,
        main_body: int | str = 1,
        terminate_when_unhealthy: bool = True,
        healthy_z_range: Sequence[float] = (0.2, 1.0),
        contact_force_range: Sequence[float] = (-1.0, 1.0),
        reset_noise_scale: float = 0.1,
        exclude_current_positions_from_observation: bool = True,
        **robot: Any,
    ):
        self.forward_reward_weight, self.ctrl_cost_weight = forward_reward_weight, ctrl_cost_weight
        self.contact_cost_weight, self.contact_force_range = contact_cost_weight, contact_force_range
        self.healthy_reward, self.healthy_z_range = healthy_reward, healthy_z_range
        self.terminate_when_unhealthy = terminate_when_unhealthy
        self.reset_noise_scale = reset_noise_scale
        self.hidden_positions = 2 if exclude_current_positions_from_observation else 0
        self.main_body = main_body
        super().__init__(xml_file, frame_skip, **robot)

    def reset(self, rng):
        scale = self.reset_noise_scale
        qpos, qvel = self.noisy_positions(rng, scale), self.noisy_velocities(rng, scale, normal=True)
        return self.start_state(qpos, qvel, rng)

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
        """Where the main body is along x."""
        body = self.model.body(self.main_body) if isinstance(self.main_body, str) else self.main_body
        return physics.body_position(self.model, physics.pose(self.model, state.qpos), body)[0]

    def alive_reward(self, healthy):
        return dr.select(healthy, self.healthy_reward, 0.0)

    def control_cost(self, action):
        return self.ctrl_cost_weight * squares(action)

    def contact_cost(self, wrenches):
        if self.contact_cost_weight == 0:
            return 0.0  # nothing to compute
        low, high = self.contact_force_range
        return self.contact_cost_weight * squares(dr.clip(value, low, high) for wrench in wrenches for value in wrench)

    def is_healthy(self, state):
        """Whether the torso is neither on the ground nor in the air."""
        low, high = self.healthy_z_range
        return (low <= state.qpos[2]) & (state.qpos[2] <= high)
