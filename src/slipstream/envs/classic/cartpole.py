"""Gymnasium's CartPole-v1."""

from __future__ import annotations

import math
from dataclasses import dataclass

import drjit as dr

from slipstream.envs.drawing import BLUE, GREY, INK, SAND, Circle, Line, Picture, rectangle
from slipstream.envs.env import Env, Float, Group
from slipstream.spaces import Box, Discrete

GRAVITY = 9.8
MASS_POLE = 0.1
TOTAL_MASS = 1.0 + MASS_POLE
HALF_LENGTH = 0.5
FORCE = 10.0
TIME_STEP = 0.02
POSITION_LIMIT = 2.4
ANGLE_LIMIT = math.radians(12)


@dataclass
class State:
    x: Float
    x_dot: Float
    theta: Float
    theta_dot: Float


class CartPole(Env):
    """Keep a pole upright on a cart (Barto, Sutton and Anderson 1983)."""

    max_steps = 500
    gymnasium_id = "CartPole-v1"
    playback_step = TIME_STEP
    groups = (Group("cart", observation=Box(4), action=Discrete(2)),)

    def reset(self, rng):
        return State(*(rng.uniform(-0.05, 0.05) for _ in range(4)))

    def step(self, state, action, rng):
        force = dr.select(action == 1, FORCE, -FORCE)
        sin, cos = dr.sincos(state.theta)
        push = (force + MASS_POLE * HALF_LENGTH * state.theta_dot * state.theta_dot * sin) / TOTAL_MASS
        theta_acc = (GRAVITY * sin - cos * push) / (HALF_LENGTH * (4.0 / 3.0 - MASS_POLE * cos * cos / TOTAL_MASS))
        x_acc = push - MASS_POLE * HALF_LENGTH * theta_acc * cos / TOTAL_MASS
        state = State(
            x=state.x + TIME_STEP * state.x_dot,
            x_dot=state.x_dot + TIME_STEP * x_acc,
            theta=state.theta + TIME_STEP * state.theta_dot,
            theta_dot=state.theta_dot + TIME_STEP * theta_acc,
        )
        terminated = (abs(state.x) > POSITION_LIMIT) | (abs(state.theta) > ANGLE_LIMIT)
        return state, 1.0, terminated

    def observe(self, state):
        return state.x, state.x_dot, state.theta, state.theta_dot

    def draw(self, state):
        x, theta = float(state["x"][0]), float(state["theta"][0])
        axle = (x, 0.32)
        tip = (x + 2.0 * HALF_LENGTH * math.sin(theta), axle[1] + 2.0 * HALF_LENGTH * math.cos(theta))
        stops = [Line(((end, 0.0), (end, 0.16)), 0.03, GREY) for end in (-POSITION_LIMIT, POSITION_LIMIT)]
        wheels = [Circle((x + offset, 0.06), 0.06, INK) for offset in (-0.14, 0.14)]
        shapes = [
            Line(((-POSITION_LIMIT, 0.0), (POSITION_LIMIT, 0.0)), 0.03, GREY),
            *stops,
            *wheels,
            rectangle(x - 0.25, 0.08, x + 0.25, 0.32, BLUE),
            Line((axle, tip), 0.08, SAND),
            Circle(axle, 0.05, INK),
        ]
        return Picture(shapes, bounds=(-2.6, -0.7, 2.6, 1.9))
