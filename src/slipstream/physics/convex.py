"""Where any two convex solids touch: ellipsoids, cylinders, boxes, hulls, spheres and capsules.

The depth of two solids along a direction is how far the second must go that way until a plane across it parts them.
They touch where the depth is least. The points of one solid minus those of the other are a convex set, and the depth is
how far it reaches. From a direction the search goes to a point a little outside of that set, and on to the
direction in which the set is nearest to this point (by Gilbert, Johnson and Keerthi's method, with a triangle of the
set); the depth falls each time. For solids that do not overlap the same search finds their distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.boxes import Touch
from slipstream.physics.control import as_array, negated, unsigned
from slipstream.physics.spatial import Scalar

MOST_ITERATIONS = 40
SHARE = 1e-6
"""The least part a corner must have in a point that lies between some."""
OUTSIDE = 0.05
"""How far outside the search looks from, as a part of the smaller solid's radius."""
CORNER, FACE = 5, 5
"""Numbers of a corner and of a face in the table of all solids (see `solids.py`)."""
AROUND = 5
"""Numbers of a face of a corner in that table."""
MOST_CLIMBS = 3000
"""Edges that a climb looks at before it ends where it is: rounding must not keep a kernel busy for ever."""
UNROLLED = 4
"""Corners of a hull that are looked at in one turn of a loop; their number is a multiple of it."""


@dataclass(frozen=True)
class Corners:
    """Corners of a hull, in a table (see `solids.py`).

    Attributes:
        first: a place in the table.
        count: how many are looked at one by one.
        climbs: whether there may be more, so that the search goes on along edges.
    """

    table: Any
    first: Scalar
    count: Scalar
    climbs: bool


@dataclass(frozen=True)
class Solid:
    """A ball that is stretched along the axes, a block and a hull, added up; and a round skin over it.

    Attributes:
        axes: unit vectors.
        ball: half its lengths along the axes.
        block: half its lengths along the axes.
        radius: of the skin.
        bounds: half the lengths of the box around it, skin included.
        middle: of that box, along the axes from the centre.
        reach: radius of the sphere around its centre.
        caps: of a cylinder, the place of its upper and its lower cap in the table; 0 for others.
    """

    centre: tuple
    axes: Sequence[tuple]
    ball: Sequence[Scalar]
    block: Sequence[Scalar]
    radius: Scalar
    corners: Corners
    bounds: Sequence[Scalar]
    middle: Sequence[Scalar]
    reach: Scalar
    caps: Any = 0


def farthest(solid: Solid, direction: tuple, near: Any = None) -> tuple[tuple, Any]:
    """The point of a solid (without its skin) that is furthest along a direction, and the place of its corner.

    Args:
        near: the place of a corner that may be near that one.
    """
    local = [sp.dot(axis, direction) for axis in solid.axes]
    stretched = [sp.mul(b, x) for b, x in zip(solid.ball, local)]
    scale = 1.0 / dr.sqrt(sp.maximum(sp.dot(stretched, stretched), 1e-30))
    point: Sequence[Scalar] = [sp.mul(sp.mul(b, x), scale) for b, x in zip(solid.ball, stretched)]
    point = [sp.add(p, dr.select(x < 0.0, -b, b)) for p, x, b in zip(point, local, solid.block)]
    place, corner = farthest_corner(solid.corners, local, near)
    return along_axes(solid, sp.plus(point, corner)), place


def along_axes(solid: Solid, local: Sequence[Scalar]) -> tuple:
    """A point, from coordinates along a solid's axes."""
    at = solid.centre
    for axis, x in zip(solid.axes, local):
        at = sp.scaled(x, axis, at)
    return at


