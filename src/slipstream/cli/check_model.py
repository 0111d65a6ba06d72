"""`slipstream check-model robot.xml`: can this robot be simulated here, how exactly, and how fast?"""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Annotated

import drjit as dr
import mujoco
import numpy as np
import tyro

from slipstream import arrays, physics
from slipstream.physics.loading import read_mujoco


@dataclass(frozen=True)
class CheckModel:
    """Load an MJCF robot, compare it with MuJoCo's own engine, and measure its speed on this machine.

    The comparison lets MuJoCo run with random controls and repeats single steps from the states it visits:
    the error table is what one step of ours is off. Anything the robot asks for that is not simulated is
    listed, and the exit code is 1.
    """

    model: Annotated[str, tyro.conf.Positional]
    """Path of an MJCF (or URDF) file."""
    worlds: int = 1024
    """How many copies to time."""
    steps: int = 400
    """How many of MuJoCo's states to compare with."""
    seed: int = 0
    """Seed of the random controls."""
    self_collision: bool = True
    """Whether moving geoms collide with each other."""
    backend: str = "auto"
    """auto, llvm or cuda."""
    json: bool = False
    """Print one JSON object instead of text."""


@dataclass(frozen=True)
class ErrorRow:
    """How far one step is off, over all states compared."""

    quantity: str
    median: float
    percentile_99: float
    largest: float


def run(options: CheckModel) -> int:
    """Check a model and print what was found. Returns the exit code."""
    try:
        m = read_mujoco(options.model)
        model = physics.load(m, self_collision=options.self_collision)
    except physics.ModelError as error:
        print(
            json.dumps({"model": options.model, "supported": False, "problems": str(error)}) if options.json else error
        )
        return 1
    table = compare(m, model, options)
    speed = measure(model, options)
    if options.json:
        report = {
            "model": options.model,
            "supported": True,
            **summary(model),
            "errors": [asdict(row) for row in table],
            **speed,
        }
        print(json.dumps(report, indent=1))
        return 0
    print(f"{options.model}: supported")
    for key, value in summary(model).items():
        print(f"  {key:18} {value}")
    print(f"\n  one step against MuJoCo, over {options.steps} states")
    print(f"  {'':18} {'median':>10} {'99 %':>10} {'largest':>10}")
    for row in table:
        print(f"  {row.quantity:18} {row.median:10.1e} {row.percentile_99:10.1e} {row.largest:10.1e}")
    print(
        f"\n  {speed['steps_per_s']:,.0f} physics steps/s with {options.worlds} worlds ({speed['backend']});",
        end=" ",
    )
    print(f"first step after {speed['first_step_s']:.1f} s, {speed['bad_worlds']} bad worlds")
    return 0


def summary(model: physics.Model) -> dict[str, str]:
    """What the model is made of."""
    kinds = Counter(joint.kind for joint in model.joints)
    external = sum(pair.is_external for pair in model.pairs)
    return {
        "coordinates": f"{model.nq} (velocities {model.nv}, controls {model.nu})",
        "joints": ", ".join(f"{count} {kind}" for kind, count in kinds.items()),
        "moving links": f"{len(model.links) - 1} (of {len(model.bodies)} bodies)",
        "contact pairs": f"{external} with what is fixed, {len(model.pairs) - external} between moving links",
        "integrator": f"{model.options.integrator}, {1000 * model.options.timestep:g} ms",
    }


def compare(m: mujoco.MjModel, model: physics.Model, options: CheckModel) -> list[ErrorRow]:
    """One step from states MuJoCo visits, in both engines."""
    if model.height_field is not None:
        return []  # MuJoCo's contacts with height fields are of another kind, see docs/physics.md
    rng = np.random.default_rng(options.seed)
    oracle = _converged(m, model)
    data = mujoco.MjData(oracle)
    limited = oracle.actuator_ctrllimited.astype(bool)
    low = np.where(limited, oracle.actuator_ctrlrange[:, 0], -1.0)
    high = np.where(limited, oracle.actuator_ctrlrange[:, 1], 1.0)
    before, after, ctrl = [], [], []
    for k in range(options.steps):
        if k % 50 == 0:
            mujoco.mj_resetData(oracle, data)
            data.qvel[:] = 0.1 * rng.normal(size=oracle.nv)
        data.ctrl[:] = rng.uniform(low, high)
        for _ in range(3):
            mujoco.mj_step(oracle, data)
        before.append(np.concatenate([data.qpos, data.qvel]))
        ctrl.append(data.ctrl.copy())
        mujoco.mj_step(oracle, data)
        after.append(np.concatenate([data.qpos, data.qvel]))
    batch = physics.Batch(model, options.steps, backend=options.backend)
    start, end = np.array(before).T, np.array(after).T
    batch.set_state(start[: model.nq], start[model.nq :])
    batch.step(batch.controls(np.array(ctrl).T.reshape(model.nu, options.steps)))
    qpos, qvel, _ = batch.get_state()
    rows = []
    for name, found, expected in (("qpos", qpos, end[: model.nq]), ("qvel", qvel, end[model.nq :])):
        error = np.abs(found - expected).max(0)
        rows.append(ErrorRow(name, float(np.median(error)), float(np.quantile(error, 0.99)), float(error.max())))
    return rows


def _converged(m: mujoco.MjModel, model: physics.Model) -> mujoco.MjModel:
    """A copy that MuJoCo solves to convergence, with the same collisions and integrator as ours."""
    oracle = m.__copy__()
    oracle.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    oracle.opt.iterations, oracle.opt.tolerance = 100, 1e-14
    if not any(not pair.is_external for pair in model.pairs):
        fixed = np.array([oracle.body_weldid[b] == 0 for b in oracle.geom_bodyid], bool)
        collides = (oracle.geom_contype != 0) | (oracle.geom_conaffinity != 0)
        oracle.geom_contype[:] = np.where(collides & ~fixed, 1, 0)
        oracle.geom_conaffinity[:] = np.where(collides & fixed, 1, 0)
    return oracle


def measure(model: physics.Model, options: CheckModel) -> dict:
    """Physics steps per second, all worlds together."""
    types = arrays.array_types(options.backend)
    parameters = physics.Parameters()
    if model.height_field is not None:
        parameters = physics.Parameters(terrain=physics.make_terrain(model, types))
    begin = time.perf_counter()
    batch = physics.Batch(model, options.worlds, backend=options.backend, substeps=5, parameters=parameters)
    rng = np.random.default_rng(options.seed)
    controls = [batch.controls(rng.uniform(-1, 1, (model.nu, options.worlds))) for _ in range(4)]
    batch.step(controls[0])
    dr.sync_thread()
    first = time.perf_counter() - begin
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < 1.0:
        batch.step(controls[count % 4])
        dr.sync_thread()
        count += 1
    elapsed = time.perf_counter() - begin
    return {
        "backend": types.backend,
        "steps_per_s": count * options.worlds * batch.substeps / elapsed,
        "first_step_s": first,
        "bad_worlds": int(np.array(batch.resets).sum()),
    }
