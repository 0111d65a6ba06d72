"""Gymnasium's HalfCheetah-v5."""

from __future__ import annotations

from typing import Any

from slipstream.envs.locomotion.robot import Robot, squares


class HalfCheetah(Robot):
    """Run forward as fast as two legs in a plane allow.

    Gymnasium's HalfCheetah-v5.
    """

    name = "cheetah"
    gymnasium_id = "HalfCheetah-v5"

    def __init__(
        self,
        xml_file: str = "half_cheetah.xml",
        frame_skip: int = 5,
        forward_reward_weight: float = 1.0,
        ctrl_cost_weight: float = 0.1,
        reset_noise_scale: float = 0.1,
        exclude_current_positions_from_observation: bool = True,
        **robot: Any,
    ):
        self.forward_reward_weight, self.ctrl_cost_weight = forward_reward_weight, ctrl_cost_weight
        self.reset_noise_scale = reset_noise_scale
        self.hidden_positions = 1 if exclude_current_positions_from_observation else 0
        super().__init__(xml_file, frame_skip, **robot)

    def reset(self, rng):
        scale = self.reset_noise_scale
        qpos, qvel = self.noisy_positions(rng, scale), self.noisy_velocities(rng, scale, normal=True)
        return self.start_state(qpos, qvel, rng)

    def step(self, state, action, rng):
        after = self.simulate(state, action, rng)
        return after, self.forward_reward(state, after) - self.control_cost(action), False

    def observe(self, state):
        return (*state.qpos[self.hidden_positions :], *state.qvel)

    def report(self, state):
        return {"forward_speed": self.episode_speed(state)}

    def forward_reward(self, before, after):
        return self.forward_reward_weight * self.speed(before, after)

    def control_cost(self, action):
        return self.ctrl_cost_weight * squares(action)