def farthest_corner(corners: Corners, local: Sequence[Scalar], near: Any = None) -> tuple[Any, tuple]:
    """The place and the coordinates of the corner of a hull that is furthest along a direction; zeros without any."""
    like = local[0]

    def look(k: Any, best: Any, place: Any, x: Any, y: Any, z: Any) -> tuple:
        for offset in range(UNROLLED):
            here = corners.first + (k + offset) * CORNER
            at = corners.table.vector(here)
            value = sp.dot(at, local)
            better = value > best
            new, old = (value, here, *at), (best, place, x, y, z)
            best, place, x, y, z = (dr.select(better, a, b) for a, b in zip(new, old))
        return k + UNROLLED, best, place, x, y, z

    none, zero, start = as_array(-1e30, like), as_array(0.0, like), corners.first - corners.first
    found = dr.while_loop((start, none, start, zero, zero, zero), lambda k, *_: k < corners.count, look)
    place, corner = found[2], tuple(found[3:])
    if not corners.climbs:
        return place, corner
    has_any = corners.count > 0
    if near is not None:
        at = corners.table.vector(near)
        better = has_any & (sp.dot(at, local) > found[1])
        place = dr.select(better, near, place)
        corner = tuple(dr.select(better, a, b) for a, b in zip(at, corner))
    return _climb(corners, local, has_any, place, corner)


def _climb(corners: Corners, local: Sequence[Scalar], has_any: Any, place: Any, corner: tuple) -> tuple[Any, tuple]:
    """From a corner of a hull along its edges, up in a direction, until there is no way up."""
    table, like = corners.table, local[0]
    least = 1e-10 if sp.is_single(like) else 1e-16  # metres; less is rounding, and could go in circles
    zero = unsigned(0, like)

    def go(k: Any, _: Any, edge: Any, place: Any, x: Any, y: Any, z: Any) -> tuple:
        begin, count = table.place(place + 3), table.place(place + 4)
        there = table.place(begin + AROUND * edge + 1)
        at, here = table.vector(there), (x, y, z)
        up = sp.dot(sp.minus(at, here), local) > least
        place = dr.select(up, there, place)
        x, y, z = (dr.select(up, a, b) for a, b in zip(at, here))
        going = up | (edge + 1 < count)
        return k + 1, going, dr.select(up, zero, edge + 1), place, x, y, z

    x, y, z = corner
    state = (zero, has_any, zero, place, x, y, z)
    found = dr.while_loop(state, lambda k, going, *_: going & (k < MOST_CLIMBS), go)
    return found[3], tuple(found[4:])


def boxes_apart(one: Solid, two: Solid) -> tuple[Scalar, tuple]:
    """How far the boxes around two solids are apart, negative where they overlap, and in which direction."""
    between = sp.minus(along_axes(two, two.middle), along_axes(one, one.middle))
    best, normal = -1e30, (0.0, 0.0, 1.0)
    axes = [*one.axes, *two.axes, *(sp.cross(a, b) for a, b in product(one.axes, two.axes))]
    for k, axis in enumerate(axes):
        along, reach = sp.dot(axis, between), 0.0
        for side, size in zip((*one.axes, *two.axes), (*one.bounds, *two.bounds)):
            reach = sp.fma(size, dr.abs(sp.dot(axis, side)), reach)
        separation, scale = dr.abs(along) - reach, 1.0
        if k > 5:
            squared = sp.dot(axis, axis)
            usable = squared > 1e-4
            scale = 1.0 / dr.sqrt(dr.select(usable, squared, 1.0))
            separation = dr.select(usable, separation * scale, -1e30)
        better = separation > best
        best = dr.select(better, separation, best)
        sign = dr.select(along < 0.0, -scale, scale)
        normal = tuple(dr.select(better, sign * x, old) for x, old in zip(axis, normal))
    return best, normal


@dataclass(frozen=True)
class Deepest:
    """Where two solids, without their skins, overlap least.

    Attributes:
        normal: from the first to the second.
        depth: negative where they do not touch.
        point: of the first.
        across: from the second's point to it.
        places: of three corners of the first that the point lies between, and of three of the second.
    """

    normal: tuple
    depth: Scalar
    point: tuple
    across: tuple
    places: tuple

    def flat(self) -> list[Any]:
        return [*self.normal, *self.across, *self.point, self.depth, *self.places]

    @staticmethod
    def from_flat(v: Sequence[Any]) -> Deepest:
        return Deepest(tuple(v[:3]), v[9], tuple(v[6:9]), tuple(v[3:6]), tuple(v[10:]))


