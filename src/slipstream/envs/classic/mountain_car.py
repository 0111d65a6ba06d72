"""Gymnasium's MountainCar-v0 and MountainCarContinuous-v0."""

from __future__ import annotations

import math
from dataclasses import dataclass

import drjit as dr

from slipstream.envs.drawing import BLUE, GREEN, INK, RED, Circle, Line, Picture, Point, Polygon, placed
from slipstream.envs.env import Env, Float, Group
from slipstream.spaces import Box, Discrete

MIN_POSITION, MAX_POSITION = -1.2, 0.6
MAX_SPEED = 0.07
GRAVITY = 0.0025
GOAL, CONTINUOUS_GOAL = 0.5, 0.45


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


def _height(position: float) -> float:
    return 0.45 * math.sin(3.0 * position) + 0.55


def _draw(position: float, goal: float) -> Picture:
    """The valley, the car on its slope, and a flag where it should go."""
    places = [MIN_POSITION - 0.6 + 0.02 * i for i in range(141)]
    hill: list[Point] = [(places[-1], -1.0), (places[0], -1.0), *((x, _height(x)) for x in places)]
    slope = math.atan(1.35 * math.cos(3.0 * position))
    here, top = (position, _height(position)), _height(goal)
    body = ((-0.12, 0.04), (0.12, 0.04), (0.12, 0.09), (0.06, 0.1), (0.03, 0.15), (-0.07, 0.15), (-0.12, 0.1))
    shapes = [
        Line(((goal, top), (goal, top + 0.32)), 0.012, INK),
        Polygon(((goal, top + 0.32), (goal + 0.14, top + 0.27), (goal, top + 0.22)), RED),
        Polygon(hill, GREEN),
        Polygon(placed(body, here, slope), BLUE),
        *(Circle(wheel, 0.035, INK) for wheel in placed(((-0.065, 0.04), (0.065, 0.04)), here, slope)),
    ]
    return Picture(shapes, bounds=(MIN_POSITION - 0.1, -0.1, MAX_POSITION + 0.1, 1.4))


class MountainCar(Env):
    """Swing an underpowered car out of a valley: push left, not at all, or right."""

    max_steps = 200
    gymnasium_id = "MountainCar-v0"
    playback_step = 0.04
    groups = (Group("car", observation=Box(2), action=Discrete(3)),)

    def reset(self, rng):
        return _start(rng)

    def step(self, state, action, rng):
        push = dr.select(action == 2, 0.001, dr.select(action == 0, -0.001, 0.0))
        state = _drive(state, push)
        terminated = (state.position >= GOAL) & (state.velocity >= 0.0)
        return state, -1.0, terminated

    def observe(self, state):
        return state.position, state.velocity

    def draw(self, state):
        return _draw(float(state["position"][0]), GOAL)


class MountainCarContinuous(Env):
    """Swing an underpowered car out of a valley with as little force as possible."""

    max_steps = 999
    gymnasium_id = "MountainCarContinuous-v0"
    playback_step = 0.04
    groups = (Group("car", observation=Box(2), action=Box(1, -1.0, 1.0)),)

    def reset(self, rng):
        return _start(rng)

    def step(self, state, action, rng):
        (force,) = action
        state = _drive(state, 0.0015 * force)
        terminated = (state.position >= CONTINUOUS_GOAL) & (state.velocity >= 0.0)
        reward = dr.select(terminated, 100.0, 0.0) - 0.1 * force * force
        return state, reward, terminated

    def observe(self, state):
        return state.position, state.velocity

    def draw(self, state):
        return _draw(float(state["position"][0]), CONTINUOUS_GOAL)
