"""What Gymnasium's robots that run forward share: how they start, what they see, and the terms of their rewards."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import drjit as dr

from slipstream.envs.locomotion.robot import Robot, negated, squares


class ForwardRobot(Robot):
    """A robot that is paid for its speed along x, and pays for what it tells its motors."""

    terms = ("forward", "control")
    ground_coordinates: ClassVar[int] = 1
    """How many of the first coordinates say where on the ground the robot is."""
    normal_velocities: ClassVar[bool] = False
    """Whether velocities at the start are normally distributed, not uniformly."""
    largest_seen_speed: ClassVar[float | None] = None
    """Velocities are clipped to this in the observation."""

    def __init__(
        self,
        xml_file: str,
        frame_skip: int,
        *,
        ctrl_cost_weight: float,
        reset_noise_scale: float,
        forward_reward_weight: float = 1.0,
        exclude_current_positions_from_observation: bool = True,
        **robot: Any,
    ):
        """Args:
        ctrl_cost_weight: what the sum of the squares of an action costs.
        reset_noise_scale: how far from the default pose, and how fast, an episode begins.
        forward_reward_weight: what a speed of 1 m/s along x earns in a step.
        exclude_current_positions_from_observation: whether the robot does not see where on the ground it is.
        """
        self.forward_reward_weight, self.ctrl_cost_weight = forward_reward_weight, ctrl_cost_weight
        self.reset_noise_scale = reset_noise_scale
        self.hidden_positions = self.ground_coordinates if exclude_current_positions_from_observation else 0
        super().__init__(xml_file, frame_skip, **robot)

    def reset(self, rng):
        scale = self.reset_noise_scale
        qpos, qvel = self.noisy_positions(rng, scale), self.noisy_velocities(rng, scale, normal=self.normal_velocities)
        return self.start_state(qpos, qvel, rng)

    def step(self, state, action, rng):
        after = self.simulate(state, action, rng)
        terms = {"forward": self.forward_reward(state, after), "control": -self.control_cost(action)}
        return *self.pay(state, after, terms), False

    def observe(self, state):
        seen, limit = state.qvel, self.largest_seen_speed
        if limit is not None:
            seen = (dr.clip(v, -limit, limit) for v in seen)
        return (*state.qpos[self.hidden_positions :], *seen)

    def report(self, state):
        return {"forward_speed": self.episode_speed(state), **super().report(state)}

    def forward_reward(self, before, after):
        return self.forward_reward_weight * self.speed(before, after)

    def control_cost(self, action):
        return self.ctrl_cost_weight * squares(action)


class UprightRobot(ForwardRobot):
    """A robot that is also paid for staying healthy: for not falling."""

    terms = ("forward", "healthy", "control", "contact")
    contact_cost_weight: float = 0.0
    """With a weight, `contact_cost` is asked."""

    def __init__(
        self,
        xml_file: str,
        frame_skip: int,
        *,
        healthy_reward: float = 1.0,
        terminate_when_unhealthy: bool = True,
        **forward: Any,
    ):
        """Args:
        healthy_reward: what a step earns in which the robot has not fallen.
        terminate_when_unhealthy: whether a fall ends the episode.
        """
        self.healthy_reward, self.terminate_when_unhealthy = healthy_reward, terminate_when_unhealthy
        super().__init__(xml_file, frame_skip, **forward)

    def step(self, state, action, rng):
        measure = self.contact_cost if self.contact_cost_weight else None
        after, contact_cost = self.simulate_and_measure(state, action, rng, measure)
        healthy = self.is_healthy(after)
        terms = {
            "forward": self.forward_reward(state, after),
            "healthy": self.alive_reward(healthy),
            "control": -self.control_cost(action),
            "contact": -contact_cost,
        }
        return *self.pay(state, after, terms), self.terminate_when_unhealthy & negated(healthy)

    @abstractmethod
    def is_healthy(self, state): ...

    def alive_reward(self, healthy):
        return dr.select(healthy, self.healthy_reward, 0.0)

    def contact_cost(self, wrenches):
        """For hard contacts, from their wrenches on all bodies; nothing, unless a robot says otherwise."""
        return 0.0
