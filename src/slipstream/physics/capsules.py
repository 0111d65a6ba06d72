"""Where a capsule touches a box, by MuJoCo's rules.

Its sphere that is nearest to the box touches it; and a second one, where the capsule, on its way over the face or along
the edge that it is nearest to, leaves that face or edge, or ends. Places on a capsule are between -1 and 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.boxes import Block, Touch, sphere_box
from slipstream.physics.control import negated
from slipstream.physics.spatial import Scalar

SMALLEST = 1e-15
"""MuJoCo's: how parallel a capsule and an edge may be, and by how much a further edge must be nearer."""
TINY = 1e-30
INSIDE, CORNER = -1.0, 3.0
"""Beside 0, 1 and 2, the axis of a face or an edge."""


@dataclass(frozen=True)
class _Nearest:
    """The place on a capsule that is nearest to a box.

    Attributes:
        squared: the distance from the capsule's middle line to the box, squared.
        place: on the capsule.
        face: the axis of the face under an end of the capsule, INSIDE where that end is in the box.
        edge: the axis of the edge that is nearest, or CORNER; of no meaning where `at_end` holds.
        along: where on that edge, between -1 and 1.
        signs: of the edge's (or the corner's) coordinates; negative along the edge itself.
        at_end: whether it is an end of the capsule that is over a face, or in the box.
    """

    squared: Scalar
    place: Scalar
    face: Scalar
    edge: Scalar
    along: Scalar
    signs: tuple
    at_end: Scalar

    def or_nearer(self, nearer: Scalar, other: _Nearest) -> _Nearest:
        def pick(new: Scalar, old: Scalar) -> Scalar:
            return dr.select(nearer, new, old)

        names = ("squared", "place", "face", "edge", "along", "at_end")
        signs = tuple(map(pick, other.signs, self.signs))
        return _Nearest(signs=signs, **{name: pick(getattr(other, name), getattr(self, name)) for name in names})


def capsule_box(centre: tuple, half: tuple, radius: float, box: Block) -> list[Touch]:
    """The two points where a capsule touches a box.

    Args:
        half: half of the capsule's middle line.
    """
    middle = [sp.dot(axis, sp.minus(centre, box.centre)) for axis in box.axes]
    line = [sp.dot(axis, half) for axis in box.axes]
    nearest = _nearest_place(middle, line, box.size)
    exists, further = _further(nearest, middle, line, box.size)
    touches = [sphere_box(sp.scaled(s, half, centre), radius, box) for s in (nearest.place, nearest.place + further)]
    return [touches[0], replace(touches[1], exists=exists)]


def _nearest_place(middle: Sequence[Scalar], line: Sequence[Scalar], size: Sequence[Scalar]) -> _Nearest:
    best = _Nearest(1e30, 0.0, INSIDE, CORNER, 0.0, (1.0, 1.0, 1.0), 1.0)
    for end in (-1.0, 1.0):
        at = [sp.fma(end, a, p) for a, p in zip(line, middle)]
        off = [x - sp.clip(x, -h, h) for x, h in zip(at, size)]
        count, face = 0.0, INSIDE
        for k, x in enumerate(off):
            outside = x != 0.0
            count, face = dr.select(outside, count + 1.0, count), dr.select(outside, float(k), face)
        squared = sp.dot(off, off)
        candidate = replace(best, squared=squared, place=end, face=face)
        best = best.or_nearer((count < 1.5) & (squared < best.squared), candidate)
    for j in range(3):
        for corner in range(8):
            if not corner & (1 << j):
                signs = tuple(1.0 if corner & (1 << k) else -1.0 for k in range(3))
                candidate, usable = _nearest_to_edge(j, signs, middle, line, size)
                best = best.or_nearer(usable & (candidate.squared < best.squared - SMALLEST), candidate)
    return best


