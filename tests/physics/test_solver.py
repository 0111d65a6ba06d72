"""The constraint solver always gets there, and float32 is enough, also where contacts are stiff."""

from __future__ import annotations

import drjit as dr
import mujoco
import numpy as np
import pytest
from robots import States, columns, converged, kind, relative, rounded, rows, step_states, visited_states
from test_random_trees import separate_capsules

from slipstream import physics
from slipstream.physics.dynamics import link_motions, multiply
from slipstream.physics.problem import Problem, cone_edges, cone_rows
from slipstream.physics.solver import newton_step
from slipstream.physics.step import make_problem
from slipstream.physics.woodbury import slot_components


def chain(links: int, friction: float, option: str = "") -> str:
    """Capsules in a row that fall on a floor."""
    joints = '<joint axis="0 1 0" damping="0.05"/><joint axis="0 0 1" range="-60 60" damping="0.05"/>'
    body = ""
    for k in range(links):
        where = '<body pos="0 0 0.3"><freejoint/>' if k == 0 else f'<body pos="0.3 0 0">{joints}'
        body += f'{where}<geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.05" contype="0" conaffinity="1"/>'
    return f"""<mujoco><option timestep="0.004" {option}/><default><geom friction="{friction}"/></default><worldbody>
      <geom type="plane" size="5 5 1"/>{body}{"</body>" * links}</worldbody></mujoco>"""


def arm(friction: float) -> str:
    """Two links on a floor."""
    link = '<joint axis="0 1 0"/><joint axis="{}"/><geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.05"/>'
    return f"""<mujoco><option timestep="0.004"/><default><geom friction="{friction}"/></default><worldbody>
      <geom type="plane" size="5 5 1"/><body pos="0 0 0.1">{link.format("0 0 1")}
      <body pos="0.4 0 0">{link.format("1 0 0")}</body></body></worldbody></mujoco>"""


def random_tree(seed: int) -> str:
    """A tree that falls on a floor, with a friction coefficient from 1e-4 to 2; every second one touches itself."""
    rng = np.random.default_rng(seed)
    friction, impratio = 10.0 ** rng.uniform(-4.0, 0.3), rng.choice([1, 3, 30])
    contact = "" if seed % 2 == 0 else 'contype="0" conaffinity="1"'
    joints = (
        '<joint axis="0 1 0" damping="0.02"/>',
        '<joint axis="1 0 1" range="-40 50" frictionloss="0.1"/>',
        '<joint type="ball" damping="0.02"/>',
        '<joint axis="0 1 0"/><joint axis="0 0 1" range="-50 50"/>',
    )
    shapes = (
        f'type="capsule" fromto="0 0 0 0.25 0 0" size="0.05" {contact}',
        f'size="0.07" pos="0.15 0 0" {contact}',
        'type="box" size="0.1 0.04 0.05" pos="0.15 0 0" contype="0" conaffinity="2"',
    )

    def body(depth: int) -> str:
        turn = " ".join(map(str, rng.integers(-90, 90, 3)))
        children = "".join(body(depth - 1) for _ in range(rng.integers(1, 3))) if depth else ""
        parts = f"{rng.choice(joints)}<geom {rng.choice(shapes)}/>{children}"
        return f'<body pos="0.25 0 0" euler="{turn}">{parts}</body>'

    return f"""<mujoco><option timestep="0.004" impratio="{impratio}"/>
      <default><geom friction="{friction:.6f}"/></default>
      <worldbody><geom type="plane" size="5 5 1" contype="3" conaffinity="1"/><body pos="0 0 0.3"><freejoint/>
      <geom type="capsule" fromto="-0.2 0 0 0.2 0 0" size="0.06" {contact}/>{body(1)}{body(int(rng.integers(0, 2)))}
      </body></worldbody></mujoco>"""


