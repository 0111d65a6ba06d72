"""Cylinders, ellipsoids, meshes and boxes: their contacts against MuJoCo's."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from robots import converged, relative, step_states, visited_states

from slipstream import physics
from slipstream.physics import spatial as sp
from slipstream.physics.boxes import Block
from slipstream.physics.capsules import capsule_box
from slipstream.physics.collision import external_contacts


def points(count: int, seed: int = 0) -> str:
    """Vertices of a round mesh, all of them corners of its hull."""
    where = np.random.default_rng(seed).normal(size=(count, 3))
    where *= [0.12, 0.1, 0.08] / np.linalg.norm(where, axis=1, keepdims=True)
    return " ".join(f"{x:.5f}" for x in where.ravel())


FLOOR = '<geom type="plane" size="5 5 1" euler="4 -3 0"/>'


def body(geom: str, joint: str = "<freejoint/>", pos: str = "0 0 0.2") -> str:
    return f'<body pos="{pos}">{joint}<geom {geom}/></body>'


def on_the_floor(geom: str, count: int = 20) -> mujoco.MjModel:
    asset = f'<asset><mesh name="stone" vertex="{points(count)}"/></asset>'
    xml = f'<mujoco><option timestep="0.004"/>{asset}<worldbody>{FLOOR}{body(geom)}</worldbody></mujoco>'
    return converged(mujoco.MjModel.from_xml_string(xml))


@pytest.mark.parametrize(
    "geom",
    ['type="cylinder" size="0.1 0.05"', 'type="ellipsoid" size="0.1 0.15 0.05"', 'type="mesh" mesh="stone"'],
)
def test_a_shape_on_the_floor_steps_as_in_mujoco(geom):
    m = on_the_floor(geom)
    states = visited_states(m, 300, every=20)
    assert (states.contacts > 0).mean() > 0.3
    _, qvel, qacc = step_states(physics.load(m), states, double=True)
    assert relative(qacc, states.qacc).max() < 1e-6
    assert relative(qvel, states.next_qvel).max() < 1e-6


@pytest.mark.parametrize("shape", ["large hull", "small with large faces", "large with large faces"])
def test_a_hull_of_any_kind_touches_the_floor_as_in_mujoco(shape):
    """Of a face with many corners MuJoCo takes four; and none that is higher than the middle of the mesh."""
    count = {"large hull": 300, "small with large faces": 22, "large with large faces": 50}[shape]
    m = on_the_floor('type="mesh" mesh="stone"', count) if shape == "large hull" else standing_prism(count)
    model = physics.load(m)
    assert (model.geoms[1].hull is None) == (count > 32)
    rng, data = np.random.default_rng(0), mujoco.MjData(m)
    some, deep = 0, 0
    for k in range(300):
        flat = rng.normal(size=4) * [1, 0.02, 0.02, 1] if k % 2 else rng.normal(size=4)
        data.qpos[:] = 0, 0, 0.2 * rng.random() ** 2 - 0.05, *(flat / np.linalg.norm(flat))
        data.qpos[:] = data.qpos.astype(np.float32)
        mujoco.mj_forward(m, data)
        where = physics.pose(model, data.qpos.tolist())
        found = [c for c in external_contacts(model, where, None) if c.distance < 0.0]
        mine = np.array([(c.distance, *c.point) for c in found]).reshape(-1, 4)
        mine[:, 1:] += data.qpos[:3]
        theirs = np.concatenate([data.contact.dist[:, None], data.contact.pos], 1)
        assert len(mine) == data.ncon, data.qpos
        assert not len(mine) or np.abs(mine[:, None] - theirs[None]).max(-1).min(1).max() < 1e-6, data.qpos
        some, deep = some + (data.ncon > 0), deep + (data.ncon > 3)
    assert some > 150 and (deep > 30 or shape == "large hull")


def standing_prism(count: int) -> mujoco.MjModel:
    """Its ends are faces with half of the corners, at uneven distances."""
    turn = np.cumsum(np.random.default_rng(0).uniform(0.5, 1.5, count // 2))
    turn *= 2 * np.pi / turn[-1]
    rim = np.stack([0.12 * np.cos(turn), 0.08 * np.sin(turn), 0 * turn], -1)
    corners = " ".join(
        f"{x:.6f}" for x in np.concatenate([rim - np.array([0, 0, 0.05]), rim + np.array([0, 0, 0.07])]).ravel()
    )
    asset = f'<asset><mesh name="prism" vertex="{corners}"/></asset>'
    world = '<geom type="plane" size="5 5 1"/>' + body('type="mesh" mesh="prism"')
    return converged(mujoco.MjModel.from_xml_string(f"<mujoco>{asset}<worldbody>{world}</worldbody></mujoco>"))


def model_with(world: str) -> mujoco.MjModel:
    return converged(
        mujoco.MjModel.from_xml_string(f'<mujoco><option timestep="0.004"/><worldbody>{world}</worldbody></mujoco>')
    )


BOX = 'type="box" size="0.1 0.15 0.08"'
OTHER_BOX = body('type="box" size="0.12 0.07 0.1"', pos="0.05 0.1 0.42")
SMALL = body('type="sphere" size="0.06"', pos="0.03 0 0.45")
CAN = body('type="cylinder" size="0.1 0.06"', pos="0 0 0.1")
STAIRS = "".join(
    f'<geom type="box" size="0.2 1 0.1" pos="{0.25 * k} 0 {0.08 * k - 0.1}" euler="0 2 5"/>' for k in (-1, 0, 1)
)
TOGETHER = {
    "boxes": FLOOR + body(BOX) + OTHER_BOX,
    "a sphere and a box": FLOOR + body(BOX) + SMALL,
    "a sphere and a can": FLOOR + CAN + SMALL,
    "a capsule and a box": FLOOR + body(BOX) + body('type="capsule" size="0.04 0.1"', pos="0.03 0 0.45"),
    "a capsule on stairs": STAIRS + body('type="capsule" size="0.04 0.1"', pos="0.03 0 0.45"),
    "a box on stairs": STAIRS + body(BOX, pos="0 0 0.3"),
    "a sphere on stairs": STAIRS + body('type="sphere" size="0.06"', pos="0.1 0 0.3"),
}


@pytest.mark.parametrize("case", TOGETHER)
def test_shapes_touch_each_other_as_in_mujoco(case):
    m = model_with(TOGETHER[case])
    states = visited_states(m, 300, every=8, spread=0.1)
    assert (states.contacts > 0).mean() > 0.2
    model = physics.load(m, self_contacts=10)
    _, _, qacc = step_states(model, states, double=True)
    error = relative(qacc, states.qacc)
    assert np.quantile(error, 0.98) < 1e-5, np.quantile(error, [0.5, 0.9, 0.95, 0.98])


def test_a_capsule_touches_a_box_in_mujocos_points():
    """In all poses, also stuck in the box, right through it, or along an edge."""
    size, radius, half = (0.1, 0.15, 0.08), 0.04, 0.1
    box = f'<geom type="box" size="{size[0]} {size[1]} {size[2]}"/>'
    m = model_with(box + body(f'type="capsule" size="{radius} {half}"'))
    data, rng = mujoco.MjData(m), np.random.default_rng(0)
    block = Block(sp.ZERO3, sp.IDENTITY, size)
    numbers = {0: 0, 1: 0, 2: 0}
    for k in range(2000):
        lying = [np.zeros(4), np.eye(4)[0], np.eye(4)[:2].sum(0), np.eye(4)[[0, 2]].sum(0)][k % 4]
        turn = lying + rng.normal(size=4) * (0.02 if k % 4 else 1.0)
        data.qpos[:] = [*rng.uniform(-1, 1, 3) * (0.25, 0.3, 0.23), *turn / np.linalg.norm(turn)]
        mujoco.mj_kinematics(m, data)
        mujoco.mj_collision(m, data)
        wanted = [(c.dist, *c.pos, *c.frame[:3]) for c in data.contact]
        axis = half * data.geom_xmat[1].reshape(3, 3)[:, 2]
        touches = capsule_box(tuple(data.geom_xpos[1].tolist()), tuple(axis.tolist()), radius, block)
        found = [(t.distance, *t.point, *t.normal) for t in touches if t.exists and t.distance < 0.0]
        assert len(found) == len(wanted), data.qpos
        assert not found or np.abs(np.subtract(found, wanted)).max() < 1e-9, data.qpos
        numbers[len(found)] += 1
    assert min(numbers.values()) > 100


def test_pairs_that_are_not_simulated_can_be_left_out_and_are_told():
    egg = body('type="ellipsoid" size="0.1 0.08 0.06" name="egg"', pos="0.05 0 0.3")
    m = model_with(FLOOR + body(BOX) + egg)
    m.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_NATIVECCD)
    with pytest.raises(physics.ModelError, match="leave_out_pairs"):
        physics.load(m)
    model = physics.load(m, leave_out_pairs=True)
    assert [pair.sorted_geoms for pair in model.pairs] == [(0, 1), (0, 2)]
    assert model.left_out.geoms == {(1, 2)}
    (line,) = model.left_out.lines
    assert "'egg'" in line
    assert not physics.load(model_with(FLOOR + body(BOX)), leave_out_pairs=True).left_out.lines
