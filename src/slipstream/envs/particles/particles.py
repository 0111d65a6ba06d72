"""Particles in the plane that steer by forces and push one another away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import drjit as dr

from slipstream.envs.env import Float, Group

TIME_STEP = 0.1
DAMPING = 0.25
"""How much of its velocity a particle loses in a step."""
STIFFNESS, MARGIN = 100.0, 1e-3
"""Of contacts: the force for each unit that particles overlap, and how far it reaches beyond their edges."""

STEERING = ((0.0, 0.0), (-1.0, 0.0), (1.0, 0.0), (0.0, -1.0), (0.0, 1.0))
"""The direction of each action: stay, left, right, down, up."""


@dataclass
class State:
    x: dict[str, Float]
    y: dict[str, Float]
    velocity_x: dict[str, Float]
    velocity_y: dict[str, Float]
    landmark_x: tuple[Float, ...]
    landmark_y: tuple[Float, ...]


@dataclass(frozen=True)
class Body:
    """What a particle of a group is like."""

    size: float
    """Its radius."""
    acceleration: float
    max_speed: float | None = None


def scattered(groups: Sequence[Group], landmarks: int, spread: float, rng: Any) -> State:
    """All at random places, at rest: agents within -1 .. 1, landmarks within -spread .. spread."""
    x, y = {}, {}
    for group in groups:
        draw = rng.of(group.name)
        x[group.name], y[group.name] = draw.uniform(-1.0, 1.0), draw.uniform(-1.0, 1.0)
    still = {group.name: 0.0 for group in groups}
    places = [rng.uniform(-spread, spread) for _ in range(2 * landmarks)]
    return State(x, y, dict(still), dict(still), tuple(places[:landmarks]), tuple(places[landmarks:]))


def moved(
    groups: Sequence[Group], bodies: Mapping[str, Body], obstacle: float | None, state: State, action: Mapping[str, Any]
) -> State:
    """The state a step later.

    Args:
        groups: all agents.
        bodies: by group.
        obstacle: the radius of the landmarks, if they are in the way.
        state: now.
        action: by group, an index into `STEERING`.
    """
    x, y, velocity_x, velocity_y = {}, {}, {}, {}
    for group in groups:
        name, body = group.name, bodies[group.name]
        force_x, force_y = (
            sum(dr.select(action[name] == i, body.acceleration * step[axis], 0.0) for i, step in enumerate(STEERING))
            for axis in (0, 1)
        )
        here = state.x[name], state.y[name]
        for other, number, there in everybody(groups, group, state):
            push_x, push_y = _push(here, there, body.size + bodies[other.name].size)
            if other is group:
                oneself = group.index(state.landmark_x[0]) == number
                push_x, push_y = (dr.select(oneself, 0.0, push) for push in (push_x, push_y))
            force_x, force_y = force_x + push_x, force_y + push_y
        if obstacle is not None:
            for there in zip(state.landmark_x, state.landmark_y):
                push_x, push_y = _push(here, tuple(map(group.spread, there)), body.size + obstacle)
                force_x, force_y = force_x + push_x, force_y + push_y
        fast_x = state.velocity_x[name] * (1.0 - DAMPING) + force_x * TIME_STEP
        fast_y = state.velocity_y[name] * (1.0 - DAMPING) + force_y * TIME_STEP
        x[name] = here[0] + state.velocity_x[name] * TIME_STEP
        y[name] = here[1] + state.velocity_y[name] * TIME_STEP
        velocity_x[name], velocity_y[name] = _within_speed(fast_x, fast_y, body.max_speed)
    return State(x, y, velocity_x, velocity_y, state.landmark_x, state.landmark_y)


def everybody(groups: Sequence[Group], seeker: Group, state: State) -> Iterator[tuple[Group, int, tuple[Any, Any]]]:
    """All agents of the world of each seeker, itself included: group, number, and where it is."""
    for group in groups:
        for number in range(group.size):
            there = (group.shown_to(seeker, axis[group.name], number) for axis in (state.x, state.y))
            yield group, number, tuple(there)  # pyright: ignore[reportReturnType]


def others(groups: Sequence[Group], seeker: Group, state: State) -> Iterator[tuple[Group, Any]]:
    """All but the seeker itself, in the order of the groups: group, and number (for each seeker, within its own)."""
    for group in groups:
        if group is not seeker:
            yield from ((group, number) for number in range(group.size))
        elif group.size > 1:
            me = group.index(state.landmark_x[0])
            yield from ((group, slot + dr.select(me <= slot, 1, 0)) for slot in range(group.size - 1))


def seen(groups: Sequence[Group], seeker: Group, state: State) -> list[Any]:
    """What all observations begin with: velocity and place, then where landmarks and other agents are from there."""
    name = seeker.name
    x, y = state.x[name], state.y[name]
    features = [state.velocity_x[name], state.velocity_y[name], x, y]
    for there_x, there_y in zip(state.landmark_x, state.landmark_y):
        features += [seeker.spread(there_x) - x, seeker.spread(there_y) - y]
    for group, number in others(groups, seeker, state):
        features += [group.shown_to(seeker, state.x[group.name], number) - x]
        features += [group.shown_to(seeker, state.y[group.name], number) - y]
    return features


def distance(here: tuple[Any, Any], there: tuple[Any, Any]) -> Any:
    return dr.sqrt(dr.square(here[0] - there[0]) + dr.square(here[1] - there[1]))


def _push(here: tuple[Any, Any], there: tuple[Any, Any], touching: float) -> tuple[Any, Any]:
    """The force on a particle by another one, which falls off smoothly where they no longer touch."""
    apart = distance(here, there)
    depth = (touching - apart) * (1.0 / MARGIN)
    overlap = MARGIN * (dr.maximum(depth, 0.0) + dr.log(1.0 + dr.exp(-abs(depth))))
    force = STIFFNESS * overlap / apart
    return force * (here[0] - there[0]), force * (here[1] - there[1])


def _within_speed(x: Any, y: Any, limit: float | None) -> tuple[Any, Any]:
    if limit is None:
        return x, y
    speed = dr.sqrt(x * x + y * y)
    factor = dr.select(speed > limit, limit / dr.maximum(speed, 1e-12), 1.0)
    return x * factor, y * factor
