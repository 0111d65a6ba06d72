"""Many worlds of one model, outside of any environment: for tests, benchmarks and experiments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import drjit as dr
import numpy as np

from slipstream import arrays
from slipstream.physics.model import Model
from slipstream.physics.refusal import ModelError
from slipstream.physics.solids import tables
from slipstream.physics.step import Parameters, State, is_bad, step


class Batch:
    """`num_worlds` copies of a robot, stepped by one kernel that is traced once.

    A world whose state is no longer finite goes back to the default pose and is counted in `resets`; its
    neighbours notice nothing.

    Args:
        substeps: physics steps per call of `step`.
        double: compute in float64, to tell rounding from mistakes.
    """

    def __init__(
        self,
        model: Model,
        num_worlds: int,
        *,
        backend: str = "auto",
        substeps: int = 1,
        parameters: Parameters | None = None,
        double: bool = False,
    ) -> None:
        if num_worlds < 1 or substeps < 1:
            raise ValueError(f"num_worlds and substeps must be at least 1, got {num_worlds} and {substeps}.")
        types = arrays.array_types(backend)
        if not types.compiled:
            raise ValueError("A Batch needs a compiled backend; on 'scalar' call `physics.step` with floats.")
        if model.height_field is not None and (parameters is None or parameters.terrain is None):
            raise ModelError("This model stands on a height field: pass Parameters(terrain=make_terrain(...)).")
        self.model, self.num_worlds, self.substeps = model, num_worlds, substeps
        self.kind = types.module.Float64 if double else types.Float
        self.parameters = parameters or Parameters()
        self._zero = dr.opaque(self.kind, 0.0, num_worlds)
        self._count_zero = dr.opaque(types.UInt, 0, num_worlds)
        self.resets = self._count_zero + 0
        read = tables(model, types)
        self._advance: Any = dr.freeze(self._advance_traced, state_fn=lambda *_: read)
        self.reset()

    @property
    def recordings(self) -> int:
        """How often the step was traced: once, if all is well."""
        return self._advance.n_recordings

    def reset(self, keyframe: str | None = None) -> None:
        """Put all worlds in the model's default pose, at rest; or where a keyframe has them."""
        model = self.model
        if keyframe is None:
            parts = (model.qpos0, (0.0,) * model.nv, (0.0,) * model.na)
        else:
            key = model.keyframe(keyframe)
            parts = (key.qpos, key.qvel, key.act)
        qpos, qvel, act = (np.tile(np.array(part, float)[:, None], (1, self.num_worlds)) for part in parts)
        self.set_state(qpos, qvel, act=act)

    def set_state(self, qpos: Any, qvel: Any, qacc: Any | None = None, act: Any | None = None) -> None:
        """Set qpos [nq, num_worlds], qvel [nv, num_worlds] and, optionally, where the solver starts.

        Args:
            act: activations [na, num_worlds]; zero unless given.
        """
        model, worlds = self.model, self.num_worlds
        self.state = State(
            self._columns(qpos, model.nq, "qpos"),
            self._columns(qvel, model.nv, "qvel"),
            self._columns(np.zeros((model.nv, worlds)) if qacc is None else qacc, model.nv, "qacc"),
            self._columns(np.zeros((len(model.touch), worlds)), len(model.touch), "touch"),
            self._columns(np.zeros((1, worlds)), 1, "dropped")[0],
            act=self._columns(np.zeros((model.na, worlds)) if act is None else act, model.na, "act"),
        )

    def get_state(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """qpos [nq, num_worlds], qvel [nv, num_worlds] and qacc [nv, num_worlds]."""
        state = self.state
        return tuple(np.array([arrays.to_numpy(x) for x in part]) for part in (state.qpos, state.qvel, state.qacc))  # type: ignore[return-value]

    def controls(self, ctrl: Any) -> list[Any]:
        """Controls [nu, num_worlds] as the arrays `step` takes; non-finite ones are refused."""
        ctrl = np.asarray(ctrl, float)
        if not np.isfinite(ctrl).all():
            raise ValueError(f"A control is not finite (world {np.argwhere(~np.isfinite(ctrl))[0][-1]}).")
        return self._columns(ctrl, self.model.nu, "ctrl")

    def step(self, ctrl: Sequence[Any]) -> None:
        """Advance all worlds by `substeps` physics steps.

        Args:
            ctrl: from `controls`, or nu Dr.Jit arrays.
        """
        with arrays.no_garbage_collection():
            self.state, self.resets = self._advance(self.state, list(ctrl), self.parameters, self.resets)

    def _advance_traced(self, state: State, ctrl: list[Any], parameters: Parameters, resets: Any) -> tuple[State, Any]:
        new = step(self.model, state, ctrl, substeps=self.substeps, parameters=parameters)
        bad = is_bad(new)
        qpos = [dr.select(bad, self.kind(q0), q) for q0, q in zip(self.model.qpos0, new.qpos)]
        qvel, qacc, act = ([dr.select(bad, self.kind(0.0), v) for v in part] for part in (new.qvel, new.qacc, new.act))
        return State(qpos, qvel, qacc, new.touch, new.dropped, act=act), resets + dr.select(
            bad, type(resets)(1), type(resets)(0)
        )

    def _columns(self, values: Any, count: int, name: str) -> list[Any]:
        values = np.asarray(values, float)
        if values.shape != (count, self.num_worlds):
            raise ModelError(f"{name} must have shape ({count}, {self.num_worlds}), got {values.shape}.")
        # Adding an opaque zero makes every array the same kind to dr.freeze: owned, aligned, not a literal.
        columns = [self.kind(np.ascontiguousarray(row)) + self._zero for row in values]
        dr.eval(columns)
        return columns
