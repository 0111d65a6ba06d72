"""Where cylinders, ellipsoids and meshes touch a plane."""

from __future__ import annotations

import math

import drjit as dr

from slipstream.physics import spatial as sp
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
    for face, face_normal in zip(hull.faces, hull.normals):
        around = _any_of(lowest, face)
        looks = dr.select(around, sp.dot(face_normal, local), 2.0)
        better = looks < best
        best = sp.minimum(looks, best)
        corners = [hull.corners[k] for k in (*face, face[0])[:4]]
        four = [tuple(dr.select(better, new, old) for new, old in zip(*pair)) for pair in zip(corners, four)]
        has_fourth = dr.select(better, len(face) > 3, has_fourth)
    return [(sp.rotate(rotation, corner, centre), True if k < 3 else has_fourth) for k, corner in enumerate(four)]


def _any_of(value: Scalar, numbers: tuple[int, ...]) -> Scalar:
    found = value == float(numbers[0])
    for number in numbers[1:]:
        found = found | (value == float(number))
    return found
