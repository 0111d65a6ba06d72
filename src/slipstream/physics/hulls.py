"""Convex hulls of meshes, as MuJoCo has them: corners, and faces with any number of them."""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import mujoco
import numpy as np

MOST_CORNERS = 32
"""Up to so many all corners of a hull are looked at in every step. In larger ones the search climbs along the edges."""
FIRST_CORNERS = 16
"""Of a larger hull, those at which the climb may begin."""
DIRECTIONS = 500
"""In which those are spread."""


@dataclass(frozen=True, eq=False)
class Hull:
    """A convex polyhedron of few corners.

    Attributes:
        corners: in the frame of the geom, metres.
        supports: which corners touch a plane: for lowest corners (any of the first numbers) of a face that looks down,
            the numbers of the three or four that do.
        normals: of these faces, outwards.
    """

    corners: tuple[tuple[float, ...], ...]
    supports: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    normals: tuple[tuple[float, ...], ...]


def find_hull(m: mujoco.MjModel, mesh: int) -> Hull | None:
    """A mesh's hull; None if it has so many corners that it belongs in a table (see `solids.py`)."""
    corners, faces, normals = _polygons(m, mesh)
    if len(corners) > MOST_CORNERS:
        return None
    supports, outwards = [], []
    for face, normal in zip(faces, normals):
        fours = [(tuple(face), tuple(face))]
        if len(face) > 4:
            fours = [((corner,), tuple(support(corners, face, k))) for k, corner in enumerate(face)]
        supports += fours
        outwards += [tuple(map(float, normal))] * len(fours)
    return Hull(tuple(tuple(map(float, corner)) for corner in corners), tuple(supports), tuple(outwards))


def support(corners: np.ndarray, face: Sequence[int], first: int) -> list[int]:
    """Which corners of a face touch a plane, if the corner number `first` of the face is the lowest; four at most.

    MuJoCo starts from this corner and the three after it, and moves the other three on along the face, one at a time,
    as long as the area between the four grows.
    """
    count = len(face)
    if count <= 4:
        return [face[(first + k) % count] for k in range(count)]
    places = corners[list(face)]

    def area(four: Sequence[int]) -> float:
        a, b, c, d = places[[k % count for k in four]]
        return float(np.linalg.norm(np.cross(c - a, d - b)))

    four = [first, first + 1, first + 2, first + 3]
    best = area(four)

    def moved(k: int) -> bool:
        nonlocal four, best
        following = [x + (i == k) for i, x in enumerate(four)]
        if (larger := area(following)) <= best:
            return False
        four, best = following, larger
        return True

    while moved(3):
        while moved(2):
            pass
        while moved(1):
            pass
    return [face[k % count] for k in four]


def _polygons(m: mujoco.MjModel, mesh: int) -> tuple[np.ndarray, list[list[int]], np.ndarray]:
    """Corners of MuJoCo's hull [corners, 3], its faces, and their normals [faces, 3]."""
    first, count = int(m.mesh_polyadr[mesh]), int(m.mesh_polynum[mesh])
    vertices = m.mesh_vert[m.mesh_vertadr[mesh] :][: m.mesh_vertnum[mesh]].astype(float)
    starts, sizes = m.mesh_polyvertadr[first:][:count], m.mesh_polyvertnum[first:][:count]
    faces = [m.mesh_polyvert[start : start + size].tolist() for start, size in zip(starts, sizes)]
    used = sorted({v for face in faces for v in face})
    number = {v: k for k, v in enumerate(used)}
    return vertices[used], [[number[v] for v in face] for face in faces], m.mesh_polynormal[first:][:count]


CAP_CORNERS = 16


@dataclass(frozen=True, eq=False)
class Polyhedron:
    """A convex polyhedron with all corners of its faces, which are anticlockwise from outside."""

    corners: np.ndarray  # [corners, 3]
    faces: list[list[int]]
    normals: np.ndarray  # [faces, 3]


def find_polyhedron(m: mujoco.MjModel, mesh: int) -> Polyhedron:
    """MuJoCo's hull of a mesh. If it is large, the corners at which a climb may begin come first."""
    corners, faces, normals = _polygons(m, mesh)
    if len(corners) > MOST_CORNERS:
        first = _spread(corners)
        order = [*first, *sorted(set(range(len(corners))) - set(first))]
        number = np.argsort(order)
        corners, faces = corners[order], [number[face].tolist() for face in faces]
    return _anticlockwise(Polyhedron(corners, faces, normals))


def _spread(corners: np.ndarray) -> list[int]:
    """Some corners, one after the other the one that sticks out most from those chosen before."""
    directions = np.random.default_rng(0).normal(size=(DIRECTIONS, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    reach = corners @ directions.T
    chosen = [int(reach[:, 0].argmax())]
    while len(chosen) < FIRST_CORNERS:
        missing = reach.max(0) - reach[chosen].max(0)
        chosen.append(int(reach[:, missing.argmax()].argmax()))
    return chosen


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
