"""Gymnasium's Walker2d-v5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import drjit as dr

from slipstream.envs.locomotion.robot import Robot, negated, squares, within

MAX_SEEN_SPEED = 10.0
"""Velocities are clipped to this in the observation."""


class Walker2d(Robot):
    """Walk forward on two legs in a plane without falling.

    Gymnasium's Walker2d-v5.
    """

    name = "walker"
    gymnasium_id = "Walker2d-v5"

    def __init__(
        self,
        xml_file: str = "walker2d_v5.xml",
        frame_skip: int = 4,
        forward_reward_weight: float = 1.0,
        ctrl_cost_weight: float = 1e-3,
        healthy_reward: float = 1.0,
        terminate_when_unhealthy: bool = True,
        healthy_z_range: Sequence[float] = (0.8, 2.0),
        healthy_angle_range: Sequence[float] = (-1.0, 1.0),
        reset_noise_scale: float = 5e-3,
        exclude_current_positions_from_observation: bool = True,
        **robot: Any,
    ):
        self.forward_reward_weight, self.ctrl_cost_weight = forward_reward_weight, ctrl_cost_weight
        self.healthy_reward, self.terminate_when_unhealthy = healthy_reward, terminate_when_unhealthy
        self.healthy_z_range, self.healthy_angle_range = healthy_z_range, healthy_angle_range
        self.reset_noise_scale = reset_noise_scale
        self.hidden_positions = 1 if exclude_current_positions_from_observation else 0
        super().__init__(xml_file, frame_skip, **robot)

    def reset(self, rng):
        scale = self.reset_noise_scale
        return self.start_state(self.noisy_positions(rng, scale), self.noisy_velocities(rng, scale), rng)

    def step(self, state, action, rng):
        after = self.simulate(state, action, rng)
        healthy = self.is_healthy(after)
        reward = self.forward_reward(state, after) + self.alive_reward(healthy) - self.control_cost(action)
        return after, reward, self.terminate_when_unhealthy & negated(healthy)

    def observe(self, state):
        seen = (dr.clip(v, -MAX_SEEN_SPEED, MAX_SEEN_SPEED) for v in state.qvel)
        return (*state.qpos[self.hidden_positions :], *seen)

    def report(self, state):
        return {"forward_speed": self.episode_speed(state)}

    def forward_reward(self, before, after):
        return self.forward_reward_weight * self.speed(before, after)

    def alive_reward(self, healthy):
        return dr.select(healthy, self.healthy_reward, 0.0)

    def control_cost(self, action):
        return self.ctrl_cost_weight * squares(action)

    def is_healthy(self, state):
        """Whether the torso is high and upright."""
        _, height, angle = state.qpos[:3]
        return within(height, self.healthy_z_range) & within(angle, self.healthy_angle_range)
