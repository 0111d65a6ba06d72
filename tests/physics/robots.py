"""Robots to test with, states they get into, and MuJoCo's C engine as the judge."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass

import drjit as dr
import gymnasium
import mujoco
import numpy as np

from slipstream import arrays, physics

ASSETS = os.path.join(os.path.dirname(gymnasium.__file__), "envs", "mujoco", "assets")
GYMNASIUM = (
    "humanoid",
    "humanoidstandup",
    "ant",
    "hopper",
    "walker2d",
    "half_cheetah",
    "swimmer",
    "reacher",
    "inverted_pendulum",
    "inverted_double_pendulum",
)


MUJOCO_HUMANOID = "mujoco_humanoid"
"""MuJoCo's own humanoid, which comes with MJX."""


def robot_file(name: str) -> str:
    if name == MUJOCO_HUMANOID:
        return os.path.join(os.path.dirname(mujoco.__file__), "mjx", "test_data", "humanoid", "humanoid.xml")
    return os.path.join(ASSETS, f"{name}.xml")


def robot(name: str, integrator: mujoco.mjtIntegrator | None = mujoco.mjtIntegrator.mjINT_EULER) -> mujoco.MjModel:
    """A robot whose constraints MuJoCo solves to convergence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return converged(mujoco.MjModel.from_xml_path(robot_file(name)), integrator)


def converged(m: mujoco.MjModel, integrator: mujoco.mjtIntegrator | None = None) -> mujoco.MjModel:
    m.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    m.opt.iterations, m.opt.ls_iterations = 100, 50
    m.opt.tolerance, m.opt.ls_tolerance = 1e-15, 1e-6
    if integrator is not None:
        m.opt.integrator = integrator
    return m


def without_self_collision(m: mujoco.MjModel) -> mujoco.MjModel:
    """Let geoms collide with fixed ones only, where they did before."""
    fixed = np.array([m.body_weldid[b] == 0 for b in m.geom_bodyid])
    collides = (m.geom_contype != 0) | (m.geom_conaffinity != 0)
    m.geom_contype[:] = np.where(collides & ~fixed, 1, 0)
    m.geom_conaffinity[:] = np.where(collides & fixed, 1, 0)
    return m


@dataclass
class States:
    """States and what MuJoCo says about them; one row per state."""

    qpos: np.ndarray
    qvel: np.ndarray
    ctrl: np.ndarray
    qacc: np.ndarray
    next_qpos: np.ndarray
    next_qvel: np.ndarray
    contacts: np.ndarray


def random_controls(m: mujoco.MjModel, rng: np.random.Generator) -> np.ndarray:
    high = np.where(m.actuator_ctrllimited, m.actuator_ctrlrange[:, 1], 1.0)
    low = np.where(m.actuator_ctrllimited, m.actuator_ctrlrange[:, 0], -1.0)
    return rng.uniform(1.2 * low, 1.2 * high)


def visited_states(m: mujoco.MjModel, count: int, seed: int = 0, spread: float = 0.3, every: int = 5) -> States:
    """States along rollouts with random controls: in the air, on the ground, in limits, fast."""
    rng = np.random.default_rng(seed)
    data, after = mujoco.MjData(m), mujoco.MjData(m)
    columns: list[list[np.ndarray]] = [[] for _ in range(7)]
    for k in range(count):
        if k % 20 == 0:
            mujoco.mj_resetData(m, data)
            mujoco.mj_integratePos(m, data.qpos, spread * rng.normal(size=m.nv), 1.0)
            data.qvel[:] = rng.normal(size=m.nv) * rng.choice([0.3, 1.0, 5.0])
        data.ctrl[:] = random_controls(m, rng)
        for _ in range(every):
            mujoco.mj_step(m, data)
        after.qpos[:], after.qvel[:], after.ctrl[:] = data.qpos, data.qvel, data.ctrl
        after.qacc_warmstart[:] = data.qacc_warmstart
        mujoco.mj_forward(m, after)
        before = [data.qpos.copy(), data.qvel.copy(), data.ctrl.copy(), after.qacc.copy()]
        contacts = np.array(after.ncon)
        mujoco.mj_step(m, after)
        for column, value in zip(columns, (*before, after.qpos.copy(), after.qvel.copy(), contacts)):
            column.append(value)
    return States(*(np.array(column) for column in columns))


def rounded(m: mujoco.MjModel, states: States) -> States:
    """The same states in float32, and what MuJoCo says about those."""
    qpos, qvel, ctrl = (a.astype(np.float32).astype(float) for a in (states.qpos, states.qvel, states.ctrl))
    found: list[list[np.ndarray]] = [[] for _ in range(4)]
    data = mujoco.MjData(m)
    for k in range(len(qpos)):
        data.qpos[:], data.qvel[:], data.ctrl[:] = qpos[k], qvel[k], ctrl[k]
        data.qacc_warmstart[:] = states.qacc[k]
        mujoco.mj_forward(m, data)
        before = data.qacc.copy(), np.array(data.ncon)
        mujoco.mj_step(m, data)
        for column, value in zip(found, (*before, data.qpos.copy(), data.qvel.copy())):
            column.append(value)
    qacc, contacts, next_qpos, next_qvel = map(np.array, found)
    return States(qpos, qvel, ctrl, qacc, next_qpos, next_qvel, contacts)


def columns(values: np.ndarray, kind: type) -> list:
    """Rows of states as Dr.Jit arrays, one per number."""
    return [kind(np.ascontiguousarray(values[:, k])) for k in range(values.shape[1])]


def rows(scalars: list, count: int) -> np.ndarray:
    """Dr.Jit arrays (or constants), one per number, as rows of states."""
    dr.eval(scalars)
    return np.stack([np.broadcast_to(np.array(x, float).ravel(), (count,)) for x in scalars], -1)


def kind(double: bool = False) -> type:
    module = arrays.array_types("llvm").module
    return module.Float64 if double else module.Float


def step_states(model: physics.Model, states: States, double: bool = False, **options) -> tuple[np.ndarray, ...]:
    """One step of all states: qpos, qvel and qacc, one row per state."""
    number = kind(double)
    state = physics.make_state(model, columns(states.qpos, number), columns(states.qvel, number))
    new = physics.step(model, state, columns(states.ctrl, number), **options)
    dr.eval(new.qpos, new.qvel, new.qacc, new.touch, new.dropped)
    count = len(states.qpos)
    return rows(new.qpos, count), rows(new.qvel, count), rows(new.qacc, count)


def relative(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """By state, the largest error relative to the largest number expected."""
    return np.abs(found - expected).max(-1) / (1.0 + np.abs(expected).max(-1))
