"""Where boxes touch boxes and spheres, and spheres touch cylinders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.control import negated
from slipstream.physics.spatial import Scalar

ALIKE, NEARER = 0.99, 0.95
"""Two edges whose normal is like that of a face (the cosine between them) must be nearer than it by this factor."""
MOST_CORNERS = 8
"""Of a parallelogram that is cut by a rectangle."""


@dataclass
class Touch:
    """A point where two geoms may touch."""

    exists: Scalar  # mask
    point: tuple
    distance: Scalar
    normal: tuple  # from the first geom to the second


@dataclass
class Block:
    """A box (or the box around a geom): its middle, its axes, half its lengths along them."""

    centre: tuple
    axes: Sequence[tuple]
    size: Sequence[Scalar]


def sphere_box(centre: tuple, radius: float, box: Block) -> Touch:
    """The nearest point of the box; for a middle inside of it, that of the nearest face."""
    local = [sp.dot(axis, sp.minus(centre, box.centre)) for axis in box.axes]
    nearest = [sp.clip(x, -h, h) for x, h in zip(local, box.size)]
    away = sp.minus(local, nearest)
    squared = sp.dot(away, away)
    inside = squared < 1e-24
    gaps = [h - dr.abs(x) for x, h in zip(local, box.size)]
    least = reduce(sp.minimum, gaps)
    length = dr.sqrt(dr.select(inside, 1.0, squared))
    outward, taken = [], False
    for x, gap, off in zip(local, gaps, away):
        first = (gap <= least) & negated(taken)
        taken = first | taken
        face = dr.select(first, dr.select(x < 0.0, -1.0, 1.0), 0.0)
        outward.append(dr.select(inside, face, off / length))
    distance = dr.select(inside, -least, length) - radius
    normal = sp.negative(_world(box.axes, outward))  # from the sphere into the box
    return Touch(True, sp.scaled(sp.add(radius, sp.mul(0.5, distance)), normal, centre), distance, normal)


def _world(axes: Sequence[tuple], local: Sequence[Scalar], start: tuple = sp.ZERO3) -> tuple:
    for axis, x in zip(axes, local):
        start = sp.scaled(x, axis, start)
    return start


def sphere_cylinder(centre: tuple, radius: float, cylinder: Block) -> Touch:
    """The nearest point of a cylinder's side, cap or rim. Its size is radius, radius, half its length."""
    between = sp.minus(centre, cylinder.centre)
    axis, round_radius, half = cylinder.axes[2], cylinder.size[0], cylinder.size[2]
    along = sp.dot(axis, between)
    across = sp.scaled(sp.sub(0.0, along), axis, between)
    off = dr.sqrt(sp.maximum(sp.dot(across, across), 1e-30))
    out = sp.scaled(1.0 / off, across)
    up = dr.select(along < 0.0, -1.0, 1.0)
    side, cap = off - round_radius, dr.abs(along) - half
    corner = (side > 0.0) & (cap > 0.0)
    by_side = side > cap
    rim = dr.sqrt(sp.maximum(side * side + cap * cap, 1e-30))
    x = dr.select(corner, side / rim, dr.select(by_side, 1.0, 0.0))
    z = dr.select(corner, cap / rim, dr.select(by_side, 0.0, 1.0)) * up
    distance = dr.select(corner, rim, sp.maximum(side, cap)) - radius
    normal = sp.negative(sp.scaled(x, out, sp.scaled(z, axis)))
    return Touch(True, sp.scaled(sp.add(radius, sp.mul(0.5, distance)), normal, centre), distance, normal)


def box_box(one: Block, two: Block) -> list[Touch]:
    """The face of one box that the other is nearest to, and the part of the other's face above it; or two edges."""
    between = sp.minus(two.centre, one.centre)
    cosines = [[sp.dot(a, b) for b in two.axes] for a in one.axes]
    edge = _edges(one, two, between, cosines)
    sides = [_Side(one, two, k, cosines[k], between) for k in range(3)]
    back = sp.negative(between)
    sides += [_Side(two, one, k, [row[k] for row in cosines], back) for k in range(3)]
    separation = reduce(sp.maximum, (side.separation for side in sides))
    face = _chosen(sides, separation)
    alike = face.sign * sp.dot(edge.normal, face.normal) > ALIKE
    by_edge = (edge.distance > separation) & negated(alike & (edge.distance < NEARER * separation))
    normal = tuple(dr.select(by_edge, e, face.sign * f) for e, f in zip(edge.normal, face.normal))
    corners = _above(face)
    touches = []
    for k, (exists, point, distance) in enumerate(corners):
        if k == 0:
            point = tuple(dr.select(by_edge, a, b) for a, b in zip(edge.point, point))
            distance = dr.select(by_edge, edge.distance, distance)
        touches.append(Touch(by_edge | exists if k == 0 else exists & negated(by_edge), point, distance, normal))
    return touches


