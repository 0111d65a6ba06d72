"""Ellipsoids, cylinders, boxes, meshes, spheres and capsules against each other: contacts and motion as in MuJoCo."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from robots import States, columns, converged, kind, relative, rows, step_states

from slipstream import physics
from slipstream.physics.kinematics import pose
from slipstream.physics.nearby import Found, add_convex
from slipstream.physics.selfcontact import tree_offset


def points(count: int, seed: int, size: tuple) -> str:
    where = np.random.default_rng(seed).normal(size=(count, 3))
    where *= np.array(size) / np.linalg.norm(where, axis=1, keepdims=True)
    return " ".join(f"{x:.5f}" for x in where.ravel())


ASSET = f"""<asset><mesh name="stone" vertex="{points(20, 0, (0.12, 0.1, 0.08))}"/>
  <mesh name="plate" vertex="{points(24, 1, (0.2, 0.1, 0.02))}"/></asset>"""
GEOMS = {
    "sphere": 'type="sphere" size="0.07"',
    "capsule": 'type="capsule" size="0.05 0.1"',
    "ellipsoid": 'type="ellipsoid" size="0.1 0.15 0.06"',
    "cylinder": 'type="cylinder" size="0.08 0.1"',
    "box": 'type="box" size="0.1 0.15 0.05"',
    "stone": 'type="mesh" mesh="stone"',
    "plate": 'type="mesh" mesh="plate"',
}
EXACT = [("sphere", "stone"), ("capsule", "stone"), ("box", "stone"), ("box", "plate"), ("stone", "plate")]
SMOOTH = [
    ("sphere", "ellipsoid"), ("capsule", "ellipsoid"), ("capsule", "cylinder"), ("ellipsoid", "ellipsoid"),
    ("ellipsoid", "cylinder"), ("ellipsoid", "box"), ("ellipsoid", "stone"), ("cylinder", "cylinder"),
    ("cylinder", "box"), ("cylinder", "stone"),
]  # fmt: skip


def model_of(world: str, margin: float = 0.0) -> mujoco.MjModel:
    option = '<option timestep="0.004" ccd_tolerance="1e-12" ccd_iterations="500"/>'
    default = f'<default><geom margin="{margin}"/></default>'
    xml = f"<mujoco>{option}{default}{ASSET}<worldbody>{world}</worldbody></mujoco>"
    return converged(mujoco.MjModel.from_xml_string(xml))


def two(one: str, other: str) -> mujoco.MjModel:
    return model_of("".join(f"<body><freejoint/><geom {GEOMS[name]}/></body>" for name in (one, other)))


def touching_states(m: mujoco.MjModel, count: int, deepest: float = 0.01) -> States:
    """Random poses of two bodies that touch."""
    rng, data, found = np.random.default_rng(0), mujoco.MjData(m), []
    while len(found) < count:
        data.qpos[:] = rng.normal(size=14)
        data.qpos[:3] *= 0.05
        data.qpos[7:10] = data.qpos[:3] + 0.12 * rng.normal(size=3)
        for quat in (data.qpos[3:7], data.qpos[10:]):
            quat /= np.linalg.norm(quat)
        data.qvel[:] = 0.5 * rng.normal(size=12)
        mujoco.mj_forward(m, data)
        if data.ncon and data.contact.dist.min() > -deepest:
            numbers = [data.qpos.copy(), data.qvel.copy(), data.ctrl.copy(), data.qacc.copy()]
            found.append((*numbers, data.qpos.copy(), data.qvel.copy(), np.array(data.ncon)))
    return States(*(np.array(column) for column in zip(*found)))


def contacts(m: mujoco.MjModel, states: States) -> tuple[np.ndarray, np.ndarray]:
    """How many contacts there are in every state, and what is known of them [states, slots, 7]."""
    model, count = physics.load(m), len(states.qpos)
    qpos = columns(states.qpos, kind(double=True))
    where = pose(model, qpos)
    nothing = Found([-1.0] * 6, [[0.0] * 7 for _ in range(6)], 0.0)
    found = add_convex(model, where, model.slot_pairs, lambda link: tree_offset(where, link), nothing, qpos[0])
    numbers = rows([found.count, *(x for row in found.known for x in row)], count)
    known = numbers[:, 1:].reshape(count, 6, 7)
    known[:, :, 1:4] += states.qpos[:, None, :3]
    return numbers[:, 0], known


@pytest.mark.parametrize(("one", "other"), [*EXACT, ("cylinder", "box"), ("cylinder", "cylinder")])
def test_solids_have_the_contacts_of_mujoco(one, other):
    m = two(one, other)
    states = touching_states(m, 200)
    number, known = contacts(m, states)
    same = number == states.contacts
    assert same.mean() > 0.97
    data, errors = mujoco.MjData(m), []
    for k in np.flatnonzero(same):
        data.qpos[:] = states.qpos[k]
        mujoco.mj_forward(m, data)
        theirs = np.concatenate([data.contact.dist[:, None], data.contact.pos, data.contact.frame[:, :3]], 1)
        mine = known[k, : data.ncon]
        errors.append(np.abs(theirs[:, None] - mine[None]).max(-1).min(1).max())
    assert np.median(errors) < 1e-6 and np.quantile(errors, 0.97) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(("one", "other"), [*EXACT, *SMOOTH])
def test_solids_that_touch_accelerate_as_in_mujoco(one, other):
    m = two(one, other)
    states = touching_states(m, 300)
    exact = (one, other) in EXACT
    for double in (True, False):
        error = relative(step_states(physics.load(m), states, double=double)[2], states.qacc)
        assert np.median(error) < (1e-5 if exact else 1e-3)
        assert np.quantile(error, 0.9) < (1e-3 if exact else 1e-2)


FLOOR = '<geom type="plane" size="5 5 1"/>'
TABLE = '<geom type="box" size="0.5 0.5 0.1" euler="0 3 0"/>'
STONE_ON_A_BOX = (
    FLOOR
    + f'<body pos="0 0 0.05"><freejoint/><geom {GEOMS["box"]}/></body>'
    + f'<body pos="0.02 0 0.19"><freejoint/><geom {GEOMS["stone"]}/></body>'
)
LEANING = (
    f'<geom {GEOMS["stone"]} pos="0.15 0 0"/>'
    '<body pos="0 0 0.4"><joint axis="0 1 0" damping="0.05" stiffness="5" springref="-40"/>'
    '<geom type="capsule" size="0.05" fromto="0 0 0 0 0 -0.4"/></body>'
)
# Of the sixteen corners of a can's cap MuJoCo may choose other four.
RESTING = [
    pytest.param(TABLE + f'<body pos="0 0 0.2"><freejoint/><geom {GEOMS["stone"]}/></body>', 1e-3, id="stone"),
    pytest.param(TABLE + f'<body pos="0 0 0.203"><freejoint/><geom {GEOMS["cylinder"]}/></body>', 0.2, id="can"),
    pytest.param(LEANING, 1e-3, id="leaning capsule"),
    pytest.param(STONE_ON_A_BOX, 1e-3, id="stone on a box", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("world", "tolerance"), RESTING)
def test_a_hundred_steps_go_as_in_mujoco(world, tolerance):
    """From each of MuJoCo's own states along the way one step, and all of them in one go."""
    m = model_of(world)
    data = mujoco.MjData(m)
    before, after, contacts = [], [], 0
    for _ in range(100):
        before.append((data.qpos.copy(), data.qvel.copy()))
        mujoco.mj_step(m, data)
        after.append(data.qvel.copy())
        contacts += data.ncon > 0
    assert contacts > 30
    qpos, qvel = (np.array(column) for column in zip(*before))
    batch = physics.Batch(physics.load(m), 100, double=True)
    batch.set_state(qpos.T, qvel.T)
    controls = batch.controls(np.zeros((0, 100)))
    batch.step(controls)
    assert np.quantile(relative(batch.get_state()[1].T, np.array(after)), 0.95) < tolerance
    batch.set_state(np.tile(qpos[:1].T, 100), np.tile(qvel[:1].T, 100))
    for _ in range(100):
        batch.step(controls)
    assert np.abs(batch.get_state()[0][:, 0] - data.qpos).max() < 0.01


