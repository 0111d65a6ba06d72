"""Convex geoms as numbers in one table, so that a kernel can pick any pair of them by its number.

A record of a solid: ball, block (three numbers each), radius, where its corners begin and how many of them are looked
at one by one, bounds, middle, reach, caps. A corner: three coordinates, where its faces begin and how many they are. A
face of a corner: where the face is, the corner before this one on it, and three corners that touch a plane with this
one if it is the lowest (of a face with three corners the third of them is this one itself). A face: its normal, where
its polygon begins and how many corners it has. A polygon: where its corners are, anticlockwise from outside. A pair:
its solids, its margin, whether it may touch with faces, its number among all pairs in slots. Places are numbers of the
table, which float32 holds exactly.
"""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import drjit as dr
import numpy as np

from slipstream.arrays import ArrayTypes
from slipstream.physics.control import unsigned
from slipstream.physics.convex import AROUND, CORNER, FACE, UNROLLED, Corners, Solid
from slipstream.physics.hulls import (
    FIRST_CORNERS,
    MOST_CORNERS,
    Polyhedron,
    box_polyhedron,
    caps_polyhedron,
    find_polyhedron,
    no_caps,
    support,
)
from slipstream.physics.model import Geom, Model
from slipstream.physics.pairs import BOX, CAPSULE, CYLINDER, ELLIPSOID, MESH, SPHERE
from slipstream.physics.spatial import Scalar

SOLID, PAIR = 17, 5
"""Numbers of a record."""
LARGEST_PLACE = 1 << 24


class Table:
    """Numbers that are the same in every world, by their place."""

    def __init__(self, numbers: Any, like: Scalar, has_large: bool):
        self.numbers, self.like, self.has_large = numbers, like, has_large

    def __getitem__(self, place: Any) -> Scalar:
        if isinstance(self.numbers, np.ndarray):
            return float(self.numbers[place])
        return dr.gather(type(self.like), self.numbers, place)

    def place(self, place: Any) -> Any:
        """A number that is itself a place, or a count."""
        value = self[place]
        return int(value) if isinstance(value, float) else dr.uint32_array_t(type(self.like))(value)

    def vector(self, place: Any) -> tuple:
        return tuple(self[place + k] for k in range(3))


def slot_geoms(model: Model) -> list[int]:
    """Geoms that take part in pairs of convex solids."""
    return sorted({g for pair in model.pairs if pair.is_convex for g in (pair.geom1, pair.geom2)})


def table_geoms(model: Model) -> list[int]:
    """Geoms whose numbers are in the table: those, and after them large hulls that only touch the ground."""
    slots = slot_geoms(model)
    others = {pair.geom2 for pair in model.pairs if pair.kinds[1] == MESH and not pair.is_convex} - set(slots)
    return slots + sorted(g for g in others if model.geoms[g].hull is None)


def tables(model: Model, types: ArrayTypes) -> list[Any]:
    """The arrays on the device that `step` reads beside the state, for `Env.tables` or for `dr.freeze(state_fn=...)`.

    There are some only for models in which cylinders, ellipsoids or meshes may touch other geoms than planes, or hulls
    of many corners may touch anything. A frozen function would not know by itself that it depends on them.
    """
    if not types.compiled or not table_geoms(model):
        return []
    return [_on_device(model, types.Float), _on_device(model, types.module.Float64)]


def model_table(model: Model, like: Scalar) -> Table:
    """The table of a model, for scalars like a given one."""
    has_large = any(model.geoms[g].kind == MESH and model.geoms[g].hull is None for g in table_geoms(model))
    if isinstance(like, float):
        return Table(_numbers(model), like, has_large)
    return Table(_on_device(model, type(like)), like, has_large)


def _on_device(model: Model, kind: Any) -> Any:
    if kind not in model.on_device:
        # Adding an opaque zero makes the array one of its own.
        array = kind(np.ascontiguousarray(_numbers(model))) + dr.opaque(kind, 0.0)
        dr.eval(array)
        model.on_device[kind] = array
    return model.on_device[kind]


def _numbers(model: Model) -> np.ndarray:
    if None not in model.on_device:
        model.on_device[None] = _make_numbers(model)
    return model.on_device[None]


