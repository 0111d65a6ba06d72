"""Robots as triangles: where MuJoCo says they are, and in its colours."""

import mujoco
import numpy as np
import pytest

from slipstream.studio.meshes import MOST_FACES, coarser, field_mesh, robot_parts, rotated

MODEL = """
<mujoco>
  <asset>
    <texture name="grey" type="2d" builtin="flat" rgb1="0 1 0" width="8" height="8"/>
    <material name="painted" texture="grey"/>
    <mesh name="wedge" vertex="0 0 0  1 0 0  0 1 0  0 0 1"/>
  </asset>
  <worldbody>
    <geom type="plane" size="5 5 1"/>
    <body pos="0 0 1" euler="0 30 0">
      <joint type="free"/>
      <geom type="box" size="0.1 0.2 0.3" pos="0.5 0 0" euler="0 0 40" rgba="1 0 0 1"/>
      <geom type="sphere" size="0.1" rgba="1 0 0 1"/>
      <geom type="capsule" size="0.05" fromto="0 0 0 0 0.4 0" material="painted"/>
      <geom type="ellipsoid" size="0.1 0.2 0.3" pos="0 0 1" group="3" rgba="0 0 1 1"/>
      <body pos="0 1 0">
        <joint axis="1 0 0"/>
        <geom type="cylinder" size="0.1 0.3"/>
        <geom type="mesh" mesh="wedge" rgba="0 0 1 0.5"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


@pytest.fixture(scope="module")
def model():
    return mujoco.MjModel.from_xml_string(MODEL)


def test_what_has_one_colour_on_one_body_is_one_part(model):
    parts = robot_parts(model)
    looks = sorted((part.body, part.colour, part.opacity) for part in parts)
    sand = (217, 153, 89)
    assert looks == [(1, (0, 255, 0), 1.0), (1, (255, 0, 0), 1.0), (2, (0, 0, 255), 0.5), (2, sand, 1.0)]


def test_triangles_are_where_mujoco_has_the_geom(model):
    data = mujoco.MjData(model)
    data.qpos[7] = 0.7
    mujoco.mj_kinematics(model, data)
    for part in robot_parts(model):
        placed = rotated(data.xquat[part.body], part.vertices) + data.xpos[part.body]
        geoms = [
            g
            for g in range(model.ngeom)
            if model.geom_bodyid[g] == part.body and model.geom_group[g] < 3 and _is_near(model, data, g, placed)
        ]
        assert geoms
        inside = [np.linalg.norm(placed - data.geom_xpos[g], axis=1) <= model.geom_rbound[g] + 1e-5 for g in geoms]
        assert np.any(inside, axis=0).all()


def _is_near(model, data, geom, points) -> bool:
    return np.linalg.norm(points - data.geom_xpos[geom], axis=1).min() <= model.geom_rbound[geom] + 1e-5


def test_a_box_has_its_corners_where_they_belong(model):
    (part,) = [p for p in robot_parts(model) if p.colour == (255, 0, 0)]
    turn = np.zeros(4)
    mujoco.mju_axisAngle2Quat(turn, np.array([0.0, 0.0, 1.0]), np.radians(40.0))
    corner = np.zeros(3)
    mujoco.mju_rotVecQuat(corner, np.array([0.1, 0.2, 0.3]), turn)
    assert np.abs(part.vertices - (corner + np.array([0.5, 0.0, 0.0]))).max(axis=1).min() < 1e-6


def test_fine_meshes_become_coarse_but_keep_their_form():
    from trimesh import creation

    sphere = creation.icosphere(5, 2.0)
    vertices, faces = coarser(np.asarray(sphere.vertices), np.asarray(sphere.faces))
    assert 500 < len(faces) <= MOST_FACES < len(sphere.faces)
    assert np.linalg.norm(vertices, axis=1) == pytest.approx(np.full(len(vertices), 2.0), rel=0.01)


def test_a_field_is_as_high_as_it_says():
    heights = np.arange(12.0).reshape(3, 4)
    vertices, faces = field_mesh(heights, 3.0, 2.0)
    assert vertices[:, 2].tolist() == heights.ravel().tolist() and faces.shape == (12, 3)
    assert vertices[0, :2].tolist() == [-3.0, -2.0] and vertices[-1, :2].tolist() == [3.0, 2.0]
    corners = vertices[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert (normals[:, 2] > 0).all()
    assert 0.5 * normals[:, 2].sum() == pytest.approx(24.0)