def quadruped(self_contacts: bool = False, option: str = "") -> str:
    """Twelve kilograms on four legs, on feet as hard as those of some published models."""
    legs, motors = "", ""
    contact = "" if self_contacts else 'contype="0" conaffinity="1"'
    for k, (x, y) in enumerate(((0.2, 0.1), (0.2, -0.1), (-0.2, 0.1), (-0.2, -0.1))):
        legs += f"""<body pos="{x} {y} 0"><joint name="a{k}" axis="1 0 0" range="-40 40"/>
          <joint name="b{k}" axis="0 1 0" range="-60 90"/><geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.03"
          {contact}/><body pos="0 0 -0.2"><joint name="c{k}" axis="0 1 0" range="-120 10"/>
          <geom type="capsule" fromto="0 0 0 0 0 -0.2" size="0.02" {contact}/>
          <geom name="foot{k}" pos="0 0 -0.2" size="0.03" priority="1" solimp="0.015 1 0.031" friction="0.8" {contact}/>
          </body></body>"""
        motors += "".join(f'<position joint="{j}{k}" kp="60" ctrlrange="-1 1"/>' for j in "abc")
    return f"""<mujoco><option impratio="100" timestep="0.004" {option}/>
      <default><joint damping="1" frictionloss="0.1"/></default><worldbody>
      <geom type="plane" size="5 5 1"/><body name="trunk" pos="0 0 0.45"><freejoint/>
      <geom type="box" size="0.25 0.1 0.05" mass="8" contype="0" {"conaffinity='2'" if self_contacts else ""}/>{legs}
      </body></worldbody><actuator>{motors}</actuator></mujoco>"""


# The property that keeps a Newton method from running in circles.


def cost(problem: Problem, acceleration: list):
    """What the solver minimises, by world."""
    total = 0.0
    products = zip(multiply(problem.model, problem.mass, acceleration), problem.force, acceleration)
    for product, force, a in products:
        total = total + (0.5 * product - force) * a
    for row in problem.rows:
        x = sum(c * acceleration[d] for c, d in zip(row.direction, row.dofs)) + row.offset
        if row.loss is None:
            total = total + 0.5 * row.stiffness * dr.square(dr.minimum(x, 0.0))
        else:
            inside = dr.minimum(dr.abs(x), row.loss / row.stiffness)
            total = total + row.loss * (dr.abs(x) - inside) + 0.5 * row.stiffness * inside * inside
    motions = link_motions(problem.model, problem.where, acceleration)
    pyramids = [(c.stiffness, cone_rows(c, motions[link])) for link, cones in problem.cones.items() for c in cones]
    pyramids += [(slot.stiffness, slot_components(slot, acceleration, True)) for slot in problem.slots]
    for stiffness, values in pyramids:
        for edge in cone_edges(values):
            total = total + 0.5 * stiffness * dr.square(dr.minimum(edge, 0.0))
    return total


def careful_iterations(model: physics.Model, states: States, most: int) -> tuple[np.ndarray, np.ndarray]:
    """From zero, with every step checked: by how much the cost rose at most, and how many steps there were."""
    qpos, qvel, ctrl = (columns(a, kind(double=True)) for a in (states.qpos, states.qvel, states.ctrl))
    problem = make_problem(model, qpos, qvel, ctrl, {}, physics.Parameters())

    def iterate(acceleration: list, going, count, before, rise) -> tuple:
        new = newton_step(problem, acceleration)
        after = cost(problem, new.acceleration)
        rise = dr.maximum(rise, (after - before) / (1.0 + dr.abs(before)))
        return new.acceleration, going & new.unfinished & (count + 1 < most), count + 1, after, rise

    zeros = [0.0 * v for v in qvel]
    going = dr.mask_t(zeros[0])(True)
    start = (zeros, going, dr.uint32_array_t(zeros[0])(0), cost(problem, zeros), type(zeros[0])(-1e30))
    _, _, count, _, rise = dr.while_loop(start, lambda a, going, *rest: going, iterate)
    return np.array(rise), np.array(count)


def mujoco_iterations(m: mujoco.MjModel, states: States) -> np.ndarray:
    """How many iterations MuJoCo's Newton solver takes from no guess."""
    data, found = mujoco.MjData(m), []
    for qpos, qvel, ctrl in zip(states.qpos, states.qvel, states.ctrl):
        data.qpos[:], data.qvel[:], data.ctrl[:], data.qacc_warmstart[:] = qpos, qvel, ctrl, 0.0
        mujoco.mj_forward(m, data)
        found.append(data.solver_niter.max())
    return np.array(found)


