"""The wrenches of contacts on bodies are MuJoCo's cfrc_ext."""

from __future__ import annotations

import drjit as dr
import mujoco
import numpy as np
import pytest
from robots import MUJOCO_HUMANOID, columns, converged, kind, relative, robot, rows, visited_states

from slipstream import arrays, physics

RK4 = mujoco.mjtIntegrator.mjINT_RK4

# Two trees, things that do not move (one of them under the second tree's root), and contacts without friction.
SCENE = """<mujoco><option timestep="0.004"/><worldbody>
  <geom type="plane" size="5 5 1" euler="8 4 0"/>
  <body name="post" pos="0.35 0 0.2"><geom type="capsule" size="0.1 0.3" euler="50 0 0"/></body>
  <body name="one" pos="0 0 0.3"><freejoint/><geom size="0.15"/>
    <body name="horn" pos="0.1 0.1 0.1"><geom type="capsule" size="0.05 0.1"/></body>
    <body name="arm" pos="0.2 0 0"><joint axis="0 1 0"/><geom type="capsule" size="0.05 0.2" pos="0.15 0 0"/></body>
  </body>
  <body name="base" pos="-0.3 0 0.4"><geom size="0.1" condim="1"/>
    <body name="lower" pos="0.18 0 0"><joint axis="1 0 0"/><geom type="capsule" size="0.06 0.2" pos="0 0 -0.2"/>
      <body name="upper"><joint type="ball"/><geom type="capsule" size="0.05 0.2" pos="0.3 0 0" condim="1"/></body>
    </body>
  </body></worldbody></mujoco>"""


def mujoco_wrenches(m: mujoco.MjModel, states, steps: int = 0) -> np.ndarray:
    """MuJoCo's cfrc_ext in the states, or what it is after some steps from there; [states, bodies * 6]."""
    found = []
    for qpos, qvel, ctrl in zip(states.qpos, states.qvel, states.ctrl):
        data = mujoco.MjData(m)
        data.qpos[:], data.qvel[:], data.ctrl[:] = qpos, qvel, ctrl
        if steps:
            mujoco.mj_step(m, data, steps)
        else:
            mujoco.mj_forward(m, data)
        mujoco.mj_rnePostConstraint(m, data)
        found.append(data.cfrc_ext.ravel().copy())
    return np.array(found)


def our_wrenches(model: physics.Model, states, double: bool, parameters=None) -> np.ndarray:
    qpos, qvel, ctrl = (columns(a, kind(double)) for a in (states.qpos, states.qvel, states.ctrl))
    wrenches = physics.contact_wrenches(model, qpos, qvel, [0.0 * v for v in qvel], ctrl, parameters)
    return rows([value for wrench in wrenches for value in wrench], len(states.qpos))


@pytest.mark.parametrize(
    "name", ["humanoid", pytest.param("humanoidstandup", marks=pytest.mark.slow), "ant", "walker2d", MUJOCO_HUMANOID]
)
def test_robots(name):
    m = robot(name)
    states = visited_states(m, 200, seed=5, every=20)
    expected = mujoco_wrenches(m, states)
    assert (np.abs(expected).max(1) > 1).sum() > 30
    model = physics.load(m, self_contacts=12)
    assert relative(our_wrenches(model, states, double=True), expected).max() < 1e-7
    error = relative(our_wrenches(model, states, double=False), expected)
    assert np.median(error) < 1e-5
    assert np.quantile(error, 0.98) < 2e-4


def test_trees_that_touch_each_other_and_what_does_not_move():
    m = converged(mujoco.MjModel.from_xml_string(SCENE))
    states = visited_states(m, 200, seed=6, every=20)
    expected = mujoco_wrenches(m, states)
    by_body = np.abs(expected).reshape(200, m.nbody, 6).max(-1)
    assert (by_body[:, 1:] > 0).sum(0).min() > 2, "every body is touched now and then"
    model = physics.load(m, self_contacts=12, newton_iterations=50)
    assert np.quantile(relative(our_wrenches(model, states, double=True), expected), 0.98) < 1e-6


