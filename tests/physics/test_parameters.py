"""Worlds that differ in gravity, friction and mass, and pushes from outside; and what a task can measure."""

from __future__ import annotations

import drjit as dr
import mujoco
import numpy as np
import pytest
from robots import columns, converged, kind, relative, robot, rows, step_states, visited_states

from slipstream import arrays, physics

D = kind(double=True)


@pytest.fixture(scope="module")
def case():
    m = robot("ant")
    return m, physics.load(m, touch=("left_ankle_geom", "torso")), visited_states(m, 120)


def expect(m, states, change) -> np.ndarray:
    """qvel after a step of MuJoCo with `change(model, data, k)` applied first."""
    result = []
    for k in range(len(states.qpos)):
        model = m.__copy__()
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:], data.ctrl[:] = states.qpos[k], states.qvel[k], states.ctrl[k]
        change(model, data, k)
        mujoco.mj_step(model, data)
        result.append(data.qvel.copy())
    return np.array(result)


def test_gravity_and_friction_per_world(case):
    m, model, states = case
    rng = np.random.default_rng(0)
    count = len(states.qpos)
    gravity, friction = rng.normal(size=(count, 3)) * 5, rng.uniform(0.3, 1.5, count)

    def change(mj, data, k):
        mj.opt.gravity[:] = gravity[k]
        mj.geom_friction[:, 0] *= friction[k]

    parameters = physics.Parameters(gravity=columns(gravity, D), friction=D(friction))
    _, qvel, _ = step_states(model, states, double=True, parameters=parameters)
    assert relative(qvel, expect(m, states, change)).max() < 1e-7


def test_mass_per_world(case):
    m, model, states = case
    scale = np.random.default_rng(1).uniform(0.5, 2.0, len(states.qpos))
    link = model.bodies[model.body("torso")].link
    members = [b for b, body in enumerate(model.bodies) if body.link == link]

    def change(mj, data, k):
        mj.body_mass[members] *= scale[k]
        mj.body_inertia[members] *= scale[k]

    _, qvel, _ = step_states(model, states, double=True, parameters=physics.Parameters(mass={link: D(scale)}))
    assert relative(qvel, expect(m, states, change)).max() < 1e-7


def test_pushes(case):
    m, model, states = case
    push = np.random.default_rng(2).normal(size=(len(states.qpos), 6)) * 20

    def change(mj, data, k):
        data.xfrc_applied[3] = push[k]

    _, qvel, _ = step_states(model, states, double=True, pushes={3: columns(push, D)})
    assert relative(qvel, expect(m, states, change)).max() < 1e-7


def test_touch_is_the_normal_contact_force(case):
    m, model, states = case
    state = physics.make_state(model, columns(states.qpos, D), columns(states.qvel, D))
    found = rows(physics.step(model, state, columns(states.ctrl, D)).touch, len(states.qpos))
    expected = np.zeros_like(found)
    data, force = mujoco.MjData(m), np.zeros(6)
    for k in range(len(states.qpos)):
        data.qpos[:], data.qvel[:], data.ctrl[:] = states.qpos[k], states.qvel[k], states.ctrl[k]
        mujoco.mj_forward(m, data)
        for c, contact in enumerate(data.contact):
            mujoco.mj_contactForce(m, data, c, force)
            for s, geoms in enumerate(model.touch):
                expected[k, s] += force[0] * (contact.geom1 in geoms or contact.geom2 in geoms)
    assert expected.max() > 10
    assert np.abs(found - expected).max() < 1e-5 * expected.max()


