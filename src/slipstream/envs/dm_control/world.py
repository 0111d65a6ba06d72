"""A world that plays one of the suite's tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import drjit as dr
import numpy as np

from slipstream.arrays import ArrayTypes
from slipstream.envs.dm_control.models import compile_model, suite_folder
from slipstream.envs.dm_control.starts import Drawn
from slipstream.envs.dm_control.task import Task
from slipstream.envs.dm_control.view import View
from slipstream.envs.env import Float
from slipstream.envs.locomotion.robot import Robot, State
from slipstream.random import Rng

PLAIN = "plain"
"""The table of start states as NumPy has it."""


@dataclass
class SuiteState(State):
    """A robot with a task, in every world."""

    goal: tuple[Float, ...] = ()
    """Where the target is, along the axes that differ."""
    gains: tuple[Float, ...] = ()
    """How this episode's motors are wired."""


class SuiteWorld(Robot):
    """A task of the suite: what it is made of is in `task`."""

    state_type = SuiteState
    task: ClassVar[Task]

    def __init__(self, *, leave_out_pairs: bool | None = None, **robot: Any):
        """Args:
        leave_out_pairs: let parts pass through each other whose collision is not simulated; None: only where that makes
            no or little difference to the task.
        """
        task = self.task
        leave_out = task.leave_out_pairs if leave_out_pairs is None else leave_out_pairs
        self._tables: dict[Any, Any] = {}  # by backend; copies of a world share it
        self.sensors = task.sensors
        super().__init__(str(suite_folder() / task.file), task.substeps, leave_out_pairs=leave_out, **robot)
        zeros = (0.0,) * self.model.nv
        first = self.start_state(self.model.qpos0, zeros)
        self.terms = tuple(task.terms(self.view(first, (0.0,) * self.model.nu)))

    def read_model(self, path: Path) -> Any:
        return compile_model(path, self.task.change)

    # How an episode begins.

    def tables(self, types: ArrayTypes) -> Any:
        read = super().tables(types)
        if isinstance(self.task.start, Drawn):
            return read
        if PLAIN not in self._tables:
            self._tables[PLAIN] = self.task.start.table(self.model, self.sensors)
        kind = dr.backend_v(types.Float)
        if types.compiled and kind not in self._tables:
            plain = np.ascontiguousarray(self._tables[PLAIN], np.float32).ravel()
            states: Any = types.Float(plain) + dr.opaque(types.Float, 0.0)
            dr.eval(states)
            self._tables[kind] = states
        return [*read, self._tables[kind]] if types.compiled else read

    def reset(self, rng):
        start = self.task.start
        if isinstance(start, Drawn):
            qpos, qvel = start.draw(self.model, rng)
            return self.start_state(qpos, qvel, rng)
        nq, nv = self.model.nq, self.model.nv
        row = self._pick(rng.integer(start.count), nq + nv + self.num_sensed, start.count)
        state = self.start_state(row[:nq], row[nq : nq + nv], rng)
        return replace(state, sensed=tuple(row[nq + nv :]))

    def _pick(self, number: Any, size: int, count: int) -> list[Any]:
        """A column of the table of states."""
        if isinstance(number, int):
            return self._tables[PLAIN][:, number].tolist()
        table = self._tables[dr.backend_v(number)]
        index: Any = dr.uint32_array_t(type(number))(number)
        return [dr.gather(type(table), table, index + k * count) for k in range(size)]

    def start_state(self, qpos: Sequence[Any], qvel: Sequence[Any], rng: Rng | None = None) -> Any:
        state = super().start_state(qpos, qvel, rng)
        target, gains = self.task.target, self.task.gains
        goal: Sequence[Any] = ()
        if target is not None:
            goal = [0.0] * len(target.axes) if rng is None else target.draw(rng)
        wiring = () if gains is None or rng is None else gains(rng)
        return replace(state, goal=tuple(goal), gains=tuple(wiring))

    # A step.

    def step(self, state, action, rng):
        after = self.simulate(state, action, rng)
        terms = self.task.terms(self.view(after, action))
        reward = self.task.reward(list(terms.values()))
        paid = tuple(total + value for total, value in zip(state.paid, terms.values()))
        return replace(after, paid=paid), reward, False

    def drive(self, state: Any, action: tuple) -> tuple:
        told = super().drive(state, action)
        return told if self.task.drive is None else tuple(self.task.drive(told, state.gains))

    def observe(self, state):
        seen = self.task.observe(self.view(state, ()))
        return tuple(value for values in seen.values() for value in values)

    def view(self, state: Any, action: Sequence[Any]) -> View:
        """A state as the task looks at it."""
        felt, first = {}, 0
        for name in self.sensors:
            size = int(self.model.mujoco.sensor(name).dim[0])
            felt[name] = state.sensed[first : first + size]
            first += size
        return View(self.model, state, action, felt)

    # For the user.

    def report(self, state):
        """What each term of the reward was, in the mean over the episode."""
        steps = dr.maximum(state.step, 1) * 1.0
        return {name: total / steps for name, total in zip(self.terms, state.paid)}

    def show(self, state: Mapping[str, np.ndarray]) -> None:
        target = self.task.target
        if target is None:
            return
        m: Any = self.model.mujoco
        places, number = (
            (m.geom_pos, m.geom("target").id) if target.kind == "geom" else (m.site_pos, m.site("target").id)
        )
        for axis, value in zip(target.axes, np.asarray(state["goal"])[:, 0]):
            places[number, "xyz".index(axis)] = value
