"""Convex hulls of meshes, as few numbers: corners and faces of at most four of them."""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import mujoco
import numpy as np

MOST_CORNERS = 32
"""Of a hull. Those of larger ones are thinned out: all corners are looked at in every step."""
DIRECTIONS = 2000
"""In which a thinned-out hull is compared with the whole one."""


@dataclass(frozen=True, eq=False)
class Hull:
    """A convex polyhedron.

    Attributes:
        corners: in the frame of the geom, metres.
        faces: numbers of three or four corners each; of larger faces, the four that span most of them.
        normals: of the faces, outwards.
        loss: how far corners that were left out stick out, metres.
        whole: how many corners MuJoCo's hull has.
    """

    corners: tuple[tuple[float, ...], ...]
    faces: tuple[tuple[int, ...], ...]
    normals: tuple[tuple[float, ...], ...]
    loss: float
    whole: int


def find_hull(m: mujoco.MjModel, mesh: int) -> Hull:
    corners, faces, normals = _polygons(m, mesh)
    if len(corners) <= MOST_CORNERS:
        return _hull(corners, faces, normals, 0.0, len(corners))
    thin, faces, normals, loss = _thin_hull(corners, MOST_CORNERS)
    return _hull(thin, faces, normals, loss, len(corners))


def _thin_hull(corners: np.ndarray, most: int) -> tuple[np.ndarray, list[list[int]], np.ndarray, float]:
    """A hull of some of its corners: corners, faces, their normals, and how far those left out stick out."""
    kept, loss = _thinned(corners, most)
    text = " ".join(f"{x:.9g}" for x in kept.ravel())
    geom = '<body><freejoint/><geom type="mesh" mesh="thin"/></body>'
    small = mujoco.MjModel.from_xml_string(
        f'<mujoco><asset><mesh name="thin" vertex="{text}"/></asset><worldbody>{geom}</worldbody></mujoco>'
    )
    thin, faces, normals = _polygons(small, 0)
    # MuJoCo moves a mesh to its centre and its principal axes; back to where it was.
    back = np.zeros(9)
    mujoco.mju_quat2Mat(back, small.mesh_quat[0])
    turn = back.reshape(3, 3)
    return thin @ turn.T + small.mesh_pos[0], faces, normals @ turn.T, loss


def _polygons(m: mujoco.MjModel, mesh: int) -> tuple[np.ndarray, list[list[int]], np.ndarray]:
    """Corners of MuJoCo's hull [corners, 3], its faces, and their normals [faces, 3]."""
    first, count = int(m.mesh_polyadr[mesh]), int(m.mesh_polynum[mesh])
    vertices = m.mesh_vert[m.mesh_vertadr[mesh] :][: m.mesh_vertnum[mesh]].astype(float)
    starts, sizes = m.mesh_polyvertadr[first:][:count], m.mesh_polyvertnum[first:][:count]
    faces = [m.mesh_polyvert[start : start + size].tolist() for start, size in zip(starts, sizes)]
    used = sorted({v for face in faces for v in face})
    number = {v: k for k, v in enumerate(used)}
    return vertices[used], [[number[v] for v in face] for face in faces], m.mesh_polynormal[first:][:count]


def _hull(corners: np.ndarray, faces: list[list[int]], normals: np.ndarray, loss: float, whole: int) -> Hull:
    return Hull(
        corners=tuple(tuple(map(float, corner)) for corner in corners),
        faces=tuple(_four(corners, face) for face in faces),
        normals=tuple(tuple(map(float, normal)) for normal in normals),
        loss=loss,
        whole=whole,
    )


def _four(corners: np.ndarray, face: list[int]) -> tuple[int, ...]:
    """Of a face, the four corners with the largest area between them."""
    if len(face) <= 4:
        return tuple(face)
    places = face[:: max(1, len(face) // 12)]  # a dozen of many do

    def area(four: tuple[int, ...]) -> float:
        a, b, c, d = corners[list(four)]
        return float(np.linalg.norm(np.cross(c - a, d - b)))

    return max(combinations(places, 4), key=area)


def _thinned(corners: np.ndarray, most: int) -> tuple[np.ndarray, float]:
    """The corners without which a hull would lose most, and by how much the others stick out of them."""
    directions = np.random.default_rng(0).normal(size=(DIRECTIONS, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    reach = corners @ directions.T
    kept = sorted({int(reach[:, k].argmax()) for k in range(6)})
    while len(kept) < most:
        missing = reach.max(0) - reach[kept].max(0)
        kept.append(int(reach[:, missing.argmax()].argmax()))
    return corners[kept], float((reach.max(0) - reach[kept].max(0)).max())


CAP_CORNERS = 16
MOST_CORNERS_OF_SOLIDS = 128
"""Of a hull that touches others than planes: they are looked at one after the other, where something is near."""


@dataclass(frozen=True, eq=False)
class Polyhedron:
    """A convex polyhedron with all corners of its faces, which are anticlockwise from outside."""

    corners: np.ndarray  # [corners, 3]
    faces: list[list[int]]
    normals: np.ndarray  # [faces, 3]
    loss: float = 0.0


def find_polyhedron(m: mujoco.MjModel, mesh: int) -> Polyhedron:
    """MuJoCo's hull of a mesh; thinned out if it has very many corners."""
    corners, faces, normals = _polygons(m, mesh)
    loss = 0.0
    if len(corners) > MOST_CORNERS_OF_SOLIDS:
        corners, faces, normals, loss = _thin_hull(corners, MOST_CORNERS_OF_SOLIDS)
    return _anticlockwise(Polyhedron(corners, faces, normals, loss))


def box_polyhedron(size: Sequence[float]) -> Polyhedron:
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * np.array(size)
    normals = np.array([[s if k == axis else 0.0 for k in range(3)] for axis in range(3) for s in (1.0, -1.0)])
    around = ((0, 1, 3, 2), (0, 1, 5, 4), (0, 2, 6, 4))  # on the negative side
    faces = [[c + (4 >> axis if s > 0 else 0) for c in around[axis]] for axis in range(3) for s in (1, -1)]
    return _anticlockwise(Polyhedron(corners, faces, normals))


def no_caps() -> Polyhedron:
    """Of a capsule: faces without corners."""
    return Polyhedron(np.zeros((1, 3)), [[], []], np.zeros((2, 3)))


def caps_polyhedron(radius: float, half: float) -> Polyhedron:
    """The caps of a cylinder, with as many corners as MuJoCo gives them: the upper one, then the lower one."""
    turn = 2 * np.pi * np.arange(CAP_CORNERS) / CAP_CORNERS
    rim = np.stack([radius * np.cos(turn), radius * np.sin(turn), 0 * turn], -1)
    up = np.array([0.0, 0.0, half])
    corners = np.concatenate([rim + up, rim - up])
    upper = list(range(CAP_CORNERS))
    faces = [upper, [CAP_CORNERS + k for k in upper[::-1]]]
    return Polyhedron(corners, faces, np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]]))


def _anticlockwise(shape: Polyhedron) -> Polyhedron:
    faces = []
    for face, normal in zip(shape.faces, shape.normals):
        a, b = shape.corners[face], np.roll(shape.corners[face], -1, axis=0)
        area = np.cross(a - a[0], b - a[0]).sum(0)
        faces.append(face if area @ normal > 0 else face[::-1])
    return replace(shape, faces=faces)
