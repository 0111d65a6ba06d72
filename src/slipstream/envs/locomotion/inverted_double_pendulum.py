"""Gymnasium's InvertedDoublePendulum-v5."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import drjit as dr

from slipstream import physics
from slipstream.envs.env import Float
from slipstream.envs.locomotion import robot
from slipstream.physics import spatial

MAX_SEEN = 10.0
"""Velocities and forces are clipped to this in the observation."""
LOWEST_TIP = 1.0


@dataclass
class State(robot.State):
    rail_force: Float = 0.0
    """What the ends of the rail push the cart with."""


class InvertedDoublePendulum(robot.Robot):
    """Keep two poles upright, one on top of the other, on a cart.

    Gymnasium's InvertedDoublePendulum-v5.
    """

    name = "cart"
    terms = ("alive", "distance", "velocity")
    gymnasium_id = "InvertedDoublePendulum-v5"

    def __init__(
        self,
        xml_file: str = "inverted_double_pendulum.xml",
        frame_skip: int = 5,
        healthy_reward: float = 10.0,
        reset_noise_scale: float = 0.1,
        **robot: Any,
    ):
        """Args:
        healthy_reward: what a step earns in which the poles have not fallen.
        reset_noise_scale: how far from the default pose, and how fast, an episode begins.
        """
        self.healthy_reward, self.reset_noise_scale = healthy_reward, reset_noise_scale
        super().__init__(xml_file, frame_skip, **robot)

    def start_state(self, qpos, qvel, rng=None):
        return State(**vars(super().start_state(qpos, qvel, rng)))

    def reset(self, rng):
        scale = self.reset_noise_scale
        qpos, qvel = self.noisy_positions(rng, scale), self.noisy_velocities(rng, scale, normal=True)
        return self.start_state(qpos, qvel, rng)

    def step(self, state, action, rng):
        after = self.simulate(state, action, rng)
        after = replace(after, rail_force=self.rail_force(after, self.drive(state, action)))
        x, _, height = self.tip(after)
        fallen = height <= LOWEST_TIP
        terms = {
            "alive": self.alive_reward(fallen),
            "distance": -self.distance_cost(x, height),
            "velocity": -self.velocity_cost(after),
        }
        return *self.pay(state, after, terms), fallen

    def observe(self, state):
        poles = [dr.sincos(angle) for angle in state.qpos[1:]]
        seen = (dr.clip(v, -MAX_SEEN, MAX_SEEN) for v in (*state.qvel, state.rail_force))
        return (state.qpos[0], *(sin for sin, _ in poles), *(cos for _, cos in poles), *seen)

    def rail_force(self, state, ctrl):
        """MuJoCo's qfrc_constraint of the cart."""
        parameters = self.variation(state).parameters
        return physics.constraint_forces(self.model, state.qpos, state.qvel, state.qacc, ctrl, parameters)[0]

    def tip(self, state):
        """Where the end of the upper pole is."""
        model, body = self.model, self.model.body("pole2")
        where = physics.pose(model, state.qpos)
        site = tuple(model.mujoco.site_pos[0].tolist())
        return spatial.rotate(
            physics.body_rotation(model, where, body), site, physics.body_position(model, where, body)
        )

    def alive_reward(self, fallen):
        return dr.select(fallen, 0.0, self.healthy_reward)

    def distance_cost(self, x, height):
        return 0.01 * x * x + (height - 2.0) * (height - 2.0)

    def velocity_cost(self, state):
        _, first, second = state.qvel
        return 1e-3 * first * first + 5e-3 * second * second