def test_worlds_that_differ():
    m = robot("humanoid")
    states = visited_states(m, 60, seed=7, every=20)
    model = physics.load(m, self_contacts=12)
    changed = physics.Parameters(friction=0.5, mass={i: 1.0 + 0.1 * i for i in range(1, len(model.links))})
    found = our_wrenches(model, states, double=True, parameters=changed)
    m.geom_friction[:] *= 0.5
    for b in range(1, m.nbody):
        factor = 1.0 + 0.1 * model.bodies[b].link
        m.body_mass[b] *= factor
        m.body_inertia[b] *= factor
    # mj_setConst is left out on purpose: it would change invweight0 too. This is what it does to the masses alone.
    for b in range(m.nbody - 1, -1, -1):
        below = [c for c in range(b + 1, m.nbody) if m.body_parentid[c] == b]
        m.body_subtreemass[b] = m.body_mass[b] + sum(m.body_subtreemass[c] for c in below)
    assert relative(found, mujoco_wrenches(m, states)).max() < 1e-7


def test_level_terrain_pushes_like_a_floor():
    ball = '<body pos="0 0 .09"><freejoint/><geom size=".1"/><geom type="capsule" size=".08 .1" pos=".2 0 0"/></body>'
    field = '<asset><hfield name="h" nrow="5" ncol="5" size="5 5 1 .1"/></asset>'
    on_floor = physics.load(f'<mujoco><worldbody><geom type="plane" size="1 1 1"/>{ball}</worldbody></mujoco>')
    on_field = physics.load(
        f'<mujoco>{field}<worldbody><geom type="hfield" hfield="h"/>{ball}</worldbody></mujoco>',
    )
    terrain = physics.make_terrain(on_field, arrays.array_types("llvm"), np.zeros((1, 5, 5)))
    states = visited_states(converged(on_floor.mujoco), 40, every=1, spread=0.01)
    expected = our_wrenches(on_floor, states, double=False)
    found = our_wrenches(on_field, states, double=False, parameters=physics.Parameters(terrain=terrain))
    assert np.abs(expected).max() > 10
    assert relative(found, expected).max() < 1e-4


@pytest.mark.parametrize(
    ("name", "integrator"),
    [pytest.param("humanoid", RK4, marks=pytest.mark.slow), ("ant", RK4), ("ant", None), ("half_cheetah", None)],
)
@pytest.mark.parametrize("substeps", [1, 3])
def test_a_step_measures_what_its_last_evaluation_saw(name, integrator, substeps):
    m = robot(name) if integrator is None else robot(name, integrator)
    states = visited_states(m, 60, seed=8, every=20)
    expected = np.square(mujoco_wrenches(m, states, substeps)).sum(-1)
    assert (expected > 0).sum() > 10
    model, number = physics.load(m, self_contacts=12), kind(double=True)
    state = physics.make_state(model, columns(states.qpos, number), columns(states.qvel, number))

    def measure(wrenches):
        return [sum(value * value for wrench in wrenches for value in wrench), wrenches[1][5]]

    new = physics.step(model, state, columns(states.ctrl, number), substeps=substeps, measure=measure)
    dr.eval(new.qpos, new.measured)
    assert len(new.measured) == 2
    assert np.array(new.measured[0]) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_plain_numbers_measure_too():
    m = robot("ant", RK4)
    states = visited_states(m, 5, seed=9, every=50)
    model = physics.load(m, self_contacts=12)
    expected = mujoco_wrenches(m, states, 2)
    for k in range(5):
        state = physics.make_state(model, states.qpos[k].tolist(), states.qvel[k].tolist())
        new = physics.step(
            model, state, states.ctrl[k].tolist(), substeps=2, measure=lambda ws: [x for w in ws for x in w]
        )
        assert new.measured == pytest.approx(expected[k], rel=1e-6, abs=1e-6)


def test_nothing_is_measured_unless_asked():
    model = physics.load(robot("hopper"))
    state = physics.make_state(model, list(model.qpos0), [0.0] * model.nv)
    assert physics.step(model, state, [0.0] * model.nu).measured == []
