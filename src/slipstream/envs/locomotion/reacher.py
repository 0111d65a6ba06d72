"""Gymnasium's Reacher-v5."""

from __future__ import annotations

import math
from typing import Any

import drjit as dr

from slipstream import physics
from slipstream.envs.locomotion.robot import Robot, squares

ARM_NOISE, SPEED_NOISE = 0.1, 0.005
GOAL_RADIUS = 0.2


class Reacher(Robot):
    """Bring the tip of a two-link arm to a target.

    Gymnasium's Reacher-v5.
    """

    max_steps = 50
    name = "arm"
    terms = ("distance", "control")
    camera = (0.8, -75.0)
    gymnasium_id = "Reacher-v5"

    def __init__(
        self,
        xml_file: str = "reacher.xml",
        frame_skip: int = 2,
        reward_dist_weight: float = 1.0,
        reward_control_weight: float = 1.0,
        **robot: Any,
    ):
        """Args:
        reward_dist_weight: what a metre between the tip and the target costs in a step.
        reward_control_weight: what the sum of the squares of an action costs.
        """
        self.reward_dist_weight, self.reward_control_weight = reward_dist_weight, reward_control_weight
        super().__init__(xml_file, frame_skip, **robot)

    def reset(self, rng):
        arm = self.noisy_positions(rng, ARM_NOISE)[:-2]
        speeds = self.noisy_velocities(rng, SPEED_NOISE)[:-2]
        return self.start_state([*arm, *self.goal(rng)], [*speeds, 0.0, 0.0], rng)

    def goal(self, rng):
        """A place anywhere in a disc."""
        radius = GOAL_RADIUS * dr.sqrt(rng.uniform())
        sin, cos = dr.sincos(rng.uniform(-math.pi, math.pi))
        return radius * cos, radius * sin

    def step(self, state, action, rng):
        after = self.simulate(state, action, rng)
        terms = {"distance": -self.distance_cost(after), "control": -self.control_cost(action)}
        return *self.pay(state, after, terms), False

    def observe(self, state):
        sin0, cos0 = dr.sincos(state.qpos[0])
        sin1, cos1 = dr.sincos(state.qpos[1])
        x, y, _ = self.to_target(state)
        return (cos0, cos1, sin0, sin1, *state.qpos[2:], *state.qvel[:2], x, y)

    def report(self, state):
        return {"final_distance": dr.sqrt(squares(self.to_target(state))), **super().report(state)}

    def to_target(self, state):
        """From the target to the tip."""
        where = physics.pose(self.model, state.qpos)
        tip, target = (
            physics.body_position(self.model, where, self.model.body(name)) for name in ("fingertip", "target")
        )
        return tuple(a - b for a, b in zip(tip, target))

    def distance_cost(self, state):
        return self.reward_dist_weight * dr.sqrt(squares(self.to_target(state)))

    def control_cost(self, action):
        return self.reward_control_weight * squares(action)