def _reach(one: Solid, two: Solid, direction: tuple, near: Sequence[Any] = (None, None)) -> list[Any]:
    """The furthest point of the set of differences along a direction, that of the first solid, and both corners."""
    point, place = farthest(one, direction, near[0])
    other, there = farthest(two, sp.negative(direction), near[1])
    return [*sp.minus(point, other), *point, place, there]


def find_deepest(one: Solid, two: Solid, start: tuple) -> Deepest:
    """Go from a direction to one of less depth, as long as there is one near by."""
    corner = _reach(one, two, start)
    depth = sp.dot(start, corner[:3])
    outside = OUTSIDE * sp.minimum(one.reach, two.reach)
    like = corner[0]
    tolerance = (3e-7 if sp.is_single(like) else 1e-13) * sp.add(one.reach, two.reach)

    def turn(k: Any, going: Any, *values: Any) -> tuple:
        normal, across, depth = tuple(values[:3]), tuple(values[3:6]), values[9]
        triangle = [list(values[i : i + 8]) for i in (16, 24, 32)]
        away = sp.minus(sp.scaled(sp.maximum(depth + outside, 0.0), normal), across)
        direction = sp.scaled(1.0 / dr.sqrt(sp.maximum(sp.dot(away, away), 1e-30)), away)
        new = _reach(one, two, direction, (values[10], values[13]))
        value = sp.dot(direction, new[:3])
        going = (value - sp.dot(direction, across) > tolerance) | (value < depth - tolerance)
        better = value < depth
        depth = dr.select(better, value, depth)
        normal = tuple(dr.select(better, a, b) for a, b in zip(direction, normal))
        nearest, triangle = _nearest(sp.scaled(sp.maximum(depth + outside, 0.0), normal), [*triangle, new])
        return k + 1, going, *normal, *nearest[:6], depth, *nearest[6:], *(x for part in triangle for x in part)

    places = [corner[6]] * 3 + [corner[7]] * 3
    flat = [*start, *corner[:6], depth]
    first = (*(as_array(x, like) for x in flat), *places, *corner, *corner, *corner)
    found = dr.while_loop(
        (unsigned(0, like), depth == depth, *first), lambda k, going, *_: going & (k < MOST_ITERATIONS), turn
    )
    return Deepest.from_flat(found[2:18])


def _nearest(goal: tuple, corners: list[list[Any]]) -> tuple[list[Any], list[list[Any]]]:
    """The point of a tetrahedron's edges and faces that is nearest to a goal outside of it.

    Args:
        corners: four times what `_reach` returns.

    Returns:
        It, the same combination of the points of the first solid, and the places of three corners of both solids; and
        the three corners of the tetrahedron that it lies between.
    """
    best, weights, dropped = 1e30, [0.0] * 4, 0.0
    for chosen in (*combinations(range(4), 2), *combinations(range(4), 3)):
        origin, *others = (corners[k][:3] for k in chosen)
        to_goal, sides = sp.minus(goal, origin), [sp.minus(other, origin) for other in others]
        if len(sides) == 1:
            (side,) = sides
            t = sp.clip(sp.dot(side, to_goal) / sp.maximum(sp.dot(side, side), 1e-30), 0.0, 1.0)
            shares, valid = [1.0 - t, t], True
        else:
            across = sp.cross(*sides)
            squared = sp.dot(across, across)
            scale = 1.0 / sp.maximum(squared, 1e-30)
            second = sp.dot(across, sp.cross(to_goal, sides[1])) * scale
            third = sp.dot(across, sp.cross(sides[0], to_goal)) * scale
            shares = [1.0 - second - third, second, third]
            flat = squared < 1e-12 * sp.dot(sides[0], sides[0]) * sp.dot(sides[1], sides[1])
            valid = negated(flat) & (shares[0] > 0.0) & (second > 0.0) & (third > 0.0)
        off = sp.negative(to_goal)
        for share, side in zip(shares[1:], sides):
            off = sp.scaled(share, side, off)
        distance = sp.dot(off, off)
        better = (distance < best) & valid
        best = dr.select(better, distance, best)
        spread = dict(zip(chosen, shares))
        weights = [dr.select(better, spread.get(k, 0.0), old) for k, old in enumerate(weights)]
        left = next(k for k in range(4) if k not in chosen)
        dropped = dr.select(better, float(left), dropped)
    nearest: Sequence[Scalar] = [0.0] * 6
    for weight, corner in zip(weights, corners):
        nearest = sp.scaled(weight, corner[:6], nearest)
    kept, shares = [], []
    for k in range(3):
        last = dropped == float(k)  # the fourth takes the place of the one that is dropped
        kept.append([dr.select(last, a, b) for a, b in zip(corners[3], corners[k])])
        shares.append(dr.select(last, weights[3], weights[k]))
    places = [_places(kept, shares, which) for which in (6, 7)]
    return [*nearest, *places[0], *places[1]], kept