@pytest.mark.parametrize("name", ["humanoid", "walker2d", "swimmer"])
def test_bodies_are_where_mujoco_has_them(name):
    m = robot(name)
    model, states = physics.load(m), visited_states(m, 20)
    qpos, qvel = columns(states.qpos, D), columns(states.qvel, D)
    where = physics.pose(model, qpos)
    moving = physics.motion(model, where, qvel)
    data, velocity = mujoco.MjData(m), np.zeros(6)
    for b in range(m.nbody):
        found = [
            rows(list(x), 20)
            for x in (
                physics.body_position(model, where, b),
                physics.body_quaternion(model, qpos, b),
                physics.body_velocity(model, where, moving, b),
                sum(physics.body_rotation(model, where, b), ()),
                physics.centre_of_mass(model, where),
            )
        ]
        for k in range(20):
            data.qpos[:], data.qvel[:] = states.qpos[k], states.qvel[k]
            mujoco.mj_forward(m, data)
            mujoco.mj_objectVelocity(m, data, mujoco.mjtObj.mjOBJ_XBODY, b, velocity, 0)
            sign = np.sign(data.xquat[b] @ found[1][k])
            fixed = sum(data.xipos[i] * m.body_mass[i] for i in range(m.nbody) if m.body_weldid[i] == 0)
            moving_mass = sum(m.body_mass[i] for i in range(m.nbody) if m.body_weldid[i] != 0)
            com = (data.xipos.T @ m.body_mass - fixed) / moving_mass
            for x, y in zip(found, (data.xpos[b], sign * data.xquat[b], velocity, data.xmat[b], com)):
                assert x[k] == pytest.approx(y, abs=1e-9)


@pytest.mark.parametrize("name", ["ant", "inverted_double_pendulum"])
def test_constraint_forces(name):
    m = robot(name)
    model, states = physics.load(m), visited_states(m, 60)
    qpos, qvel, ctrl = (columns(a, D) for a in (states.qpos, states.qvel, states.ctrl))
    found = rows(physics.constraint_forces(model, qpos, qvel, [0.0 * v for v in qvel], ctrl), 60)
    data, expected = mujoco.MjData(m), np.zeros_like(found)
    for k in range(60):
        data.qpos[:], data.qvel[:], data.ctrl[:] = states.qpos[k], states.qvel[k], states.ctrl[k]
        mujoco.mj_forward(m, data)
        expected[k] = data.qfrc_constraint
    assert np.abs(expected).max() > 1
    assert relative(found, expected).max() < 1e-7


def test_actuators_of_all_kinds():
    joint = '<joint name="{0}" axis="0 1 0" range="-170 170"/>'
    xml = f"""<mujoco><worldbody><body>{joint.format("a")}<geom type="capsule" size="0.05 0.2"/>
      <body pos="0.3 0 0">{joint.format("b")}<geom size="0.1"/>
      <body pos="0.3 0 0">{joint.format("c")}<geom size="0.1"/>
      </body></body></body></worldbody><actuator>
      <position joint="a" kp="20" kv="1" gear="2" forcerange="-9 9"/>
      <velocity joint="b" kv="3" ctrlrange="-2 2"/>
      <general joint="c" gaintype="affine" gainprm="2 0.5 -0.3" biastype="affine" biasprm="0.1 -1 -0.4"/>
      <motor joint="c" gear="-3" ctrlrange="-1 1"/></actuator></mujoco>"""
    for integrator in (mujoco.mjtIntegrator.mjINT_EULER, mujoco.mjtIntegrator.mjINT_IMPLICITFAST):
        m = converged(mujoco.MjModel.from_xml_string(xml), integrator)
        states = visited_states(m, 100)
        states_ctrl = states.ctrl * 2
        model = physics.load(m)
        found = rows(
            physics.actuator_forces(model, columns(states.qpos, D), columns(states.qvel, D), columns(states_ctrl, D)),
            100,
        )
        data = mujoco.MjData(m)
        for k in range(100):
            data.qpos[:], data.qvel[:], data.ctrl[:] = states.qpos[k], states.qvel[k], states_ctrl[k]
            mujoco.mj_forward(m, data)
            assert found[k] == pytest.approx(data.actuator_force, abs=1e-9)
        _, qvel, _ = step_states(model, states, double=True)
        assert relative(qvel, states.next_qvel).max() < 1e-8