def _edges(one: Block, two: Block, between: tuple, cosines: Sequence[Sequence[Scalar]]) -> Touch:
    """The two edges that are nearest to each other."""
    best, normal, first, second = -1e30, (1.0, 0.0, 0.0), one.axes[0], two.axes[0]
    for i, j in product(range(3), range(3)):
        sine = 1.0 - cosines[i][j] * cosines[i][j]
        axis = sp.cross(one.axes[i], two.axes[j])
        along = sp.dot(between, axis)
        reach = 0.0
        for k in range(3):
            if k != i:
                reach = sp.fma(one.size[k], dr.abs(sp.dot(axis, one.axes[k])), reach)
            if k != j:
                reach = sp.fma(two.size[k], dr.abs(sp.dot(axis, two.axes[k])), reach)
        usable = sine > 1e-6
        scale = 1.0 / dr.sqrt(dr.select(usable, sine, 1.0))
        separation = dr.select(usable, (dr.abs(along) - reach) * scale, -1e30)
        better = separation > best
        best = dr.select(better, separation, best)
        sign = dr.select(along < 0.0, -scale, scale)
        normal = tuple(dr.select(better, sign * x, y) for x, y in zip(axis, normal))
        first = tuple(dr.select(better, x, y) for x, y in zip(one.axes[i], first))
        second = tuple(dr.select(better, x, y) for x, y in zip(two.axes[j], second))
    on_one = _corner(one, normal, 1.0, one.centre)
    on_two = _corner(two, normal, -1.0, two.centre)
    apart = sp.minus(on_two, on_one)
    b, d, e = sp.dot(first, second), sp.dot(first, apart), sp.dot(second, apart)
    determinant = sp.maximum(1.0 - b * b, 1e-12)
    s, t = (d - b * e) / determinant, (b * d - e) / determinant
    near_one, near_two = sp.scaled(s, first, on_one), sp.scaled(t, second, on_two)
    return Touch(True, sp.scaled(0.5, sp.plus(near_one, near_two)), best, normal)


def _corner(box: Block, direction: tuple, sign: float, start: tuple) -> tuple:
    """The corner that is furthest along (or, with the other sign, against) a direction."""
    for axis, size in zip(box.axes, box.size):
        reach = dr.select(sp.dot(axis, direction) < 0.0, -sign * size, sign * size)
        start = sp.scaled(reach, axis, start)
    return start


class _Side:
    """A pair of opposite faces of a box, and how far the other box is from the nearer one."""

    def __init__(self, box: Block, other: Block, k: int, cosines: Sequence[Scalar], between: tuple) -> None:
        self.box, self.other, self.k = box, other, k
        along = sp.dot(box.axes[k], between)
        self.sign = dr.select(along < 0.0, -1.0, 1.0)
        reach = box.size[k]
        for cosine, size in zip(cosines, other.size):
            reach = sp.fma(size, dr.abs(cosine), reach)
        self.separation = dr.abs(along) - reach


@dataclass
class _Face:
    """The face that touches, and the box over it."""

    normal: tuple  # outwards
    x: tuple  # axes of the face, and half its lengths
    y: tuple
    lengths: list[Scalar]
    middle: tuple  # of the face
    other: Block
    sign: Scalar  # 1 if it is the first box's, else -1


def _chosen(sides: Sequence[_Side], separation: Scalar) -> _Face:
    """The side with that separation (the first of them)."""
    values: list[Scalar] | None = None
    for index in range(len(sides) - 1, -1, -1):
        side = sides[index]
        box, other, k = side.box, side.other, side.k
        normal = sp.scaled(side.sign, box.axes[k])
        x, y = (k + 1) % 3, (k + 2) % 3
        middle = sp.scaled(box.size[k], normal, box.centre)
        flat = [*normal, *box.axes[x], *box.axes[y], box.size[x], box.size[y], *middle, *other.centre]
        flat += [value for axis in other.axes for value in axis] + [*other.size, 1.0 if index < 3 else -1.0]
        if values is None:
            values = flat
        else:
            here = side.separation >= separation
            values = [dr.select(here, new, old) for new, old in zip(flat, values)]
    assert values is not None
    v = [tuple(values[i : i + 3]) for i in range(0, 9, 3)]
    middle, centre = tuple(values[11:14]), tuple(values[14:17])
    axes = [tuple(values[i : i + 3]) for i in (17, 20, 23)]
    return _Face(v[0], v[1], v[2], values[9:11], middle, Block(centre, axes, values[26:29]), values[29])


