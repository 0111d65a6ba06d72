"""Gymnasium's Pendulum-v1."""

from __future__ import annotations

import math
from dataclasses import dataclass

import drjit as dr

from slipstream.envs.drawing import GREY, INK, RED, Circle, Line, Picture
from slipstream.envs.env import Env, Float, Group
from slipstream.spaces import Box

GRAVITY = 10.0
TIME_STEP = 0.05
MAX_SPEED = 8.0
MAX_TORQUE = 2.0


@dataclass
class State:
    theta: Float
    theta_dot: Float


def wrap_angle(angle):
    """The same angle in [-pi, pi)."""
    return angle - 2.0 * math.pi * dr.floor((angle + math.pi) / (2.0 * math.pi))


class Pendulum(Env):
    """Swing a pendulum up and hold it there, with a motor too weak to lift it."""

    max_steps = 200
    gymnasium_id = "Pendulum-v1"
    playback_step = TIME_STEP
    groups = (Group("pendulum", observation=Box(3), action=Box(1, -MAX_TORQUE, MAX_TORQUE)),)

    def reset(self, rng):
        return State(rng.uniform(-math.pi, math.pi), rng.uniform(-1.0, 1.0))

    def step(self, state, action, rng):
        (torque,) = action
        angle = wrap_angle(state.theta)
        cost = angle * angle + 0.1 * state.theta_dot * state.theta_dot + 0.001 * torque * torque
        speed = state.theta_dot + (1.5 * GRAVITY * dr.sin(state.theta) + 3.0 * torque) * TIME_STEP
        speed = dr.clip(speed, -MAX_SPEED, MAX_SPEED)
        return State(state.theta + speed * TIME_STEP, speed), -cost, False

    def observe(self, state):
        sin, cos = dr.sincos(state.theta)
        return cos, sin, state.theta_dot

    def draw(self, state):
        theta = float(state["theta"][0])
        tip = (-math.sin(theta), math.cos(theta))
        shapes = [
            Circle((0.0, 1.0), 0.03, GREY),  # where it should be held
            Line(((0.0, 0.0), tip), 0.16, RED),
            Circle((0.0, 0.0), 0.05, INK),
        ]
        return Picture(shapes, bounds=(-1.25, -1.25, 1.25, 1.25))
