"""More than one point where two solids touch: faces and edges that lie on each other.

MuJoCo's rules. A face and a face or an edge of another solid that are parallel to within five degrees touch where one
is over the other. The caps of a cylinder are faces with sixteen corners; an edge is also the line along the side of a
cylinder or a capsule where it touches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.boxes import Touch
from slipstream.physics.control import as_array, negated, unsigned
from slipstream.physics.convex import AROUND, FACE, Deepest, Solid, along_axes
from slipstream.physics.spatial import Scalar

PARALLEL, ALONG = 0.996, 0.0888
"""The cosine between two faces that touch as such; the sine between a face and an edge."""
MOST = 4
"""Further points."""
ROOM = 8
"""Corners of the part of a face that is over another one."""


@dataclass(frozen=True)
class _Feature:
    """What of a solid touches: a corner, an edge or a face.

    Attributes:
        places: of one to three corners of a polyhedron, the others the same again.
        dimension: 1 for a corner, 2 for an edge, 3 for a face.
        is_rolled: whether it is a cylinder or a capsule, without corners.
        cap: the place of its cap; that of a capsule has no corners.
        line: both ends of the line along its side where it touches.
    """

    solid: Solid
    places: tuple
    dimension: Scalar
    is_rolled: Scalar
    cap: Any
    line: tuple

    @property
    def table(self) -> Any:
        return self.solid.corners.table

    @property
    def count(self) -> Any:
        """Faces around the first corner."""
        return dr.select(self.is_rolled, 1, self.table.place(self.places[0] + 4))

    def face(self, k: Any) -> tuple[Any, tuple, Scalar]:
        """A face around the first corner: its place, its normal, and whether all of the feature is on it."""
        table, (a, b, c) = self.table, self.places
        place = dr.select(self.is_rolled, self.cap, table.place(table.place(a + 3) + AROUND * k))
        normal, corner = table.vector(place), table.vector(a)
        limit = 1e-5 * self.solid.reach
        on = True
        for other in (b, c):
            on = (dr.abs(sp.dot(normal, sp.minus(table.vector(other), corner))) < limit) & on
        has_cap = ((self.dimension < 1.5) | (self.dimension > 2.5)) & (table[place + 4] > 0.5)
        on = dr.select(self.is_rolled, has_cap, on)
        return place, _turn(self.solid, normal), on

    @property
    def edges(self) -> Any:
        """How many there are from the first corner."""
        return dr.select(self.is_rolled | (self.dimension > 1.5), 1, self.count)

    def edge(self, k: Any) -> tuple[tuple, tuple]:
        """Both ends of an edge."""
        table, (a, b, c) = self.table, self.places
        second = dr.select(a == b, c, b)
        end = dr.select(self.dimension > 1.5, second, table.place(table.place(a + 3) + AROUND * k + 1))
        ends = (*table.vector(a), *table.vector(end))
        ends = tuple(dr.select(self.is_rolled, x, y) for x, y in zip(self.line, ends))
        return ends[:3], ends[3:]


def _feature(solid: Solid, places: tuple, direction: tuple) -> _Feature:
    """What of a solid touches something in a direction."""
    a, b, c = places
    local = [sp.dot(axis, direction) for axis in solid.axes]
    is_rolled = solid.caps != 0
    dimension = dr.select((a == b) & (a == c), 1.0, dr.select((a == b) | (a == c) | (b == c), 2.0, 3.0))
    along = dr.abs(local[2])
    of_cylinder = dr.select(along > 1.0 - 1e-6, 3.0, dr.select(along < 1e-4, 2.0, 1.0))
    across = dr.sqrt(sp.maximum(local[0] * local[0] + local[1] * local[1], 1e-24))
    x, y = (sp.add(solid.ball[0], solid.radius) * v / across for v in local[:2])
    cap = solid.caps + dr.select(local[2] < 0.0, FACE, 0)
    line = (x, y, -solid.block[2], x, y, solid.block[2])
    return _Feature(solid, places, dr.select(is_rolled, of_cylinder, dimension), is_rolled, cap, line)


def _turn(solid: Solid, local: Sequence[Scalar]) -> tuple:
    """A direction in the axes of the world."""
    return along_axes(replace(solid, centre=sp.ZERO3), local)


def _first_of(outer: Any, inner: Any, test: Callable[[Any, Any], tuple], like: Scalar) -> tuple[Scalar, Any, Any]:
    """The first i, j for which a test holds, and what it returns beside: mask, and two places."""
    zero = unsigned(0, like)

    def look(i: Any, j: Any, found: Any, one: Any, two: Any) -> tuple:
        holds, first, second = test(i, j)
        found, one, two = holds, dr.select(holds, first, one), dr.select(holds, second, two)
        end = j + 1 >= inner
        return dr.select(end, i + 1, i), dr.select(end, zero, j + 1), found, one, two

    none = as_array(0.0, like) > 1.0
    state = (zero, zero, none, zero, zero)
    return dr.while_loop(state, lambda i, j, found, *_: negated(found) & (i < outer), look)[2:]


def face_touches(one: Solid, two: Solid, found: Deepest) -> tuple[Scalar, list[Touch]]:
    """Where faces, or a face and an edge, lie on each other.

    Returns:
        A mask of the worlds where they do, and up to four points that are to be taken instead of the single one.
    """
    like = found.depth
    a = _feature(one, found.places[:3], found.normal)
    b = _feature(two, found.places[3:], sp.negative(found.normal))

    def facing(i: Any, j: Any) -> tuple:
        (face1, normal1, on1), (face2, normal2, on2) = a.face(i), b.face(j)
        return (sp.dot(normal1, normal2) < -PARALLEL) & on1 & on2, face1, face2

    faces, face1, face2 = _first_of(a.count, b.count, facing, like)
    by_first = (a.dimension < 2.5) & ((a.dimension <= b.dimension) | a.is_rolled)
    edges, face, edge = _lying(by_first, a, b, negated(faces), like)
    # Then the other way round.
    missed = negated(faces) & negated(edges) & (dr.select(by_first, b.dimension, a.dimension) < 2.5)
    others, other_face, other_edge = _lying(negated(by_first), a, b, missed, like)
    by_first = dr.select(others, negated(by_first), by_first)
    edges, face, edge = edges | others, dr.select(others, other_face, face), dr.select(others, other_edge, edge)
    edge_side, face_side = _swapped(by_first, a, b), _swapped(by_first, b, a)
    owner = _swapped(faces, a, face_side)
    other = _swapped(faces, b, edge_side)
    base = dr.select(faces, face1, face)
    kept = _Kept([[as_array(0.0, like)] * 4 for _ in range(ROOM)], as_array(0.0, like))
    flat = _if(faces, lambda: _face_over_face(owner, base, other, face2, kept).flat(), kept.flat())
    flat = _if(edges, lambda: _edge_over_face(owner, base, edge_side, edge, kept).flat(), flat)
    kept = _Kept.from_flat(flat)
    n = _turn(owner.solid, owner.table.vector(base))
    back = sp.negative(_turn(other.solid, other.table.vector(dr.select(faces, face2, base))))
    out = tuple(dr.select(faces, x, y) for x, y in zip(back, n))
    sign = dr.select(faces | negated(by_first), 1.0, -1.0)
    normal = tuple(x * sign for x in out)
    kept = _largest_four(kept, owner.table.vector(base))
    tilt = dr.abs(sp.dot(n, out))  # of two faces; heights are over one, and distances across the other
    touches = []
    for exists, *local in kept.points[:MOST]:
        height = tilt * _height(owner, base, local)
        point = sp.scaled(-0.5 * height, out, along_axes(owner.solid, local))
        touches.append(Touch(exists > 0.5, point, height, normal))
    return (faces | edges) & (kept.count > 0.5), touches


def _lying(by_first: Any, a: _Feature, b: _Feature, wanted: Any, like: Scalar) -> tuple[Scalar, Any, Any]:
    """An edge of one that lies on a face of the other: whether there is one, the place of the face, and its number.

    Args:
        by_first: whether the edge is the first's.
    """
    edge_side, face_side = _swapped(by_first, a, b), _swapped(by_first, b, a)

    def lies(i: Any, j: Any) -> tuple:
        (face, normal, on), (start, end) = face_side.face(i), edge_side.edge(j)
        direction = _turn(edge_side.solid, sp.normalized(sp.minus(end, start)))
        return (dr.abs(sp.dot(normal, direction)) < ALONG) & on, face, j

    possible = wanted & (edge_side.dimension < 2.5)
    return _first_of(dr.select(possible, face_side.count, unsigned(0, like)), edge_side.edges, lies, like)


def _if(condition: Any, compute: Callable[[], list[Scalar]], otherwise: list[Scalar]) -> list[Scalar]:
    return list(dr.if_stmt((), condition, compute, lambda: [x + 0.0 for x in otherwise]))


def _swapped(condition: Any, a: _Feature, b: _Feature) -> _Feature:
    """The first where the condition holds, else the second."""

    def pick(x: Any, y: Any) -> Any:
        if isinstance(x, list | tuple):
            return tuple(pick(p, q) for p, q in zip(x, y))
        return dr.select(condition, x, y)

    one, two = a.solid, b.solid
    solid = replace(
        one,
        centre=pick(one.centre, two.centre),
        axes=pick(one.axes, two.axes),
        reach=pick(one.reach, two.reach),
    )
    rest = (pick(getattr(a, name), getattr(b, name)) for name in ("places", "dimension", "is_rolled", "cap", "line"))
    return _Feature(solid, *rest)


@dataclass(frozen=True)
class _Kept:
    """Some points: whether there is one, and where it is on the solid that has the face."""

    points: list[list[Scalar]]
    count: Scalar

    def flat(self) -> list[Scalar]:
        return [self.count, *(x for point in self.points for x in point)]

    @staticmethod
    def from_flat(values: Sequence[Scalar]) -> _Kept:
        return _Kept([list(values[k : k + 4]) for k in range(1, 1 + 4 * ROOM, 4)], values[0])

    def add(self, exists: Any, point: Sequence[Scalar]) -> _Kept:
        new = [[1.0, *point], *self.points]
        points = [[dr.select(exists, a, b) for a, b in zip(*rows)] for rows in zip(new, self.points)]
        return _Kept(points, dr.select(exists, self.count + 1.0, self.count))


def _height(owner: _Feature, face: Any, point: Sequence[Scalar]) -> Scalar:
    """Over a face, negative inside of its solid."""
    table = owner.table
    return sp.dot(table.vector(face), sp.minus(point, table.vector(table.place(table.place(face + 3)))))


def _into(owner: _Feature, other: _Feature, point: Sequence[Scalar]) -> tuple:
    """A point of another solid along the axes of the owner."""
    world = along_axes(other.solid, point)
    return tuple(sp.dot(axis, sp.minus(world, owner.solid.centre)) for axis in owner.solid.axes)


def _polygon(table: Any, face: Any) -> tuple[Any, Any]:
    return table.place(face + 3), table.place(face + 4)


def _ends(table: Any, face: Any, k: Any) -> tuple[Any, Any]:
    """The places of both corners of an edge of a face."""
    first, count = _polygon(table, face)
    return table.place(first + k), table.place(first + dr.select(k + 1 >= count, k - k, k + 1))


def _inside(edges: Any, normal: tuple, ends: Callable[[Any], tuple[tuple, tuple]], point: Sequence[Scalar]) -> Any:
    """Whether a point is over a polygon: on the inner side of all its edges."""

    def look(k: Any, inside: Any) -> tuple:
        one, two = ends(k)
        inner = sp.cross(normal, sp.minus(two, one))
        return k + 1, inside & (sp.dot(inner, sp.minus(point, one)) >= 0.0)

    start = (edges - edges, edges == edges)
    return dr.while_loop(start, lambda k, inside: inside & (k < edges), look)[1]


def _face_over_face(owner: _Feature, face: Any, other: _Feature, over: Any, kept: _Kept) -> _Kept:
    """Corners of the part of a face that is over (or rather under) another one."""
    table = owner.table
    normal = table.vector(face)
    (_, mine), (_, theirs) = _polygon(table, face), _polygon(table, over)

    def my_edge(k: Any) -> tuple[tuple, tuple]:
        one, two = _ends(table, face, k)
        return table.vector(one), table.vector(two)

    def their_edge(k: Any) -> tuple[tuple, tuple]:
        one, two = _ends(table, over, k)
        return _into(owner, other, table.vector(one)), _into(owner, other, table.vector(two))

    def corners(k: Any, *flat: Any) -> tuple:
        point = their_edge(k)[0]
        exists = _inside(mine, normal, my_edge, point) & (_height(owner, face, point) <= 0.0)
        return k + 1, *_Kept.from_flat(flat).add(exists, point).flat()

    flat = dr.while_loop((mine - mine, *kept.flat()), lambda k, *_: k < theirs, corners)[1:]
    world = _turn(other.solid, table.vector(over))
    facing = tuple(sp.dot(axis, world) for axis in owner.solid.axes)
    level = sp.dot(facing, _into(owner, other, table.vector(_ends(table, over, mine - mine)[0])))
    slope = sp.dot(facing, normal)

    def shadows(k: Any, *flat: Any) -> tuple:
        point = my_edge(k)[0]
        height = (level - sp.dot(facing, point)) / slope
        point = sp.scaled(height, normal, point)
        exists = _inside(theirs, sp.negative(normal), their_edge, point) & (height <= 0.0)
        return k + 1, *_Kept.from_flat(flat).add(exists, point).flat()

    flat = dr.while_loop((mine - mine, *flat), lambda k, *_: k < mine, shadows)[1:]

    def crossings(i: Any, j: Any, *flat: Any) -> tuple:
        (one, two), (p, q) = my_edge(i), their_edge(j)
        along = sp.minus(two, one)
        inner = sp.cross(normal, along)
        from_p, from_q = (sp.dot(inner, sp.minus(x, one)) for x in (p, q))
        apart = from_p - from_q
        crosses = (from_p >= 0.0) != (from_q >= 0.0)
        point = sp.scaled(from_p / dr.select(apart == 0.0, 1.0, apart), sp.minus(q, p), p)
        part = sp.dot(along, sp.minus(point, one))
        exists = crosses & (part >= 0.0) & (part <= sp.dot(along, along)) & (_height(owner, face, point) <= 0.0)
        end = j + 1 >= theirs
        state = _Kept.from_flat(flat).add(exists, point).flat()
        return dr.select(end, i + 1, i), dr.select(end, j - j, j + 1), *state

    zero = mine - mine
    return _Kept.from_flat(dr.while_loop((zero, zero, *flat), lambda i, *_: i < mine, crossings)[2:])


def _edge_over_face(owner: _Feature, face: Any, other: _Feature, edge: Any, kept: _Kept) -> _Kept:
    """The ends of the part of an edge that is over (or rather under) a face."""
    table = owner.table
    normal = table.vector(face)
    _, edges = _polygon(table, face)
    p, q = (_into(owner, other, end) for end in other.edge(edge))
    like = p[0]

    def cut(k: Any, low: Any, high: Any) -> tuple:
        one, two = (table.vector(place) for place in _ends(table, face, k))
        inner = sp.cross(normal, sp.minus(two, one))
        from_p, from_q = (sp.dot(inner, sp.minus(x, one)) for x in (p, q))
        apart = from_p - from_q
        part = from_p / dr.select(apart == 0.0, 1.0, apart)
        low = dr.select((from_p < 0.0) & (from_q >= 0.0), sp.maximum(low, part), low)
        high = dr.select((from_p >= 0.0) & (from_q < 0.0), sp.minimum(high, part), high)
        return k + 1, dr.select((from_p < 0.0) & (from_q < 0.0), 2.0, low), high

    start = (edges - edges, as_array(0.0, like), as_array(1.0, like))
    _, low, high = dr.while_loop(start, lambda k, *_: k < edges, cut)
    ends = [sp.scaled(part, sp.minus(q, p), p) for part in (low, high)]
    exist = [(low <= high) & (_height(owner, face, point) <= 0.0) for point in ends]
    for point, exists in zip(ends, exist):
        kept = kept.add(exists, point)
    # MuJoCo counts an end twice that was cut off, if it is the only one.
    for point, exists, alone, cut_off in zip(ends, exist, exist[::-1], (low > 0.0, high < 1.0)):
        kept = kept.add(exists & negated(alone) & cut_off, point)
    return kept


def _largest_four(kept: _Kept, normal: tuple) -> _Kept:
    """Of more than four points, those with the largest area between them."""

    def choose() -> list[Scalar]:
        best = -1.0
        chosen = [x for point in kept.points[:4] for x in point]
        for i, k in combinations(range(ROOM), 2):
            one, two = kept.points[i], kept.points[k]
            along = sp.minus(two[1:], one[1:])
            sides = []
            for sign in (1.0, -1.0):
                area, point = 0.0, one
                for j in range(ROOM):
                    if j in (i, k):
                        continue
                    other = kept.points[j]
                    value = sign * sp.dot(normal, sp.cross(along, sp.minus(other[1:], one[1:]))) * other[0]
                    larger = value > area
                    area = dr.select(larger, value, area)
                    point = [dr.select(larger, a, b) for a, b in zip(other, point)]
                sides.append((area, point))
            total = (sides[0][0] + sides[1][0]) * one[0] * two[0]
            better = total > best
            best = dr.select(better, total, best)
            new = [*one, *sides[0][1], *two, *sides[1][1]]
            chosen = [dr.select(better, a, b) for a, b in zip(new, chosen)]
        return [as_array(x, kept.count) for x in chosen]

    flat = _if(kept.count > 4.5, choose, [x for point in kept.points[:4] for x in point])
    return _Kept([list(flat[k : k + 4]) for k in range(0, 16, 4)], kept.count)
