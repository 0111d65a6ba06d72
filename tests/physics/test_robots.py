"""Every Gymnasium robot and MuJoCo's humanoid, in states it gets into, against MuJoCo's C engine."""

from __future__ import annotations

import drjit as dr
import mujoco
import numpy as np
import pytest
from robots import (
    GYMNASIUM,
    MUJOCO_HUMANOID,
    columns,
    kind,
    relative,
    robot,
    rows,
    step_states,
    visited_states,
    without_self_collision,
)

from slipstream import physics
from slipstream.physics.dynamics import bias_forces, factor, link_inertias, mass_matrix, solve
from slipstream.physics.kinematics import motion, pose

STATES = 400


@pytest.fixture(scope="module", params=[*GYMNASIUM, MUJOCO_HUMANOID])
def case(request):
    m = robot(request.param)
    return m, visited_states(m, STATES)


def test_mass_matrix_bias_and_free_accelerations(case):
    m, states = case
    model = physics.load(m)
    qpos, qvel = columns(states.qpos, kind()), columns(states.qvel, kind())
    where = pose(model, qpos)
    inertias = link_inertias(model, where)
    mass = mass_matrix(model, where, inertias)
    bias = bias_forces(model, where, motion(model, where, qvel), inertias, model.options.gravity)
    free = solve(model, factor(model, mass), [-b for b in bias])
    found_mass = rows([mass.get((i, j), mass.get((j, i), 0.0)) for i in range(m.nv) for j in range(m.nv)], STATES)
    expected: list[list[np.ndarray]] = [[], [], []]
    data = mujoco.MjData(m)
    for q, v in zip(states.qpos, states.qvel):
        data.qpos[:], data.qvel[:] = q, v
        mujoco.mj_forward(m, data)
        full = np.zeros((m.nv, m.nv))
        mujoco.mj_fullM(m, data, full)
        acceleration = np.linalg.solve(full, -data.qfrc_bias)
        for column, value in zip(expected, (full.ravel(), data.qfrc_bias.copy(), acceleration)):
            column.append(value)
    for found, wanted in zip((found_mass, rows(bias, STATES), rows(free, STATES)), expected):
        assert relative(found, np.array(wanted)).max() < 1e-4


def test_constrained_step_in_float32(case):
    m, states = case
    qpos, qvel, qacc = step_states(physics.load(m), states)
    error = relative(qacc, states.qacc)
    assert np.median(error) < 1e-5
    assert np.quantile(error, 0.99) < 5e-4
    assert np.quantile(np.abs(qpos - states.next_qpos).max(-1), 0.99) < 2e-5
    assert np.quantile(np.abs(qvel - states.next_qvel).max(-1), 0.99) < 2e-3


@pytest.mark.parametrize("name", ["humanoid", "ant", "walker2d", MUJOCO_HUMANOID])
def test_constrained_step_in_float64_is_mujocos_to_rounding(name):
    m = robot(name)
    states = visited_states(m, 200, seed=1)
    assert states.contacts.max() > 1
    qpos, _, qacc = step_states(physics.load(m), states, double=True)
    assert relative(qacc, states.qacc).max() < 1e-8
    assert np.abs(qpos - states.next_qpos).max() < 1e-9


@pytest.mark.parametrize("name", ["humanoid", "ant"])
def test_without_self_collision(name):
    m = without_self_collision(robot(name))
    states = visited_states(m, 200, seed=2)
    _, _, qacc = step_states(physics.load(robot(name), self_collision=False), states, double=True)
    assert relative(qacc, states.qacc).max() < 1e-8


@pytest.mark.parametrize("name", ["humanoid", "ant", "hopper", "swimmer"])
def test_runge_kutta(name):
    m = robot(name, mujoco.mjtIntegrator.mjINT_RK4)
    states = visited_states(m, 100, seed=3)
    model = physics.load(m)
    assert model.options.integrator == "rk4"
    qpos, qvel, _ = step_states(model, states, double=True)
    assert np.abs(qpos - states.next_qpos).max() < 1e-8
    assert np.abs(qvel - states.next_qvel).max() < 1e-6


@pytest.mark.parametrize(("name", "until"), [("humanoid", 0.3), ("ant", 0.5), ("half_cheetah", 0.5), ("swimmer", 1.0)])
def test_rollouts_stay_close_until_chaos(name, until):
    """With the same controls from the same start, float32 rollouts stay near the C engine's."""
    m = robot(name)
    worlds, steps = 16, int(until / m.opt.timestep)
    rng = np.random.default_rng(4)
    batch = physics.Batch(physics.load(m), worlds)
    datas = [mujoco.MjData(m) for _ in range(worlds)]
    for data in datas:
        data.qvel[:] = 0.1 * rng.normal(size=m.nv)
    batch.set_state(np.stack([d.qpos for d in datas], -1), np.stack([d.qvel for d in datas], -1))
    ctrl = 0.2 * rng.uniform(-1, 1, size=(m.nu, worlds))
    controls = batch.controls(ctrl)
    for _ in range(steps):
        batch.step(controls)
        for k, data in enumerate(datas):
            data.ctrl[:] = ctrl[:, k]
            mujoco.mj_step(m, data)
    qpos, _, _ = batch.get_state()
    error = np.abs(qpos - np.stack([d.qpos for d in datas], -1)).max(0)
    assert np.median(error) < 1e-3, error


@pytest.mark.parametrize(("name", "operations"), [("ant", 15_000), ("walker2d", 6_000)])
def test_what_a_robot_does_not_have_costs_nothing(name, operations):
    """One kernel, and no operations for tendons, equalities, activations, boxes or elliptic cones."""
    batch = physics.Batch(physics.load(robot(name)), 16, substeps=5)
    controls = batch.controls(np.zeros((batch.model.nu, 16)))
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history_clear()
        batch.step(controls)
        kernels = [k for k in dr.kernel_history() if k["type"] == dr.KernelType.JIT]
    assert len(kernels) == 1
    assert kernels[0]["operation_count"] < operations
