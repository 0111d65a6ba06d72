"""Many worlds at once: traced once, independent of each other, and the same on every backend."""

from __future__ import annotations

import gc

import drjit as dr
import numpy as np
import pytest
from robots import columns, kind, robot, visited_states

from slipstream import physics


@pytest.fixture(scope="module")
def hopper() -> physics.Model:
    return physics.load(robot("hopper"))


def test_the_step_is_recorded_once(hopper):
    batch = physics.Batch(hopper, 40, substeps=4)
    rng = np.random.default_rng(0)
    for _ in range(5):
        batch.step(batch.controls(rng.uniform(-1, 1, (hopper.nu, 40))))
    batch.reset()
    batch.step(batch.controls(np.zeros((hopper.nu, 40))))
    assert batch.recordings == 1


def test_a_step_is_one_kernel(hopper):
    batch = physics.Batch(hopper, 32, substeps=2)
    controls = batch.controls(np.zeros((hopper.nu, 32)))
    batch.step(controls)
    dr.eval(batch.state.qpos)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history_clear()
        batch.step(controls)
        dr.sync_thread()
        launches = [k for k in dr.kernel_history() if k["type"] == dr.KernelType.JIT]
    assert len(launches) == 1


def test_a_bad_world_starts_over_and_disturbs_no_other(hopper):
    worlds = 33
    good = physics.Batch(hopper, worlds)
    bad = physics.Batch(hopper, worlds)
    qpos, qvel, _ = good.get_state()
    qvel[:] = 0.1
    good.set_state(qpos, qvel)
    qvel[2, 7], qpos[1, 20], qvel[0, 32] = np.nan, np.inf, 1e20
    bad.set_state(qpos, qvel)
    controls = good.controls(np.zeros((hopper.nu, worlds)))
    for _ in range(3):
        good.step(controls)
        bad.step(controls)
    assert np.nonzero(np.array(bad.resets))[0].tolist() == [7, 20, 32]
    others = np.setdiff1d(np.arange(worlds), [7, 20, 32])
    for mine, theirs in zip(bad.get_state(), good.get_state()):
        assert np.isfinite(mine).all()
        assert (mine[:, others] == theirs[:, others]).all()


def test_equal_worlds_stay_equal_whatever_their_number(hopper):
    results = []
    for worlds in (1, 17, 64):
        batch = physics.Batch(hopper, worlds, substeps=50)
        batch.step(batch.controls(np.full((hopper.nu, worlds), 0.3)))
        qpos, _, _ = batch.get_state()
        assert (qpos == qpos[:, :1]).all()
        results.append(qpos[:, 0])
    assert (results[0] == results[1]).all() and (results[0] == results[2]).all()


@pytest.mark.parametrize("name", ["hopper", pytest.param("humanoid", marks=pytest.mark.slow)])
def test_plain_floats_give_the_same_step(name):
    """The scalar backend: no compiler, no arrays."""
    m = robot(name)
    model = physics.load(m)
    states = visited_states(m, 25)
    number = kind(double=True)
    state = physics.make_state(model, columns(states.qpos, number), columns(states.qvel, number))
    compiled = physics.step(model, state, columns(states.ctrl, number), substeps=2)
    dr.eval(compiled.qpos)
    for k in (0, 12, 24):
        single = physics.make_state(model, states.qpos[k].tolist(), states.qvel[k].tolist())
        plain = physics.step(model, single, states.ctrl[k].tolist(), substeps=2)
        assert all(isinstance(q, float) for q in plain.qpos)
        assert plain.qpos == pytest.approx([q[k] for q in compiled.qpos], abs=1e-9)


def test_left_out_self_contacts_are_counted():
    m = robot("humanoid")
    states = visited_states(m, 200)
    dropped = []
    for slots in (1, 6):
        model = physics.load(m, self_contacts=slots)
        state = physics.make_state(model, columns(states.qpos, kind()), columns(states.qvel, kind()))
        dropped.append(np.array(physics.step(model, state, columns(states.ctrl, kind())).dropped).sum())
    assert dropped[0] > dropped[1]


@pytest.mark.slow
def test_ten_million_humanoid_steps_without_a_bad_state():
    model = physics.load(robot("humanoid"))
    worlds, substeps = 4096, 5
    batch = physics.Batch(model, worlds, substeps=substeps)
    rng = np.random.default_rng(0)
    pool = [batch.controls(rng.uniform(-0.4, 0.4, (model.nu, worlds))) for _ in range(32)]
    for k in range(10_000_000 // worlds):
        batch.step(pool[rng.integers(len(pool))])
        if k % 200 == 199:
            batch.reset()
    qpos, qvel, _ = batch.get_state()
    assert np.array(batch.resets).sum() == 0
    assert np.isfinite(qpos).all() and np.abs(qvel).max() < 500


def test_parameters_are_inputs_of_the_recorded_step(hopper):
    """Other gravity and mass for the next steps, without tracing again."""
    worlds = 32
    number = kind()
    zero = dr.opaque(number, 0.0, worlds)

    def moon(strength: float) -> physics.Parameters:
        parameters = physics.Parameters(gravity=[zero + 0.0, zero * 1.0, zero - strength], mass={1: zero + 1.5})
        dr.eval(parameters.gravity, parameters.mass)
        return parameters

    heights = []
    batch = physics.Batch(hopper, worlds, substeps=20, parameters=moon(9.81))
    controls = batch.controls(np.zeros((hopper.nu, worlds)))
    for strength in (9.81, 1.6):
        batch.parameters = moon(strength)
        batch.reset()
        batch.step(controls)
        heights.append(batch.get_state()[0][1, 0])
    assert batch.recordings == 1
    assert heights[1] > heights[0]


def test_garbage_does_not_stop_a_recording(hopper):
    """Arrays that wrap NumPy memory, in cycles that only the garbage collector can free."""
    for _ in range(200):
        cycle: list = [kind()(np.zeros(4, np.float32))]
        cycle.append(cycle)
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        batch = physics.Batch(hopper, 8)
        batch.step(batch.controls(np.zeros((hopper.nu, 8))))
    finally:
        gc.set_threshold(*before)
    assert np.isfinite(batch.get_state()[0]).all()