def _make_numbers(model: Model) -> np.ndarray:
    geoms = table_geoms(model)
    numbers: list[float] = [0.0] * (SOLID * len(geoms))
    index = solid_numbers(model)
    for code, pair in enumerate(model.slot_pairs):
        if pair.is_convex:
            numbers += [index[pair.geom1], index[pair.geom2], pair.margin, pair.has_faces, code]
    known: dict[Any, tuple[int, int]] = {}
    for k, g in enumerate(geoms):
        geom = model.geoms[g]
        place, count = 0, 0
        shape = polyhedron(model, g)
        if shape is not None:
            key = shape.corners.tobytes()
            if key not in known:
                looked_at = FIRST_CORNERS if _is_large(shape) else len(shape.corners)
                known[key] = _append(numbers, shape), -(-looked_at // UNROLLED) * UNROLLED
            place, count = known[key]
        caps = 0
        if geom.kind in (CAPSULE, CYLINDER):
            caps, place, count = place + CORNER * count, 0, 0
        half, middle, reach = _bounds(geom, shape)
        ball, block, radius = parts(geom)
        record = [*ball, *block, radius, place, count, *half, *middle, reach, caps]
        numbers[SOLID * k : SOLID * (k + 1)] = map(float, record)
    assert len(numbers) < LARGEST_PLACE
    return np.array(numbers)


def _is_large(shape: Polyhedron) -> bool:
    return len(shape.corners) > MOST_CORNERS


def parts(geom: Geom) -> tuple[Sequence[float], Sequence[float], float]:
    """Of a geom without corners: ball, block and radius."""
    none, size = (0.0, 0.0, 0.0), geom.size
    if geom.kind == SPHERE:
        return none, none, size[0]
    if geom.kind == CAPSULE:
        return none, (0.0, 0.0, size[1]), size[0]
    if geom.kind == CYLINDER:
        return (size[0], size[0], 0.0), (0.0, 0.0, size[1]), 0.0
    return (size if geom.kind == ELLIPSOID else none), none, 0.0


def polyhedron(model: Model, g: int) -> Polyhedron | None:
    geom = model.geoms[g]
    if geom.kind == BOX:
        return box_polyhedron(geom.size)
    if geom.kind == CAPSULE:
        return no_caps()
    if geom.kind == CYLINDER:
        return caps_polyhedron(*geom.size[:2])
    return find_polyhedron(model.mujoco, int(model.mujoco.geom_dataid[g])) if geom.kind == MESH else None


def _bounds(geom: Geom, shape: Polyhedron | None) -> tuple[np.ndarray, np.ndarray, float]:
    """Half the lengths of the box around a geom, its middle, and the radius of the sphere around the geom's centre."""
    if shape is not None and geom.kind in (BOX, MESH):
        low, high = shape.corners.min(0), shape.corners.max(0)
        return (high - low) / 2, (high + low) / 2, float(np.linalg.norm(shape.corners, axis=1).max())
    ball, block, radius = parts(geom)
    half = np.array(ball) + block + radius
    reach = {CAPSULE: sum(geom.size[:2]), CYLINDER: math.hypot(*geom.size[:2])}.get(geom.kind, float(half.max()))
    return half, np.zeros(3), reach


def _append(numbers: list[float], shape: Polyhedron) -> int:
    """Write a polyhedron; where its corners begin."""
    count = -(-len(shape.corners) // UNROLLED) * UNROLLED
    begin = len(numbers)
    faces_begin = begin + CORNER * count
    polygons_begin = faces_begin + FACE * len(shape.faces)
    around: list[list[tuple[int, ...]]] = [[] for _ in shape.corners]
    polygons: list[float] = []
    faces: list[float] = []
    for f, face in enumerate(shape.faces):
        faces += [*shape.normals[f], polygons_begin + len(polygons), len(face)]
        polygons += [begin + CORNER * c for c in face]
        for k, c in enumerate(face):
            with_it = [*support(shape.corners, face, k), c][1:4]
            places = (begin + CORNER * other for other in (face[k - 1], *with_it))
            around[c].append((faces_begin + FACE * f, *places))
    lists_begin = polygons_begin + len(polygons)
    lists: list[float] = []
    for c in range(count):
        c = min(c, len(shape.corners) - 1)
        numbers += [*shape.corners[c], lists_begin + len(lists), len(around[c])]
        lists += [float(x) for record in around[c] for x in record]
        assert all(len(record) == AROUND for record in around[c])
    numbers += [*faces, *polygons, *lists]
    return begin


def pick_solid(table: Table, number: Any, centre: tuple, axes: Sequence[tuple]) -> Solid:
    """The solid with a number, in a pose."""
    place = number * SOLID
    corners = Corners(table, table.place(place + 7), table.place(place + 8), table.has_large)
    ball, block, bounds, middle = (table.vector(place + k) for k in (0, 3, 9, 12))
    return Solid(
        centre, axes, ball, block, table[place + 6], corners, bounds, middle, table[place + 15], table.place(place + 16)
    )


def solid_numbers(model: Model) -> dict[int, int]:
    """By geom, the number of its solid."""
    return {g: k for k, g in enumerate(table_geoms(model))}


def solid_reaches(model: Model) -> dict[int, float]:
    """By geom, the radius of the sphere around its centre."""
    numbers = _numbers(model)
    return {g: float(numbers[SOLID * k + 15]) for g, k in solid_numbers(model).items()}


def pair_record(model: Model, number: Any) -> Any:
    """The place of a pair of solids in the table."""
    return number * PAIR + SOLID * len(table_geoms(model))


def large_hull(model: Model, g: int, like: Scalar) -> Corners:
    """The corners of a hull that is too large to be looked at one by one."""
    record = SOLID * solid_numbers(model)[g]
    first, count = (int(_numbers(model)[record + k]) for k in (7, 8))
    return Corners(model_table(model, like), unsigned(first, like), unsigned(count, like), True)
