"""Coarse physics first: options of a robot task that hold until a step of the run, and then those that follow.

A run with `--schedule 8M:integrator=euler,self_contacts=0` takes its first 8 million steps with these options, and all
others with the task's own. Its worlds are carried over at the change: robots go on from where they are, in the episodes
they are in. Evaluations are always of the task itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstream.envs.options import value_of
from slipstream.envs.registry import AnyEnv, make_env

if TYPE_CHECKING:
    from slipstream.training.config import TrainConfig

FORM = "STEPS:option=value,option=value, such as 8M:integrator=euler"
UNITS = {"k": 1e3, "M": 1e6, "G": 1e9}


@dataclass(frozen=True)
class Phase:
    """Options of the world that hold until a step of the run (of all worlds together)."""

    until: int
    options: Mapping[str, Any]


def parse_schedule(texts: Sequence[str]) -> tuple[Phase, ...]:
    """The phases of a schedule as a user writes them, or an error that says what is wrong with them."""
    phases: list[Phase] = []
    for text in texts:
        until, colon, assignments = text.partition(":")
        if not (colon and assignments):
            raise ValueError(f"A schedule must look like {FORM}; got {text!r}.")
        pairs = [pair.partition("=") for pair in assignments.split(",")]
        if not all(name and equals for name, equals, _ in pairs):
            raise ValueError(f"A schedule must look like {FORM}; got {text!r}.")
        phase = Phase(_steps(until, text), {n.strip().replace("-", "_"): value_of(v.strip()) for n, _, v in pairs})
        if phases and phase.until <= phases[-1].until:
            raise ValueError(
                f"The steps of a schedule must increase: {text!r} ends no later than {texts[len(phases) - 1]!r}."
            )
        phases.append(phase)
    return tuple(phases)


def _steps(until: str, text: str) -> int:
    number, unit = (until[:-1], UNITS[until[-1]]) if until[-1:] in UNITS else (until, 1.0)
    try:
        steps = float(number) * unit
    except ValueError:
        steps = math.nan
    if not (1 <= steps < math.inf and steps == round(steps)):
        raise ValueError(
            f"A schedule says until which step its options hold, such as 500k, 8M or 8_000_000; "
            f"got {until!r} in {text!r}."
        )
    return round(steps)


def check_schedule(env: AnyEnv, config: TrainConfig) -> None:
    """Refuse a schedule that the world cannot follow.

    Args:
        env: the world.
        config: of the run.
    """
    if not config.schedule:
        return
    from slipstream.envs.locomotion.robot import Robot  # worlds without physics need not wait for it

    own = make_env(env, **dict(config.env_options))
    if not isinstance(own, Robot):
        raise ValueError(f"A schedule changes the physics of a robot, and {config.env} has none: leave it out.")
    for text, phase in zip(config.schedule, parse_schedule(config.schedule)):
        for name in phase.options:
            if name in ("xml_file", *own.file_options):
                raise ValueError(f"Schedule {text!r}: {name} is another robot. A schedule changes the physics of one.")
        try:
            other = make_env(env, **{**config.env_options, **phase.options})
        except ValueError as error:
            raise ValueError(f"Schedule {text!r}: {error}") from error
        assert isinstance(other, Robot)
        for what, before, then in _of_the_task(own, other):
            if before != then:
                raise ValueError(
                    f"Schedule {text!r} makes {what} {then} where the task has {before}: the policy could not go on."
                )
        if not math.isclose(own.time_step, other.time_step, rel_tol=1e-6):
            raise ValueError(
                f"Schedule {text!r} makes a control step {other.time_step:g} s long where the task has "
                f"{own.time_step:g} s: give timestep and frame_skip such that their product stays the same."
            )


def _of_the_task(a: Any, b: Any) -> list[tuple[str, Any, Any]]:
    """What must be the same in both for a policy and its worlds to go on: what it is, here and there."""
    (x,), (y,) = a.groups, b.groups
    return [
        ("the size of observations", x.observation.size, y.observation.size),
        ("the size of actions", x.action.size, y.action.size),
        ("the bounds of observations and actions", (x.observation, x.action), (y.observation, y.action)),
        ("the coordinates of the robot", (a.model.nq, a.model.nv), (b.model.nq, b.model.nv)),
        ("the time limit", a.max_steps, b.max_steps),
    ]


def phase_at(phases: Sequence[Phase], step: int) -> int:
    """The number of the phase that a step of the run is in: as many as there are phases, once all are over."""
    return sum(step >= phase.until for phase in phases)


def carried_over(worlds: Mapping[str, np.ndarray], fresh: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What worlds of another physics go on with.

    Args:
        worlds: what `Worlds.save` returned before the change.
        fresh: what it returns of the new ones. Whatever they have that there was not before (the number of contacts
            left out, say) stays as it is at the beginning of an episode.
    """
    return {
        name: worlds[name] if name in worlds and worlds[name].shape == array.shape else array
        for name, array in fresh.items()
    }
