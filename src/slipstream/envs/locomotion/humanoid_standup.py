"""Gymnasium's HumanoidStandup-v5."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import drjit as dr

from slipstream.envs.locomotion.robot import Robot, squares


class HumanoidStandup(Robot):
    """Stand up from lying on the back.

    Gymnasium's HumanoidStandup-v5 without the inertias, velocities and forces of all bodies in the observation
    (its `include_..._in_observation=False`).
    """

    name = "humanoid"
    terms = ("height", "control", "impact", "alive")
    gymnasium_id = "HumanoidStandup-v5"
    gymnasium_kwargs = {
        "include_cinert_in_observation": False,
        "include_cvel_in_observation": False,
        "include_qfrc_actuator_in_observation": False,
        "include_cfrc_ext_in_observation": False,
    }

    def __init__(
        self,
        xml_file: str = "humanoidstandup.xml",
        frame_skip: int = 5,
        ctrl_cost_weight: float = 0.1,
        impact_cost_weight: float = 0.5e-6,
        impact_cost_range: Sequence[float] = (-math.inf, 10.0),
        reset_noise_scale: float = 1e-2,
        exclude_current_positions_from_observation: bool = True,
        **robot: Any,
    ):
        """Args:
        ctrl_cost_weight: what the sum of the squares of an action costs.
        impact_cost_weight: what the sum of the squares of all contact wrenches costs; 0 leaves them out.
        impact_cost_range: the cost of impacts is clipped to it.
        reset_noise_scale: how far from lying still an episode begins.
        exclude_current_positions_from_observation: whether the robot does not see where on the ground it is.
        """
        self.impact_cost_weight, self.impact_cost_range = impact_cost_weight, impact_cost_range
        self.ctrl_cost_weight, self.reset_noise_scale = ctrl_cost_weight, reset_noise_scale
        self.hidden_positions = 2 if exclude_current_positions_from_observation else 0
        super().__init__(xml_file, frame_skip, **robot)

    def reset(self, rng):
        scale = self.reset_noise_scale
        return self.start_state(self.noisy_positions(rng, scale), self.noisy_velocities(rng, scale), rng)

    def step(self, state, action, rng):
        measure = self.impact_cost if self.impact_cost_weight else None
        after, impact_cost = self.simulate_and_measure(state, action, rng, measure)
        terms = {
            "height": self.height_reward(after),
            "control": -self.control_cost(action),
            "impact": -impact_cost,
            "alive": 1.0,
        }
        return *self.pay(state, after, terms), False

    def observe(self, state):
        return (*state.qpos[self.hidden_positions :], *state.qvel)

    def report(self, state):
        return {"final_height": state.qpos[2], **super().report(state)}

    def height_reward(self, state):
        """The height of the torso over a physics step: the speed with which it would have got there in one."""
        return state.qpos[2] / self.model.options.timestep

    def control_cost(self, action):
        return self.ctrl_cost_weight * squares(action)

    def impact_cost(self, wrenches):
        cost = self.impact_cost_weight * squares(value for wrench in wrenches for value in wrench)
        return dr.clip(cost, *self.impact_cost_range)