def test_the_scalar_backend_has_the_same_contacts():
    m = two("box", "stone")
    states = touching_states(m, 3)
    model = physics.load(m)
    compiled = step_states(model, states, double=True)[1]
    for k in range(3):
        state = physics.make_state(model, states.qpos[k].tolist(), states.qvel[k].tolist())
        qvel = physics.step(model, state, []).qvel
        np.testing.assert_allclose(qvel, compiled[k], rtol=1e-9, atol=1e-9)


def test_a_stone_on_a_table_is_down_and_its_clearance_is_its_distance():
    m = model_of(TABLE + f'<body pos="0 0 0.2"><freejoint/><geom name="stone" {GEOMS["stone"]}/></body>')
    model, data = physics.load(m), mujoco.MjData(m)
    for height, down in ((0.13, True), (0.3, False)):
        data.qpos[2] = height
        mujoco.mj_forward(m, data)
        where = physics.pose(model, data.qpos.tolist())
        assert bool(physics.touches_ground(model, where, model.geom("stone"))) == down == bool(data.ncon)
        expected = mujoco.mj_geomDistance(m, data, 0, 1, 1.0, None)
        assert physics.clearance(model, where) == pytest.approx(expected, abs=1e-6)


def test_many_moving_boxes_beside_other_solids_step_as_in_mujoco():
    """Six pairs of boxes: a kernel with one call of `memset` in it would end the process."""
    body = '<body pos="{} 0 0" euler="{}"><joint type="slide" axis="1 0 0"/><geom {}/></body>'
    box, cylinder = 'type="box" size="0.1 0.1 0.1"', 'type="cylinder" size="0.1 0.1"'
    turns = ("10 5 40", "30 5 10", "0 25 40", "17 15 40")
    boxes = "".join(body.format(0.22 * i, turn, box) for i, turn in enumerate(turns))
    m = model_of(boxes + body.format(0.8, "0 30 0", cylinder))
    data = mujoco.MjData(m)
    batch = physics.Batch(physics.load(m, self_contacts=8), 8)
    batch.set_state(np.zeros((m.nq, 8)), np.zeros((m.nv, 8)))
    batch.step(batch.controls(np.zeros((0, 8))))
    mujoco.mj_step(m, data)
    assert data.ncon == 7
    np.testing.assert_allclose(batch.get_state()[1].T, np.tile(data.qvel, (8, 1)), rtol=1e-3, atol=1e-4)


def test_worlds_of_one_packet_do_not_disturb_each_other_with_many_pairs():
    body = '<body euler="{} {} 0"><joint type="slide" axis="1 0 0"/><geom type="cylinder" size="0.05 0.1"/></body>'
    m = model_of("".join(body.format(40 * k, 25 * k) for k in range(9)))
    rng, data = np.random.default_rng(0), mujoco.MjData(m)
    qpos, expected = rng.uniform(-1.0, 1.0, (48, m.nq)), []
    for row in qpos:
        data.qpos[:] = row
        mujoco.mj_forward(m, data)
        expected.append(sorted({tuple(sorted(geoms)) for geoms in data.contact.geom.tolist()}))
    model = physics.load(m)
    pairs, positions = model.slot_pairs, columns(qpos, kind(double=True))
    assert len(pairs) > 32  # more than a word has bits
    where = pose(model, positions)
    nothing = Found([-1.0] * 12, [[0.0] * 7 for _ in range(12)], 0.0)
    found = add_convex(model, where, pairs, lambda link: tree_offset(where, link), nothing, positions[0])
    codes = rows(found.codes, len(qpos)).astype(int)
    touching = [sorted({pairs[code].sorted_geoms for code in row if code >= 0}) for row in codes]
    assert touching == expected