def _above(face: _Face) -> list[tuple[Scalar, tuple, Scalar]]:
    """The corners of the part of the other box's nearest face that is over this face.

    Returns:
        Masks of those that exist, points between both faces, and distances.
    """
    other = face.other
    facing = [sp.dot(face.normal, axis) for axis in other.axes]
    most = reduce(sp.maximum, map(dr.abs, facing))
    # The other face's middle, and both its half axes, in the frame of this one.
    middle, u, v = other.centre, sp.ZERO3, sp.ZERO3
    for k in range(2, -1, -1):
        this = dr.abs(facing[k]) >= most
        reach = dr.select(facing[k] > 0.0, -1.0, 1.0) * other.size[k]
        sides = [sp.scaled(other.size[j], other.axes[j]) for j in ((k + 1) % 3, (k + 2) % 3)]
        candidate = (sp.scaled(reach, other.axes[k], other.centre), *sides)
        middle, u, v = (
            tuple(dr.select(this, new, old) for new, old in zip(*pair)) for pair in zip(candidate, (middle, u, v))
        )
    frame = (face.x, face.y, face.normal)
    m = [sp.dot(axis, sp.minus(middle, face.middle)) for axis in frame]
    u, v = ([sp.dot(axis, w) for axis in frame] for w in (u, v))
    kept: list[list[Scalar]] = [[0.0] * 4 for _ in range(MOST_CORNERS)]
    for exists, at in _clipped(m, u, v, face.lengths):
        new = [1.0, *at]
        kept = [[dr.select(exists, a, b) for a, b in zip(*rows)] for rows in zip((new, *kept), kept)]
    frame = (face.x, face.y, face.normal)
    return [(has > 0.5, _world(frame, (x, y, 0.5 * z), face.middle), z) for has, x, y, z in kept]


def _clipped(m: Sequence[Scalar], u: Sequence, v: Sequence, lengths: Sequence[Scalar]) -> list[tuple[Scalar, tuple]]:
    """Corners of the parallelogram m +- u +- v cut by the rectangle +-lengths; coordinates are x, y and height."""
    found: list[tuple[Scalar, tuple]] = []
    corners = {
        (i, j): tuple(sp.fma(float(i), a, sp.fma(float(j), b, c)) for a, b, c in zip(u, v, m))
        for i in (-1, 1)
        for j in (-1, 1)
    }
    for corner in corners.values():
        inside = (dr.abs(corner[0]) <= lengths[0]) & (dr.abs(corner[1]) <= lengths[1])
        found.append((inside, corner))
    area = u[0] * v[1] - u[1] * v[0]
    flat = dr.abs(area) < 1e-12
    inverse = 1.0 / dr.select(flat, 1.0, area)
    for i, j in corners:
        x, y = float(i) * lengths[0], float(j) * lengths[1]
        dx, dy = x - m[0], y - m[1]
        s, t = (dx * v[1] - dy * v[0]) * inverse, (u[0] * dy - u[1] * dx) * inverse
        inside = (dr.abs(s) < 1.0) & (dr.abs(t) < 1.0) & negated(flat)
        found.append((inside, (x, y, sp.fma(s, u[2], sp.fma(t, v[2], m[2])))))
    for start, end in (((-1, -1), (1, -1)), ((-1, 1), (1, 1)), ((-1, -1), (-1, 1)), ((1, -1), (1, 1))):
        p, q = corners[start], corners[end]
        for k, line in product((0, 1), (-1.0, 1.0)):
            run = q[k] - p[k]
            level = dr.abs(run) < 1e-12
            part = (line * lengths[k] - p[k]) / dr.select(level, 1.0, run)
            at = [sp.fma(part, b - a, a) for a, b in zip(p, q)]
            inside = (part > 0.0) & (part < 1.0) & negated(level) & (dr.abs(at[1 - k]) <= lengths[1 - k])
            at[k] = line * lengths[k]
            found.append((inside, tuple(at)))
    return found
