"""MuJoCo's own engine in the place of ours: the same step, one world at a time, for judging policies by it."""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import mujoco
import numpy as np

from slipstream.physics.loading import INTEGRATORS
from slipstream.physics.model import Model
from slipstream.physics.spatial import Scalar
from slipstream.physics.step import Measure, Parameters, Pushes, State
from slipstream.physics.terrain import Terrain


class OriginalEngine:
    """What `step` does, by MuJoCo's C code. All numbers are plain ones: it is for worlds on the scalar backend.

    Contacts are all that the file asks for, those that our model leaves out included.
    """

    def __init__(self, model: Model):
        """Args:
        model: the robot; time step and integrator are those it was loaded with.
        """
        self.m = copy.copy(model.mujoco)
        self.m.opt.timestep = model.options.timestep
        self.m.opt.integrator = next(kind for kind, name in INTEGRATORS.items() if name == model.options.integrator)
        self.data = mujoco.MjData(self.m)
        self._friction, self._pair_friction = self.m.geom_friction.copy(), self.m.pair_friction.copy()
        self._mass, self._inertia = self.m.body_mass.copy(), self.m.body_inertia.copy()
        self._gravity = self.m.opt.gravity.copy()
        self._field: int | None = None

    def __call__(
        self,
        model: Model,
        state: State,
        ctrl: Sequence[Scalar],
        *,
        substeps: int = 1,
        pushes: Pushes | None = None,
        parameters: Parameters | None = None,
        measure: Measure | None = None,
        sensors: Sequence[str] = (),
    ) -> State:
        """See `step`."""
        self._apply(model, parameters or Parameters())
        d = self.data
        d.qpos[:], d.qvel[:], d.qacc_warmstart[:], d.ctrl[:] = state.qpos, state.qvel, state.qacc, ctrl
        if self.m.na:
            d.act[:] = state.act
        d.xfrc_applied[:] = 0.0
        for body, push in (pushes or {}).items():
            d.xfrc_applied[body] = push
        for _ in range(substeps):
            mujoco.mj_step(self.m, d)
        measured = state.measured
        if measure is not None:
            mujoco.mj_rnePostConstraint(self.m, d)
            measured = list(measure([tuple(wrench) for wrench in d.cfrc_ext.tolist()]))
        return replace(
            state,
            qpos=d.qpos.tolist(),
            qvel=d.qvel.tolist(),
            qacc=d.qacc_warmstart.tolist(),
            act=d.act.tolist(),
            measured=measured,
            sensed=[value for name in sensors for value in d.sensor(name).data.tolist()],
        )

    def _apply(self, model: Model, parameters: Parameters) -> None:
        """Make MuJoCo's model what a world's is."""
        self.m.geom_friction[:] = self._friction * parameters.friction
        self.m.pair_friction[:] = self._pair_friction * parameters.friction
        self.m.opt.gravity[:] = self._gravity if parameters.gravity is None else parameters.gravity
        factors = np.array([parameters.mass.get(body.link, 1.0) for body in model.bodies])
        self.m.body_mass[:], self.m.body_inertia[:] = self._mass * factors, self._inertia * factors[:, None]
        if parameters.terrain is not None:
            self._lay(model, parameters.terrain)

    def _lay(self, model: Model, terrain: Terrain) -> None:
        """Give MuJoCo's height field the heights of a world's."""
        number = min(max(int(terrain.level), 0), terrain.fields - 1)
        if number == self._field:
            return
        self._field = number
        field: Any = model.height_field
        rows, columns = field.heights.shape
        cells = terrain.corners.reshape(terrain.fields, rows - 1, columns - 1, 4)[number]
        heights = np.empty((rows, columns))
        heights[:-1, :-1], heights[:-1, 1:] = cells[..., 0], cells[..., 1]
        heights[1:, :-1], heights[1:, 1:] = cells[..., 2], cells[..., 3]
        h = int(self.m.geom_dataid[field.geom])
        start = int(self.m.hfield_adr[h])
        self.m.hfield_data[start : start + rows * columns] = heights.ravel() / self.m.hfield_size[h, 2]
