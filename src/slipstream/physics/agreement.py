"""Whether a model moves here as it does in MuJoCo's own engine, and how fast."""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import time
from dataclasses import dataclass

import drjit as dr
import mujoco
import numpy as np

from slipstream import arrays
from slipstream.physics.batch import Batch
from slipstream.physics.model import Model
from slipstream.physics.pairs import links_of_bodies
from slipstream.physics.step import Parameters
from slipstream.physics.terrain import make_terrain, surface

EPISODE = 50
"""After so many states MuJoCo starts over from the default pose."""
PLACES = 500
"""Where heights of a field are compared."""
UNSTABLE = (mujoco.mjtWarning.mjWARN_BADQPOS, mujoco.mjtWarning.mjWARN_BADQVEL, mujoco.mjtWarning.mjWARN_BADQACC)


@dataclass(frozen=True)
class ErrorRow:
    """How far one step is off over some states, relative to the largest number of each state (or to 1)."""

    quantity: str
    states: int
    median: float
    percentile_99: float
    largest: float
    counts: bool = True
    """Whether it is one of ours to answer for."""


@dataclass(frozen=True)
class Agreement:
    """What a comparison with MuJoCo found.

    Attributes:
        unstable: how often MuJoCo itself could not go on.
        crowded: states in which there were more self-contacts than a world can have.
    """

    errors: list[ErrorRow]
    unstable: int
    crowded: int


@dataclass
class _Visited:
    """States of MuJoCo, rounded to float32, and those one step later; one row each."""

    qpos: np.ndarray
    qvel: np.ndarray
    ctrl: np.ndarray
    act: np.ndarray
    next_qpos: np.ndarray
    next_qvel: np.ndarray
    on_field: np.ndarray
    left_out: np.ndarray
    unstable: int


def compare(m: mujoco.MjModel, model: Model, *, states: int, seed: int, backend: str = "auto") -> Agreement:
    """One step from states MuJoCo visits with random controls, in both engines.

    Args:
        m: what the model was loaded from.
        states: how many.
    """
    oracle = _oracle(m, model)
    visited = _visit(oracle, model, states, seed)
    count = len(visited.qpos)
    parameters = _parameters(model, backend)
    rows = _ground(oracle, model, parameters, seed)
    if count == 0:
        return Agreement(rows, visited.unstable, 0)
    batch = Batch(model, count, backend=backend, parameters=parameters)
    batch.set_state(visited.qpos.T, visited.qvel.T, act=visited.act.T.reshape(model.na, count))
    batch.step(batch.controls(visited.ctrl.T.reshape(model.nu, count)))
    qpos, qvel, _ = batch.get_state()
    for name, found, expected in (("qpos", qpos.T, visited.next_qpos), ("qvel", qvel.T, visited.next_qvel)):
        error = np.abs(found - expected).max(-1) / (1.0 + np.abs(expected).max(-1))
        off = np.where(np.isfinite(error), error, np.inf)
        rows += _row(name, off[~visited.on_field & ~visited.left_out])
        rows += _row(f"{name} on the field", off[visited.on_field & ~visited.left_out], counts=False)
        rows += _row(f"{name}, left out", off[visited.left_out], counts=False)
    return Agreement(rows, visited.unstable, int((arrays.to_numpy(batch.state.dropped) > 0).sum()))


def _row(quantity: str, error: np.ndarray, counts: bool = True) -> list[ErrorRow]:
    if not len(error):
        return []
    worst = np.quantile(error, 0.99, method="lower")
    return [ErrorRow(quantity, len(error), float(np.median(error)), float(worst), float(error.max()), counts)]


def _ground(oracle: mujoco.MjModel, model: Model, parameters: Parameters, seed: int) -> list[ErrorRow]:
    """Heights of the model's field, against those where MuJoCo's rays hit it."""
    field, terrain = model.height_field, parameters.terrain
    if field is None or terrain is None:
        return []
    rng = np.random.default_rng(seed)
    places = field.pos[:2] + np.array(field.size) * rng.uniform(-0.99, 0.99, (PLACES, 2))
    data, down = mujoco.MjData(oracle), np.array([0.0, 0.0, -1.0])
    mujoco.mj_kinematics(oracle, data)
    top = field.pos[2] + float(field.heights.max()) + 1.0
    above = (np.array([*place, top]) for place in places)
    expected = [top - mujoco.mj_rayHfield(oracle, data, field.geom, point, down, None) for point in above]
    kind = dr.value_t(terrain.packet)
    found = arrays.to_numpy(surface(model, terrain, *(kind(np.ascontiguousarray(c)) for c in places.T))[0])
    return _row("ground", np.abs(found - np.array(expected)))


