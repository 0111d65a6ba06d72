"""Gymnasium's MountainCar-v0 and MountainCarContinuous-v0."""

from __future__ import annotations

from dataclasses import dataclass

import drjit as dr

from slipstream.envs.env import Env, Float, Group
from slipstream.spaces import Box, Discrete

MIN_POSITION, MAX_POSITION = -1.2, 0.6
MAX_SPEED = 0.07
GRAVITY = 0.0025


@dataclass
class State:
    position: Float
    velocity: Float


def _drive(state: State, acceleration) -> State:
    """Roll through the valley; the left wall stops the car."""
    velocity = state.velocity + acceleration - GRAVITY * dr.cos(3.0 * state.position)
    velocity = dr.clip(velocity, -MAX_SPEED, MAX_SPEED)
    position = dr.clip(state.position + velocity, MIN_POSITION, MAX_POSITION)
    stopped = (position <= MIN_POSITION) & (velocity < 0.0)
    return State(position, dr.select(stopped, 0.0, velocity))


def _start(rng) -> State:
    return State(rng.uniform(-0.6, -0.4), 0.0)


class MountainCar(Env):
    """Swing an underpowered car out of a valley, by pushing left, not at all, or right."""

    max_steps = 200
    gymnasium_id = "MountainCar-v0"
    groups = (Group("car", observation=Box(2), action=Discrete(3)),)

    def reset(self, rng):
        return _start(rng)

    def step(self, state, action, rng):
        push = dr.select(action == 2, 0.001, dr.select(action == 0, -0.001, 0.0))
        state = _drive(state, push)
        terminated = (state.position >= 0.5) & (state.velocity >= 0.0)
        return state, -1.0, terminated

    def observe(self, state):
        return state.position, state.velocity


class MountainCarContinuous(Env):
    """Swing an underpowered car out of a valley with as little force as possible."""

    max_steps = 999
    gymnasium_id = "MountainCarContinuous-v0"
    groups = (Group("car", observation=Box(2), action=Box(1, -1.0, 1.0)),)

    def reset(self, rng):
        return _start(rng)

    def step(self, state, action, rng):
        (force,) = action
        state = _drive(state, 0.0015 * force)
        terminated = (state.position >= 0.45) & (state.velocity >= 0.0)
        reward = dr.select(terminated, 100.0, 0.0) - 0.1 * force * force
        return state, reward, terminated

    def observe(self, state):
        return state.position, state.velocity
