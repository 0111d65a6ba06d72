"""A task as a record of its parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipstream.envs.dm_control.models import Change
from slipstream.envs.dm_control.starts import Drawn, Sampled
from slipstream.envs.dm_control.tolerance import product
from slipstream.envs.dm_control.view import View
from slipstream.random import Rng

Terms = Mapping[str, Any]


@dataclass(frozen=True)
class Target:
    """A target that is elsewhere in every episode.

    Attributes:
        draw: its coordinates along `axes`.
        axes: those of x, y and z that differ.
        kind: what the target is in the model, which is moved for films: `geom` or `site`.
    """

    draw: Callable[[Rng], Sequence[Any]]
    axes: str
    kind: str = "geom"


@dataclass(frozen=True)
class Task:
    """What is to be done with a model of the suite.

    Attributes:
        summary: one line.
        file: of the model, in the suite's folder.
        substeps: physics steps per control step.
        start: how an episode begins.
        observe: what is seen, by dm_control's names.
        terms: what is paid, by name: numbers in 0 .. 1.
        reward: made of the terms' values.
        change: of the model, before it is compiled.
        target: what differs between episodes beside the pose.
        gains: for each motor, numbers of the episode that `drive` reads.
        drive: what the motors are told, from an action and the episode's gains.
        sensors: of forces, that are observed.
        leave_out_pairs: whether parts pass through each other whose collision is not simulated.
        camera: in films, its distance in metres and its tilt in degrees; None: by the robot's size.
    """

    summary: str
    file: str
    substeps: int
    start: Drawn | Sampled
    observe: Callable[[View], Mapping[str, Sequence[Any]]]
    terms: Callable[[View], Terms]
    reward: Callable[[Sequence[Any]], Any] = product
    change: Change | None = None
    target: Target | None = None
    gains: Callable[[Rng], Sequence[Any]] | None = None
    drive: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]] | None = None
    sensors: tuple[str, ...] = ()
    leave_out_pairs: bool = False
    camera: tuple[float, float] | None = None
