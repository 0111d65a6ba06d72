"""Gymnasium's Acrobot-v1 (the dynamics of Sutton and Barto's book)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import drjit as dr

from slipstream.envs.classic.pendulum import wrap_angle
from slipstream.envs.drawing import BLUE, GREEN, INK, SAND, Circle, Line, Picture
from slipstream.envs.env import Env, Float, Group
from slipstream.spaces import Box, Discrete

GRAVITY = 9.8
TIME_STEP = 0.2
CENTRE = 0.5
"""Where the centre of mass of a link is; links are 1 long, weigh 1 and have a moment of inertia of 1."""
MAX_SPEED_1, MAX_SPEED_2 = 4.0 * math.pi, 9.0 * math.pi


@dataclass
class State:
    theta1: Float
    theta2: Float
    theta1_dot: Float
    theta2_dot: Float


class Acrobot(Env):
    """Swing the tip of a two-link arm above a line by a motor in its elbow."""

    max_steps = 500
    gymnasium_id = "Acrobot-v1"
    playback_step = TIME_STEP / 4  # in time it would be slow to watch
    groups = (Group("arm", observation=Box(6), action=Discrete(3)),)

    def reset(self, rng):
        return State(*(rng.uniform(-0.1, 0.1) for _ in range(4)))

    def step(self, state, action, rng):
        torque = dr.select(action == 2, 1.0, dr.select(action == 0, -1.0, 0.0))
        start = (state.theta1, state.theta2, state.theta1_dot, state.theta2_dot)
        theta1, theta2, speed1, speed2 = _runge_kutta(start, torque)
        state = State(
            wrap_angle(theta1),
            wrap_angle(theta2),
            dr.clip(speed1, -MAX_SPEED_1, MAX_SPEED_1),
            dr.clip(speed2, -MAX_SPEED_2, MAX_SPEED_2),
        )
        terminated = -dr.cos(state.theta1) - dr.cos(state.theta1 + state.theta2) > 1.0
        return state, dr.select(terminated, 0.0, -1.0), terminated

    def observe(self, state):
        sin1, cos1 = dr.sincos(state.theta1)
        sin2, cos2 = dr.sincos(state.theta2)
        return cos1, sin1, cos2, sin2, state.theta1_dot, state.theta2_dot

    def draw(self, state):
        theta1, theta2 = float(state["theta1"][0]), float(state["theta2"][0])
        elbow = (math.sin(theta1), -math.cos(theta1))
        tip = (elbow[0] + math.sin(theta1 + theta2), elbow[1] - math.cos(theta1 + theta2))
        shapes = [
            Line(((-2.2, 1.0), (2.2, 1.0)), 0.03, GREEN),
            Line(((0.0, 0.0), elbow), 0.16, BLUE),
            Line((elbow, tip), 0.16, SAND),
            Circle((0.0, 0.0), 0.06, INK),
            Circle(elbow, 0.06, INK),
        ]
        return Picture(shapes, bounds=(-2.2, -2.2, 2.2, 2.2))


def _derivative(s, torque):
    theta1, theta2, speed1, speed2 = s
    sin2, cos2 = dr.sincos(theta2)
    d1 = CENTRE**2 + (1.0 + CENTRE**2 + 2.0 * CENTRE * cos2) + 2.0
    d2 = CENTRE**2 + CENTRE * cos2 + 1.0
    phi2 = CENTRE * GRAVITY * dr.cos(theta1 + theta2 - math.pi / 2.0)
    phi1 = (
        -CENTRE * speed2 * speed2 * sin2
        - 2.0 * CENTRE * speed2 * speed1 * sin2
        + (CENTRE + 1.0) * GRAVITY * dr.cos(theta1 - math.pi / 2.0)
        + phi2
    )
    acc2 = (torque + d2 / d1 * phi1 - CENTRE * speed1 * speed1 * sin2 - phi2) / (CENTRE**2 + 1.0 - d2 * d2 / d1)
    acc1 = -(d2 * acc2 + phi1) / d1
    return speed1, speed2, acc1, acc2


def _runge_kutta(s, torque):
    """One classic fourth-order step."""

    def ahead(k, h):
        return tuple(a + h * b for a, b in zip(s, k))

    k1 = _derivative(s, torque)
    k2 = _derivative(ahead(k1, TIME_STEP / 2), torque)
    k3 = _derivative(ahead(k2, TIME_STEP / 2), torque)
    k4 = _derivative(ahead(k3, TIME_STEP), torque)
    return tuple(x + TIME_STEP / 6.0 * (a + 2.0 * b + 2.0 * c + d) for x, a, b, c, d in zip(s, k1, k2, k3, k4))