def _places(kept: list[list[Any]], shares: list[Scalar], which: int) -> list[Any]:
    """The places of the corners with a share; those without get that of another."""
    some = kept[2][which]
    for k in (1, 0):
        some = dr.select(shares[k] > SHARE, kept[k][which], some)
    return [dr.select(share > SHARE, corner[which], some) for share, corner in zip(shares, kept)]


def search(one: Solid, two: Solid, starts: Sequence[tuple]) -> Deepest:
    """Where two solids overlap least, or are nearest.

    Args:
        starts: where to begin. Solids that overlap may have several places like that, and all starts are tried; solids
            that do not have one.
    """
    first = find_deepest(one, two, starts[0])
    if len(starts) == 1:
        return first

    def again(k: Any, *old: Any) -> tuple:
        start = starts[-1]
        for number, candidate in enumerate(starts[1:-1]):
            start = tuple(dr.select(k == number, a, b) for a, b in zip(candidate, start))
        new = find_deepest(one, two, start).flat()
        better = new[9] < old[9]
        return k + 1, *(dr.select(better, a, b) for a, b in zip(new, old))

    state = (unsigned(0, first.depth), *first.flat())
    found = dr.while_loop(state, lambda k, *v: (k < len(starts) - 1) & (v[9] > 0.0), again)
    return Deepest.from_flat(found[1:])


def likely_directions(one: Solid, two: Solid, normal: tuple) -> list[tuple]:
    """From which to search for the least depth.

    Args:
        normal: in which the boxes around both overlap least.
    """
    between = sp.minus(along_axes(two, two.middle), along_axes(one, one.middle))
    squared = sp.dot(between, between)
    same = squared < 1e-12
    scale = 1.0 / dr.sqrt(dr.select(same, 1.0, squared))
    centres = tuple(dr.select(same, n, scale * x) for n, x in zip(normal, between))
    axes = (sp.scaled(dr.select(sp.dot(axis, between) < 0.0, -1.0, 1.0), axis) for axis in (*one.axes, *two.axes))
    return [normal, centres, *axes]


def as_touch(one: Solid, two: Solid, found: Deepest) -> Touch:
    """The contact, skins included."""
    depth = sp.add(found.depth, sp.add(one.radius, two.radius))
    middle = sp.scaled(-0.5, found.across, found.point)
    shift = sp.mul(0.5, sp.sub(one.radius, two.radius))
    return Touch(True, sp.scaled(shift, found.normal, middle), sp.sub(0.0, depth), found.normal)


def solid_touch(one: Solid, two: Solid) -> Touch:
    """The one point where two solids touch, or are nearest."""
    back = sp.negative(one.centre)  # numbers stay small
    here, there = replace(one, centre=sp.ZERO3), replace(two, centre=sp.plus(two.centre, back))
    _, normal = boxes_apart(here, there)
    touch = as_touch(here, there, search(here, there, likely_directions(here, there, normal)))
    return replace(touch, point=sp.plus(touch.point, one.centre))