@pytest.mark.parametrize("seed", [3, 4, 5, 6])
def test_random_trees_with_any_friction_are_solved_as_in_mujoco(seed):
    """The cost falls in every iteration, these are as few as MuJoCo's, and end where MuJoCo's do."""
    m = converged(mujoco.MjModel.from_xml_string(random_tree(seed)))
    states = rounded(m, visited_states(m, 200, every=8))
    touching = (states.contacts > 0) & separate_capsules(m, states)
    assert touching.sum() > 40
    model = physics.load(m)
    rise, ours = careful_iterations(model, states, most=50)
    assert (rise < 1e-10).all()
    theirs = mujoco_iterations(m, states)
    assert ours[touching].max() <= theirs[touching].max() + 2
    assert ours[touching].mean() <= theirs[touching].mean() + 0.2
    for double, bound in ((True, 1e-6), (False, 1e-3)):
        _, _, qacc = step_states(model, states, double=double)
        assert relative(qacc, states.qacc)[touching].max() < bound


def test_an_arm_whose_full_newton_steps_run_in_a_circle():
    m = converged(mujoco.MjModel.from_xml_string(arm(friction=0.3)))
    states = rounded(m, visited_states(m, 400, every=10))
    touching = states.contacts > 0
    assert touching.sum() > 100
    for double, bound in ((True, 1e-6), (False, 1e-3)):
        _, _, qacc = step_states(physics.load(m), states, double=double)
        assert relative(qacc, states.qacc)[touching].max() < bound


@pytest.mark.parametrize("friction", [1e-4, 0.01, 0.1, 0.4, 1.0])
def test_a_chain_on_a_slippery_floor(friction):
    m = converged(mujoco.MjModel.from_xml_string(chain(4, friction)))
    states = rounded(m, visited_states(m, 200, every=10))
    touching = states.contacts > 0
    assert touching.sum() > 80
    for double, bound in ((True, 1e-4), (False, 1e-3)):
        _, _, qacc = step_states(physics.load(m), states, double=double)
        assert relative(qacc, states.qacc)[touching].max() < bound


# Hard contacts in float32.


def contact_wrenches(model: physics.Model, states: States, double: bool) -> np.ndarray:
    qpos, qvel, ctrl = (columns(a, kind(double)) for a in (states.qpos, states.qvel, states.ctrl))
    wrenches = physics.contact_wrenches(model, qpos, qvel, [0.0 * v for v in qvel], ctrl)
    return rows([value for wrench in wrenches for value in wrench], len(states.qpos))


def mujoco_wrenches(m: mujoco.MjModel, states: States) -> np.ndarray:
    data, found = mujoco.MjData(m), []
    for qpos, qvel, ctrl in zip(states.qpos, states.qvel, states.ctrl):
        data.qpos[:], data.qvel[:], data.ctrl[:] = qpos, qvel, ctrl
        mujoco.mj_forward(m, data)
        mujoco.mj_rnePostConstraint(m, data)
        found.append(data.cfrc_ext.ravel().copy())
    return np.array(found)


def test_hard_feet_in_float32():
    m = converged(mujoco.MjModel.from_xml_string(quadruped()))
    states = rounded(m, visited_states(m, 300, every=25))
    touching = states.contacts > 0
    assert touching.sum() > 60
    model = physics.load(m)
    _, _, qacc = step_states(model, states)
    assert relative(qacc, states.qacc)[touching].max() < 1e-3
    expected = mujoco_wrenches(m, states)
    assert relative(contact_wrenches(model, states, double=False), expected)[touching].max() < 1e-3


def test_hard_feet_that_touch_each_other():
    m = converged(mujoco.MjModel.from_xml_string(quadruped(self_contacts=True)))
    states = rounded(m, visited_states(m, 200, every=15))
    touching = states.contacts > 0
    assert touching.sum() > 60
    _, _, qacc = step_states(physics.load(m, self_contacts=8), states)
    assert relative(qacc, states.qacc)[touching].max() < 1e-3


