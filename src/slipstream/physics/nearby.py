"""Pairs of convex solids that are near each other, one after the other, in one loop of the kernel.

All pairs are tested for whether the spheres around them overlap, which costs a few operations each. Those that do are
bits of a few words; a loop takes them one by one, picks both solids out of a table, and searches where they touch. A
kernel holds that search once, however many pairs there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.boxes import Touch
from slipstream.physics.collision import geom_pose
from slipstream.physics.control import as_array, lowest_bit, memory, unsigned, when
from slipstream.physics.convex import Solid, as_touch, boxes_apart, likely_directions, search
from slipstream.physics.kinematics import Pose
from slipstream.physics.manifold import MOST, face_touches
from slipstream.physics.model import Model
from slipstream.physics.pairs import Pair
from slipstream.physics.solids import (
    model_table,
    pair_record,
    pick_solid,
    slot_geoms,
    solid_numbers,
    solid_reaches,
)
from slipstream.physics.spatial import Scalar

BITS = 32
VALUES = 7
"""Of a contact: its distance, its point and its normal."""
POSE = 12


@dataclass(frozen=True)
class Found:
    """Contacts in slots: numbers of pairs, what is known of each, and how many there were."""

    codes: list[Scalar]
    known: list[list[Scalar]]
    count: Scalar

    def add(self, hit: Scalar, code: Scalar, values: Sequence[Scalar]) -> Found:
        codes = [dr.select(hit, new, old) for new, old in zip((code, *self.codes), self.codes)]
        rows = zip((values, *self.known), self.known)
        known = [[dr.select(hit, new, old) for new, old in zip(*row)] for row in rows]
        return Found(codes, known, sp.add(self.count, dr.select(hit, 1.0, 0.0)))

    def flat(self) -> list[Scalar]:
        return [self.count, *self.codes, *(x for row in self.known for x in row)]

    def from_flat(self, values: Sequence[Scalar]) -> Found:
        size = len(self.codes)
        rest = values[1 + size :]
        return Found(list(values[1 : 1 + size]), [list(rest[VALUES * k :][:VALUES]) for k in range(size)], values[0])


def add_convex(
    model: Model, where: Pose, pairs: Sequence[Pair], offset: Callable[[int], tuple], found: Found, like: Scalar
) -> Found:
    """Contacts of convex solids, added to others.

    Args:
        pairs: all pairs whose contacts go in slots; a code is a number of one.
        offset: by link, from the point that positions are relative to, to the reference point of its tree.
    """
    geoms = slot_geoms(model)
    numbers, reaches = solid_numbers(model), solid_reaches(model)
    poses = memory(like, POSE * len(geoms))
    centres: dict[int, tuple] = {}
    for g in geoms:
        centre, rotation = geom_pose(where, model.geoms[g])
        centres[g] = sp.plus(centre, offset(model.geoms[g].link))
        for k, x in enumerate((*centres[g], *(sp.column(rotation, j)[i] for j in range(3) for i in range(3)))):
            poses[POSE * numbers[g] + k] = as_array(x, like)
    chosen = [(code, pair) for code, pair in enumerate(pairs) if pair.is_convex]
    near = []
    for _, pair in chosen:
        between = sp.minus(centres[pair.geom2], centres[pair.geom1])
        reach = reaches[pair.geom1] + reaches[pair.geom2] + pair.margin
        near.append(sp.dot(between, between) < reach * reach)

    def visit(number: Any, flat: Sequence[Scalar]) -> list[Scalar]:
        table = model_table(model, like)
        record = pair_record(model, number)
        solids = []
        for k in range(2):
            solid = table.place(record + k)
            pose = [poses[solid * POSE + j] for j in range(POSE)]
            axes = [tuple(pose[j : j + 3]) for j in (3, 6, 9)]
            solids.append(pick_solid(table, solid, tuple(pose[:3]), axes))
        margin, with_faces, code = table[record + 2], table[record + 3], table[record + 4]
        result = found.from_flat(flat)
        for touch in solid_touches(model, solids[0], solids[1], margin, with_faces):
            hit = (touch.distance < margin) & touch.exists
            result = result.add(hit, code, [touch.distance, *touch.point, *touch.normal])
        return [as_array(x, like) for x in result.flat()]

    start = [as_array(x, like) for x in found.flat()]
    return found.from_flat(_each(near, visit, start, like))


def _each(near: Sequence[Any], visit: Callable, state: list[Scalar], like: Scalar) -> list[Scalar]:
    """`state = visit(number, state)` for the number of every mask that holds."""
    if isinstance(like, float):
        for number, is_near in enumerate(near):
            if is_near:
                state = visit(number, state)
        return state
    words = []
    for begin in range(0, len(near), BITS):
        word = unsigned(0, like)
        for k, is_near in enumerate(near[begin : begin + BITS]):
            word = word | dr.select(is_near, unsigned(1 << k, like), unsigned(0, like))
        words.append(word)

    def step(index: Any, word: Any, *flat: Any) -> tuple:
        def look() -> list[Any]:
            return [as_array(x, like) for x in visit(index * BITS + lowest_bit(word), flat)]

        new = dr.if_stmt((), word != 0, look, lambda: [x + 0.0 for x in flat])
        word = word & (word - dr.select(word == 0, unsigned(0, like), unsigned(1, like)))
        done = word == 0
        # Kept in `memory` and read here, after loops, words came out wrong in worlds of one packet that differ.
        following = unsigned(0, like)
        for k, later in enumerate(words[1:]):
            following = dr.select(index == k, later, following)
        return dr.select(done, index + 1, index), dr.select(done, following, word), *new

    begin = (unsigned(0, like), words[0], *state)
    return list(dr.while_loop(begin, lambda index, *_: index < len(words), step)[2:])


def solid_touches(model: Model, one: Solid, two: Solid, margin: Scalar, with_faces: Scalar) -> list[Touch]:
    """All points where two solids touch, four at most.

    Args:
        with_faces: 1 for solids that may touch with faces or edges (see `manifold.py`), else 0.
    """
    like = margin
    centre = one.centre
    one, two = replace(one, centre=sp.ZERO3), replace(two, centre=sp.minus(two.centre, centre))
    apart, normal = boxes_apart(one, two)

    def compute() -> list[Scalar]:
        found = search(one, two, likely_directions(one, two, normal))
        first = as_touch(one, two, found)
        touching = first.distance < margin
        rows = [_row(first, dr.select(touching, 1.0, 0.0)), *[[0.0] * 8 for _ in range(MOST - 1)]]
        if any(pair.has_faces for pair in model.pairs if pair.is_convex):

            def by_faces() -> list[Scalar]:
                there, touches = face_touches(one, two, found)
                more = [_row(touch, dr.select(touch.exists, 1.0, 0.0)) for touch in touches]
                return [as_array(dr.select(there, a, b), like) for x, y in zip(more, rows) for a, b in zip(x, y)]

            rows = _choose(touching & (with_faces > 0.5), by_faces, rows, like)
        return [x for row in rows for x in row]

    flat = when(apart < margin, compute, 8 * MOST, like)
    rows = [flat[k : k + 8] for k in range(0, len(flat), 8)]
    return [Touch(r[0] > 0.5, sp.plus(tuple(r[2:5]), centre), r[1], tuple(r[5:])) for r in rows]


def _row(touch: Touch, exists: Scalar) -> list[Scalar]:
    return [exists, touch.distance, *touch.point, *touch.normal]


def _choose(condition: Any, compute: Callable[[], list[Scalar]], rows: list, like: Scalar) -> list[list[Scalar]]:
    otherwise = [as_array(x, like) + 0.0 for row in rows for x in row]
    flat = dr.if_stmt((), condition, compute, lambda: [x + 0.0 for x in otherwise])
    return [list(flat[k : k + 8]) for k in range(0, len(flat), 8)]
