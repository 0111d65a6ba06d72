"""Where cylinders, ellipsoids and meshes touch a plane."""

from __future__ import annotations

import math
from typing import Any

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.control import as_array, unsigned, when
from slipstream.physics.convex import AROUND, Corners, farthest_corner
from slipstream.physics.hulls import Hull
from slipstream.physics.spatial import Scalar

Points = list[tuple[tuple, Scalar]]
"""Points of a geom, and masks of the worlds in which they count."""


def cylinder_points(centre: tuple, rotation: tuple, size: tuple, normal: tuple) -> Points:
    """The lowest point of each rim, and two more of the lower rim that make a triangle."""
    radius, half = size[:2]
    axis = sp.column(rotation, 2)
    along = sp.dot(normal, axis)
    down = dr.select(along > 0.0, -1.0, 1.0)
    axis, along = sp.scaled(down, axis), sp.mul(down, along)
    outward = sp.minus(sp.scaled(along, axis), normal)
    squared = sp.dot(outward, outward)
    upright = squared < 1e-24
    scale = dr.select(upright, 0.0, radius / dr.sqrt(dr.select(upright, 1.0, squared)))
    standing = dr.select(upright, radius, 0.0)
    rim = sp.scaled(scale, outward, sp.scaled(standing, sp.column(rotation, 0)))
    end = sp.scaled(half, axis)
    side = sp.scaled(math.sqrt(3.0) / 2.0, sp.cross(rim, axis))
    lower = sp.plus(centre, end)
    low, back = sp.plus(lower, rim), sp.scaled(-0.5, rim, lower)
    return [
        (point, True) for point in (low, sp.plus(sp.minus(centre, end), rim), sp.plus(back, side), sp.minus(back, side))
    ]


def ellipsoid_point(centre: tuple, rotation: tuple, size: tuple, normal: tuple) -> Points:
    """The lowest point."""
    local = sp.rotate_back(rotation, normal)
    scaled = [sp.mul(s, x) for s, x in zip(size, local)]
    length = dr.sqrt(sp.dot(scaled, scaled))
    point = [sp.mul(-s, x) / length for s, x in zip(size, scaled)]
    return [(sp.rotate(rotation, point, centre), True)]


def hull_points(centre: tuple, rotation: tuple, hull: Hull, normal: tuple) -> Points:
    """The corners of the face that looks down most, of those around the lowest corner."""
    local = sp.rotate_back(rotation, normal)
    lowest, height = 0.0, sp.dot(hull.corners[0], local)
    for k, corner in enumerate(hull.corners[1:], start=1):
        here = sp.dot(corner, local)
        lowest = dr.select(here < height, float(k), lowest)
        height = sp.minimum(here, height)
    best, four, has_fourth = 2.0, [(0.0, 0.0, 0.0)] * 4, False
    for (around, touching), face_normal in zip(hull.supports, hull.normals):
        looks = dr.select(_any_of(lowest, around), sp.dot(face_normal, local), 2.0)
        better = looks < best
        best = sp.minimum(looks, best)
        corners = [hull.corners[k] for k in (*touching, touching[0])[:4]]
        four = [tuple(dr.select(better, new, old) for new, old in zip(*pair)) for pair in zip(corners, four)]
        has_fourth = dr.select(better, len(touching) > 3, has_fourth)
    counts = [_is_below(corner, local) for corner in four]
    counts[3] = counts[3] & has_fourth
    return [(sp.rotate(rotation, corner, centre), exists) for corner, exists in zip(four, counts)]


def _is_below(corner: tuple, up: tuple) -> Scalar:
    """Whether a corner is below the middle of its geom: only those count, however deep it is in the ground."""
    return sp.dot(corner, up) < 0.0


def large_hull_points(centre: tuple, rotation: tuple, corners: Corners, normal: tuple, near: Any) -> Points:
    """The same for a hull of many corners, whose numbers are in a table.

    Args:
        near: a mask of the worlds in which it can touch at all.
    """
    table, local = corners.table, sp.rotate_back(rotation, normal)
    like = local[0]

    def compute() -> list[Scalar]:
        lowest, _ = farthest_corner(corners, sp.negative(local))
        begin, count = table.place(lowest + 3), table.place(lowest + 4)

        def look(k: Any, best: Any, record: Any) -> tuple:
            here = begin + AROUND * k
            looks = sp.dot(table.vector(table.place(here)), local)
            better = looks < best
            return k + 1, dr.select(better, looks, best), dr.select(better, here, record)

        start = (unsigned(0, like), as_array(2.0, like), begin)
        _, _, record = dr.while_loop(start, lambda k, *_: k < count, look)
        places = [lowest, *(table.place(record + k) for k in (2, 3, 4))]
        flat: list[Scalar] = []
        for k, place in enumerate(places):
            corner = table.vector(place)
            exists = _is_below(corner, local) & ((place != lowest) if k else True)
            flat += [dr.select(exists, 1.0, 0.0), *corner]
        return flat

    flat = when(near, compute, 16, like)
    points = [flat[k : k + 4] for k in range(0, 16, 4)]
    return [(sp.rotate(rotation, corner, centre), exists > 0.5) for exists, *corner in points]


def _any_of(value: Scalar, numbers: tuple[int, ...]) -> Scalar:
    found = value == float(numbers[0])
    for number in numbers[1:]:
        found = found | (value == float(number))
    return found