def _nearest_to_edge(
    j: int, signs: tuple, middle: Sequence[Scalar], line: Sequence[Scalar], size: Sequence[Scalar]
) -> tuple[_Nearest, Scalar]:
    """Where a capsule is nearest to an edge along axis j, and whether they are not parallel."""
    k, m = (j + 1) % 3, (j + 2) % 3
    to_edge = {i: signs[i] * size[i] - middle[i] for i in (k, m)}
    across = sp.dot([line[k], line[m]], [to_edge[k], to_edge[m]])
    flat = sp.dot([line[k], line[m]], [line[k], line[m]])
    place = across / sp.maximum(flat, TINY)
    along = sp.fma(place, line[j], middle[j]) / size[j]
    beyond = dr.abs(along) > 1.0
    end = dr.select(beyond, dr.select(along > 0.0, 1.0, -1.0), 0.0)
    to_corner = sp.dot(line, [end * size[j] - middle[j] if i == j else to_edge[i] for i in range(3)])
    place = dr.select(beyond, to_corner / sp.maximum(sp.dot(line, line), TINY), place)
    along = dr.select(beyond, end, along)
    # Beyond an end of the capsule too: from there back to the edge. (A corner stays one, as in MuJoCo.)
    ended = dr.abs(place) > 1.0
    place = sp.clip(place, -1.0, 1.0)
    back = sp.fma(place, line[j], middle[j]) / size[j]
    along = dr.select(ended, sp.clip(back, -1.0, 1.0), along)
    end = dr.select(ended & (dr.abs(back) > 1.0), along, end)
    off = [along * size[j] - middle[j] if i == j else to_edge[i] for i in range(3)]
    off = [sp.fma(-place, a, x) for a, x in zip(line, off)]
    at_signs = tuple(dr.select(end > 0.5, 1.0, -1.0) if i == j else signs[i] for i in range(3))
    edge = dr.select(end == 0.0, float(j), CORNER)
    return _Nearest(sp.dot(off, off), place, INSIDE, edge, along, at_signs, 0.0), size[j] * size[j] * flat > SMALLEST


def _further(
    nearest: _Nearest, middle: Sequence[Scalar], line: Sequence[Scalar], size: Sequence[Scalar]
) -> tuple[Scalar, Scalar]:
    """Whether there is a second place, and how far it is from the first."""
    lengths = [sp.maximum(dr.abs(a), TINY) for a in line]
    # By axis, whether the capsule points away from the side of the box that is nearest.
    away = [(a > 0.0) != (sign > 0.0) for a, sign in zip(line, nearest.signs)]
    exists, further = _from_corner(nearest.place, away, line, lengths, size)
    for j in range(3):
        here = nearest.edge == float(j)
        there, other = _from_edge(j, nearest, away, line, lengths, size)
        exists, further = dr.select(here, there, exists), dr.select(here, other, further)
    over_face = _over_face(nearest, middle, line, lengths, size)
    at_end = nearest.at_end > 0.5
    return dr.select(at_end, nearest.face > -0.5, exists), dr.select(at_end, over_face, further)


def _from_corner(
    place: Scalar, away: Sequence[Scalar], line: Sequence[Scalar], lengths: Sequence[Scalar], size: Sequence[Scalar]
) -> tuple[Scalar, Scalar]:
    """Along the edge or over the face that leads away from a corner; none does from one the capsule points to."""
    count = sp.sum_of([dr.select(x, 1.0, 0.0) for x in away])
    one = count == 1.0
    sign = dr.select(one, 1.0, -1.0)
    along_edge, over_face, steep = 1.0 - sign * place, 1.0 + sign * place, False
    limit = 2.0
    squared = sp.dot(line, line)
    for x, a, length, h in zip(away, line, lengths, size):
        is_edge = x == one
        reach = 2.0 * h / length
        limit = dr.select(is_edge, reach, limit)
        steep = (is_edge & (a * a > 0.5 * squared)) | steep
        over_face = dr.select(is_edge, over_face, sp.minimum(over_face, reach))
    further = dr.select(steep, sign * sp.minimum(along_edge, limit), -sign * over_face)
    return (count > 0.5) & (count < 2.5), further


def _from_edge(
    j: int,
    nearest: _Nearest,
    away: Sequence[Scalar],
    line: Sequence[Scalar],
    lengths: Sequence[Scalar],
    size: Sequence[Scalar],
) -> tuple[Scalar, Scalar]:
    """Over the face of an edge along axis j that the capsule is nearest to, where it crosses the edge."""
    k, m = (j + 1) % 3, (j + 2) % 3
    by_k = lengths[k] > lengths[m]
    leaving = dr.select(by_k, away[k], away[m])
    sign = dr.select(leaving, 1.0, -1.0)
    limit = 2.0 * dr.select(by_k, size[k] / lengths[k], size[m] / lengths[m])
    side = dr.select((line[j] > 0.0) == leaving, 1.0 - nearest.along, 1.0 + nearest.along)
    reach = sp.minimum(1.0 - sign * nearest.place, sp.minimum(limit, size[j] * side / lengths[j]))
    return away[k] != away[m], sign * reach


def _over_face(
    nearest: _Nearest,
    middle: Sequence[Scalar],
    line: Sequence[Scalar],
    lengths: Sequence[Scalar],
    size: Sequence[Scalar],
) -> Scalar:
    """From an end of the capsule that is over a face."""
    sign = -nearest.place
    reach = 2.0
    for k in range(3):
        start = sp.fma(nearest.place, line[k], middle[k])
        ahead = dr.select(sign * line[k] > 0.0, size[k] - start, size[k] + start) / lengths[k]
        counts = negated(nearest.face == float(k)) & (ahead > 0.0)
        reach = dr.select(counts & (ahead < reach), ahead, reach)
    return sign * reach