@pytest.mark.parametrize("flags", ["", 'spring="disable"', 'damper="disable"', 'spring="disable" damper="disable"'])
def test_a_fluid_acts_unless_springs_and_dampers_are_both_disabled(flags):
    xml = f"""<mujoco><option density="500" viscosity="2" wind="1 0 0"><flag {flags}/></option><worldbody>
      <body><freejoint/><geom type="box" size="0.1 0.2 0.3"/></body></worldbody></mujoco>"""
    m = converged(mujoco.MjModel.from_xml_string(xml))
    states = visited_states(m, 20)
    _, _, qacc = step_states(physics.load(m), states, double=True)
    assert relative(qacc, states.qacc).max() < 1e-9


TERRAIN = """<mujoco><option timestep="0.005"/>{asset}<worldbody>{floor}<body pos="0 0 .5"><freejoint/>
  <geom type="sphere" size=".1" pos=".2 0 0"/>
  <geom type="capsule" size=".05 .2" pos="-.1 0 0" euler="0 70 10"/>
  <geom type="box" size=".1 .2 .1" pos="0 .3 .1" contype="0"/></body></worldbody></mujoco>"""
FIELD = '<asset><hfield name="h" nrow="21" ncol="31" size="5 4 1 .1"/></asset>'


def terrain_model(heights: np.ndarray) -> physics.Model:
    xml = TERRAIN.format(asset=FIELD, floor='<geom type="hfield" hfield="h" pos="0 0 -.2"/>')
    m = mujoco.MjModel.from_xml_string(xml)
    m.hfield_data[:] = heights.ravel()
    return physics.load(m)


def test_level_terrain_is_a_floor_and_worlds_may_stand_on_different_fields():
    model = terrain_model(np.full((21, 31), 0.2))
    floor = physics.load(TERRAIN.format(asset="", floor='<geom type="plane" size="1 1 1"/>'))
    low, high = np.full((21, 31), 0.2), np.full((21, 31), 0.5)
    types = arrays.array_types("llvm")
    terrain = physics.make_terrain(model, types, np.stack([low, high]))
    level = np.arange(32) % 2
    terrain.level = types.UInt(level.astype(np.uint32)) + dr.opaque(types.UInt, 0)
    dr.eval(terrain.level)
    on_terrain = physics.Batch(model, 32, substeps=300, parameters=physics.Parameters(terrain=terrain))
    on_floor = physics.Batch(floor, 32, substeps=300)
    qvel = np.tile(np.array([0.3, 0.1, 0, 0.5, 0.2, 0.1])[:, None], (1, 32))
    qpos = np.tile(np.array(floor.qpos0)[:, None], (1, 32))
    on_floor.set_state(qpos, qvel)
    qpos = qpos + np.array([0, 0, 0.3, 0, 0, 0, 0])[:, None] * level
    on_terrain.set_state(qpos, qvel)
    on_floor.step([])
    on_terrain.step([])
    difference = on_terrain.get_state()[0] - on_floor.get_state()[0]
    assert np.abs(difference[2] - 0.3 * level).max() < 1e-4
    assert np.abs(difference[[0, 1, 3, 4, 5, 6]]).max() < 1e-4


def test_a_sphere_at_rest_on_a_slope_as_in_mujoco():
    slope = np.linspace(0, 1, 31)[None, :].repeat(21, 0)
    model = terrain_model(slope)
    terrain = physics.make_terrain(model, arrays.array_types("llvm"))
    height, normal = physics.surface(model, terrain, D([1.234, -2.0]), D([0.4, 0.4]))
    assert np.array(height) == pytest.approx([-0.2 + 6.234 / 10, -0.2 + 0.3], abs=1e-6)
    assert [n[0] for n in normal] == pytest.approx(np.array([-0.1, 0, 1]) / np.hypot(0.1, 1), abs=1e-6)