def test_links_that_press_hard_on_each_other():
    """Self-contacts that are many million times stiffer than the links."""
    ball = '<geom size="0.1" solimp="0.015 1 0.01" friction="0.1"/>'
    arm = '<body pos="{0} 0 0"><joint type="ball"/><geom type="capsule" fromto="0 0 0 {1} 0 0" size="0.05"/>'
    arms = "".join(
        f"{arm.format(x, 0.3 - x)}<body pos='{0.3 - x} 0 0'>{ball}<joint axis='0 1 0'/></body></body>" for x in (0, 0.5)
    )
    xml = f'<mujoco><option impratio="100" gravity="0 0 0"/><worldbody>{arms}</worldbody></mujoco>'
    m = converged(mujoco.MjModel.from_xml_string(xml))
    states = rounded(m, visited_states(m, 300, every=3, spread=0.2))
    touching = (states.contacts > 0) & separate_capsules(m, states)
    assert touching.sum() > 40
    for double, bound in ((True, 1e-6), (False, 1e-3)):
        _, _, qacc = step_states(physics.load(m, self_contacts=4), states, double=double)
        assert relative(qacc, states.qacc)[touching].max() < bound


def test_hard_feet_with_runge_kutta():
    m = converged(mujoco.MjModel.from_xml_string(quadruped(option='integrator="RK4"')))
    states = rounded(m, visited_states(m, 100, every=10))
    _, qvel, _ = step_states(physics.load(m), states)
    assert relative(qvel, states.next_qvel)[states.contacts > 0].max() < 1e-4


def test_hard_feet_report_what_they_carry():
    m = converged(mujoco.MjModel.from_xml_string(quadruped()))
    states = rounded(m, visited_states(m, 100, every=10))
    model = physics.load(m, touch=("foot0", "foot3"))
    state = physics.make_state(model, columns(states.qpos, kind()), columns(states.qvel, kind()))
    found = rows(physics.step(model, state, columns(states.ctrl, kind())).touch, 100)
    expected, force = np.zeros((100, 2)), np.zeros(6)
    for k in range(100):
        data = mujoco.MjData(m)
        data.qpos[:], data.qvel[:], data.ctrl[:] = states.qpos[k], states.qvel[k], states.ctrl[k]
        mujoco.mj_forward(m, data)
        for c, contact in enumerate(data.contact):
            mujoco.mj_contactForce(m, data, c, force)
            expected[k] += [force[0] * (m.geom(name).id in contact.geom) for name in ("foot0", "foot3")]
    assert (expected.max(0) > 10).all()
    assert relative(found, expected).max() < 1e-3


def test_a_robot_on_hard_feet_is_never_reset():
    model = physics.load(quadruped())
    batch = physics.Batch(model, 256, substeps=5)
    rng = np.random.default_rng(0)
    for _ in range(60):
        batch.step(batch.controls(rng.uniform(-1, 1, (model.nu, 256))))
    assert np.array(batch.resets).sum() == 0


@pytest.mark.parametrize("least", [None, 0.02])
def test_low_friction_in_some_worlds(least):
    m = converged(mujoco.MjModel.from_xml_string(chain(4, 1.0)))
    states = rounded(m, visited_states(m, 200, every=10))
    factor = np.geomspace(0.02, 1.0, 200).astype(np.float32)
    expected = []
    for k in range(200):
        changed = m.__copy__()
        changed.geom_friction[:, 0] *= factor[k]
        data = mujoco.MjData(changed)
        data.qpos[:], data.qvel[:] = states.qpos[k], states.qvel[k]
        mujoco.mj_forward(changed, data)
        expected.append(data.qacc.copy())
    parameters = physics.Parameters(friction=kind()(factor), least_friction=least)
    _, _, qacc = step_states(physics.load(m), states, parameters=parameters)
    assert relative(qacc, np.array(expected))[states.contacts > 0].max() < 1e-3


def test_plain_numbers_solve_stiff_problems_too():
    m = converged(mujoco.MjModel.from_xml_string(quadruped(self_contacts=True)))
    states = visited_states(m, 40, every=10)
    model = physics.load(m, self_contacts=4)
    for k in np.nonzero(states.contacts > 1)[0][:4]:
        state = physics.make_state(model, states.qpos[k].tolist(), states.qvel[k].tolist())
        new = physics.step(model, state, states.ctrl[k].tolist())
        assert all(isinstance(v, float) for v in new.qvel)
        assert relative(np.array(new.qvel), states.next_qvel[k]) < 1e-6