def _visit(oracle: mujoco.MjModel, model: Model, states: int, seed: int) -> _Visited:
    rng, data = np.random.default_rng(seed), mujoco.MjData(oracle)
    low, high = control_ranges(oracle)
    columns: list[list] = [[] for _ in range(8)]
    unstable = 0
    for k in range(states):
        bad = any(data.warning[int(kind)].number for kind in UNSTABLE)
        unstable += bad
        if k % EPISODE == 0 or bad:
            mujoco.mj_resetData(oracle, data)
            data.qvel[:] = 0.1 * rng.normal(size=oracle.nv)
        data.ctrl[:] = rng.uniform(low, high)
        for _ in range(3):
            mujoco.mj_step(oracle, data)
        for values in (data.qpos, data.qvel, data.ctrl, data.act):
            values[:] = values.astype(np.float32)
        before = [data.qpos.copy(), data.qvel.copy(), data.ctrl.copy(), data.act.copy()]
        mujoco.mj_step(oracle, data)
        if not any(data.warning[int(kind)].number for kind in UNSTABLE):
            field = model.height_field.geom if model.height_field else -1
            touching = {tuple(sorted(contact.geom.tolist())) for contact in data.contact}
            on_field = any(field in geoms for geoms in touching)
            after = [data.qpos.copy(), data.qvel.copy(), on_field, bool(touching & model.left_out.geoms)]
            for column, value in zip(columns, (*before, *after)):
                column.append(value)
    qpos, qvel, ctrl, act, next_qpos, next_qvel = map(np.array, columns[:6])
    on_field, left_out = (np.array(column, bool) for column in columns[6:])
    return _Visited(qpos, qvel, ctrl, act, next_qpos, next_qvel, on_field, left_out, unstable)


def control_ranges(m: mujoco.MjModel) -> tuple[np.ndarray, np.ndarray]:
    """Of random controls: lows and highs, nu each."""
    limited = m.actuator_ctrllimited.astype(bool)
    return np.where(limited, m.actuator_ctrlrange[:, 0], -1.0), np.where(limited, m.actuator_ctrlrange[:, 1], 1.0)


def _parameters(model: Model, backend: str) -> Parameters:
    if model.height_field is None:
        return Parameters()
    return Parameters(terrain=make_terrain(model, arrays.array_types(backend)))


def _oracle(m: mujoco.MjModel, model: Model) -> mujoco.MjModel:
    """A copy that MuJoCo solves to convergence, with the same integrator and collisions as ours."""
    oracle = m.__copy__()
    oracle.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    oracle.opt.iterations, oracle.opt.tolerance = 100, 1e-14
    oracle.opt.ls_iterations = 50
    oracle.opt.timestep = model.options.timestep
    oracle.opt.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{model.options.integrator.upper()}")
    if all(pair.is_external for pair in model.pairs):
        _ignore_self_collisions(oracle)
    return oracle


def _ignore_self_collisions(m: mujoco.MjModel) -> None:
    """Leave only collisions with what is fixed, by moving one of the two masks of every geom out of the others' way."""
    fixed = np.array(links_of_bodies(m))[m.geom_bodyid] == 0
    m.geom_contype[:] = np.where(fixed, m.geom_contype, (m.geom_contype & 0x7FFF) << 16)
    m.geom_conaffinity[:] = np.where(fixed, (m.geom_conaffinity & 0x7FFF) << 16, m.geom_conaffinity & 0x7FFF)
    for p in range(m.npair):
        if not (fixed[m.pair_geom1[p]] or fixed[m.pair_geom2[p]]):
            m.pair_margin[p] = -1e9


@dataclass(frozen=True)
class Speed:
    """Of many worlds with random controls.

    Attributes:
        steps_per_s: physics steps per second, all worlds together.
        first_step_s: until the first step was done.
        bad_worlds: how often a world had to be reset because its state was not finite.
        dropped: self-contacts left out per world and step, for want of a slot.
    """

    backend: str
    steps_per_s: float
    first_step_s: float
    bad_worlds: int
    dropped: float


def measure(model: Model, *, worlds: int, seed: int, backend: str = "auto") -> Speed:
    """How fast a model runs on this machine, and whether it keeps running."""
    begin = time.perf_counter()
    batch = Batch(model, worlds, backend=backend, substeps=5, parameters=_parameters(model, backend))
    rng = np.random.default_rng(seed)
    low, high = control_ranges(model.mujoco)
    controls = [batch.controls(rng.uniform(low[:, None], high[:, None], (model.nu, worlds))) for _ in range(4)]
    batch.step(controls[0])
    dr.sync_thread()
    first = time.perf_counter() - begin
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < 1.0:
        batch.step(controls[count % 4])
        dr.sync_thread()
        count += 1
    steps = count * worlds * batch.substeps
    rate = steps / (time.perf_counter() - begin)
    dropped = float(arrays.to_numpy(batch.state.dropped).sum()) / (steps + worlds * batch.substeps)
    resets = int(arrays.to_numpy(batch.resets).sum())
    return Speed(arrays.array_types(backend).backend, rate, first, resets, dropped)
