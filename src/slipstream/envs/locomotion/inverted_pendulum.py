"""Gymnasium's InvertedPendulum-v5."""

from __future__ import annotations

from typing import Any

import drjit as dr

from slipstream.envs.locomotion.robot import Robot

MAX_ANGLE = 0.2


class InvertedPendulum(Robot):
    """Keep a pole upright on a cart.

    Gymnasium's InvertedPendulum-v5.
    """

    name = "cart"
    gymnasium_id = "InvertedPendulum-v5"

    def __init__(
        self,
        xml_file: str = "inverted_pendulum.xml",
        frame_skip: int = 2,
        reset_noise_scale: float = 0.01,
        **robot: Any,
    ):
        """Args:
        reset_noise_scale: how far from the default pose, and how fast, an episode begins.
        """
        self.reset_noise_scale = reset_noise_scale
        super().__init__(xml_file, frame_skip, **robot)

    def reset(self, rng):
        scale = self.reset_noise_scale
        return self.start_state(self.noisy_positions(rng, scale), self.noisy_velocities(rng, scale), rng)

    def step(self, state, action, rng):
        after = self.simulate(state, action, rng)
        fallen = self.has_fallen(after)
        return after, dr.select(fallen, 0.0, 1.0), fallen

    def observe(self, state):
        return (*state.qpos, *state.qvel)

    def has_fallen(self, state):
        return dr.abs(state.qpos[1]) > MAX_ANGLE
