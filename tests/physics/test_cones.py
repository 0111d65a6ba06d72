"""Elliptic friction cones, torsional and rolling friction, against MuJoCo."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from robots import converged, relative, rounded, step_states, visited_states

from slipstream import physics
from slipstream.physics import solver

WALKER = """<mujoco><option timestep="0.004" {option}/><default>
  <geom condim="{condim}" friction="{friction}" contype="0" conaffinity="8"/></default>
  <worldbody><geom type="plane" size="5 5 1" euler="3 0 0" contype="8" conaffinity="0"/>
  <body pos="0 0 0.3"><freejoint/><geom type="box" size="0.2 0.1 0.05" {other}/>
    <body pos="0.15 0.1 0"><joint axis="0 1 0" damping="0.1"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.03" conaffinity="9"/></body>
    <body pos="0.15 -0.1 0"><joint axis="1 0.2 0" range="-20 30"/><geom type="capsule" fromto="0 0 0 0 0 -0.25"
      size="0.04" {other} conaffinity="9"/></body></body>
  <body pos="0.2 0.05 0.1"><freejoint/><geom size="0.08" contype="1"/></body></worldbody></mujoco>"""

CASES = [
    ('cone="elliptic" impratio="30"', 3, "", True),
    ('cone="elliptic"', 3, "", True),
    ('cone="elliptic"', 6, 'condim="1"', False),
    ("", 4, "", False),
    ('impratio="3"', 6, 'condim="4"', False),
]


def walker(option: str, condim: int, other: str) -> mujoco.MjModel:
    xml = WALKER.format(option=option, condim=condim, other=other, friction="0.6 0.02 0.01")
    return converged(mujoco.MjModel.from_xml_string(xml))


@pytest.mark.parametrize(("option", "condim", "other", "also_single"), CASES)
def test_a_step_is_mujocos(option, condim, other, also_single):
    m = walker(option, condim, other)
    states = visited_states(m, 200)
    assert states.contacts.max() > 3
    model = physics.load(m, self_contacts=2)
    _, qvel, qacc = step_states(model, states, double=True)
    error = relative(qacc, states.qacc)
    assert np.quantile(error, 0.9) < 1e-7 and error.max() < 1e-5, (np.quantile(error, [0.5, 0.9, 0.99]), error.max())
    assert relative(qvel, states.next_qvel).max() < 1e-5
    if not also_single:
        return
    single = rounded(m, states)
    error = relative(step_states(model, single)[2], single.qacc)
    assert np.median(error) < 3e-5 and error.max() < 1e-3, (np.quantile(error, [0.5, 0.9, 0.99]), error.max())


def test_a_robot_in_a_plane_has_elliptic_cones_too():
    """No contact can move across the plane: some numbers are zero in every world, and known to be."""
    xml = """<mujoco><option timestep="0.004" cone="elliptic"/><worldbody><geom type="plane" size="5 5 1"/>
      <body pos="0 0 0.2"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/><joint axis="0 1 0"/>
      <geom type="capsule" size="0.05 0.1"/><body pos="0.1 0 0"><joint axis="0 1 0"/><geom type="capsule"
      fromto="0 0 0 0.2 0 -0.1" size="0.03" contype="0"/></body></body></worldbody></mujoco>"""
    m = converged(mujoco.MjModel.from_xml_string(xml))
    states = visited_states(m, 100, every=10)
    assert (states.contacts > 0).mean() > 0.3
    assert relative(step_states(physics.load(m), states, double=True)[2], states.qacc).max() < 1e-5


def test_the_solver_begins_where_the_cost_is_lower(monkeypatch):
    """At the accelerations of the step before (zero here) or at those without constraints, by MuJoCo's own cost."""
    m = walker('cone="elliptic" impratio="30"', 6, 'condim="1"')
    states, data, model = visited_states(m, 40), mujoco.MjData(m), physics.load(m, self_contacts=6)
    begun: list[np.ndarray] = []
    newton = solver.newton

    def spy(problem, start, iterations):
        begun.append(np.array(start))
        return newton(problem, start, iterations)

    monkeypatch.setattr(solver, "newton", spy)
    choices = set()
    for qpos, qvel in zip(states.qpos, states.qvel):
        data.qpos[:], data.qvel[:] = qpos, qvel
        mujoco.mj_forward(m, data)
        if not data.ncon:
            continue
        physics.step(model, physics.make_state(model, qpos.tolist(), qvel.tolist()), [])
        zero, free = mujoco_cost(m, data, np.zeros(m.nv)), mujoco_cost(m, data, data.qacc_smooth)
        assert mujoco_cost(m, data, begun[-1]) == pytest.approx(min(zero, free), rel=1e-6, abs=1e-6)
        choices.add(zero < free)
    assert choices == {True, False}


def mujoco_cost(m: mujoco.MjModel, data: mujoco.MjData, acceleration: np.ndarray) -> float:
    cost, off, inertia = np.zeros(1), acceleration - data.qacc_smooth, np.zeros((m.nv, m.nv))
    mujoco.mj_fullM(m, data, inertia)
    product = np.zeros(data.nefc)
    mujoco.mj_mulJacVec(m, data, product, acceleration)
    mujoco.mj_constraintUpdate(m, data, product - data.efc_aref, cost, 0)
    return float(0.5 * off @ inertia @ off + cost[0])