@pytest.mark.parametrize("backend", ["llvm", "scalar"])
def test_cells_are_halved_along_mujocos_diagonal(backend):
    """Every place of a rough field, by MuJoCo's rays; and where its contacts begin."""
    rng = np.random.default_rng(0)
    model = terrain_model(rng.uniform(0, 1, (21, 31)))
    terrain = physics.make_terrain(model, arrays.array_types(backend))
    x, y = rng.uniform(-4.9, 4.9, 100), rng.uniform(-3.9, 3.9, 100)
    if backend == "llvm":
        heights = np.array(physics.surface(model, terrain, D(x), D(y))[0])
    else:
        heights = np.array([physics.surface(model, terrain, *place)[0] for place in zip(x.tolist(), y.tolist())])
    data, down = mujoco.MjData(model.mujoco), np.array([0.0, 0.0, -1.0])
    data.qpos[:3] = 1000.0  # out of the way
    mujoco.mj_forward(model.mujoco, data)
    hit = np.zeros(1, np.int32)
    rays = [mujoco.mj_ray(model.mujoco, data, np.array([*at, 5.0]), down, None, 1, -1, hit) for at in zip(x, y)]
    assert heights == pytest.approx(5.0 - np.array(rays), abs=1e-5)


def test_contacts_with_a_peak_begin_where_mujocos_do():
    """A tiny ball over a cell with one high corner."""
    xml = """<mujoco><asset><hfield name="h" nrow="2" ncol="2" size="1 1 1 .1"/></asset><worldbody>
      <geom type="hfield" hfield="h"/><body><freejoint/><geom size="1e-3" mass="1"/>
      </body></worldbody></mujoco>"""
    m = mujoco.MjModel.from_xml_string(xml)
    m.hfield_data[:] = [0, 0, 0, 1]
    model, data = physics.load(m), mujoco.MjData(m)
    terrain = physics.make_terrain(model, arrays.array_types("scalar"))
    for x, y, height in ((0.0, 1e-3, 0.5), (0.5, 0.51, 0.75), (-0.5, 0.5, 0.25), (0.5, -0.5, 0.25)):
        for z in (height - 4e-3, height + 4e-3):
            data.qpos[:3] = x, y, z
            mujoco.mj_forward(m, data)
            where = physics.pose(model, [x, y, z, 1.0, 0.0, 0.0, 0.0])
            assert bool(physics.touches_ground(model, where, 1, terrain)) == (data.ncon > 0) == (z < height)


ODD_PLACES = [0.1, float("nan"), float("inf"), -float("inf"), 1e30, -1e30]


@pytest.mark.parametrize("backend", ["llvm", "scalar"])
def test_nothing_beyond_a_field_is_read(backend):
    model = terrain_model(np.full((21, 31), 0.7))
    terrain = physics.make_terrain(model, arrays.array_types(backend))
    for level in (0, 10**6, -1):
        terrain.level = level
        if backend == "llvm":
            heights = physics.surface(model, terrain, D(ODD_PLACES), D(ODD_PLACES[::-1]))[0]
        else:
            heights = [physics.surface(model, terrain, *place)[0] for place in zip(ODD_PLACES, ODD_PLACES[::-1])]
        finite = ~np.isnan(ODD_PLACES) & ~np.isnan(ODD_PLACES[::-1])
        assert np.array(heights)[finite] == pytest.approx(0.5, abs=1e-6)


def test_terrain_must_be_given_and_fit():
    model = terrain_model(np.zeros((21, 31)))
    with pytest.raises(physics.ModelError, match="terrain"):
        physics.Batch(model, 2).step([])
    with pytest.raises(physics.ModelError, match="21, 31"):
        physics.make_terrain(model, arrays.array_types("llvm"), np.zeros((1, 3, 3)))
