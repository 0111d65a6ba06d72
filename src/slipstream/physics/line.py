"""The cost along a Newton step: where rows change side, and how far to go.

With a the accelerations, s the step, H s = -gradient and g = gradient . s, the cost at a + length s is a parabola as
long as no row changes side,

    cost(length) - cost(0) = length (1 - length / 2) g,

and a row that changes side adds the difference between the parabola it is on there and the one it came from. Sums over
these rows alone are exact where the cost itself would have lost all its digits to rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.cones import curvature, elliptic_cost, elliptic_modes
from slipstream.physics.constraints import Cone, Row
from slipstream.physics.control import as_array, when
from slipstream.physics.dynamics import link_motions
from slipstream.physics.problem import LinkValues, Problem, any_touching, cone_edges, cone_motion
from slipstream.physics.selfcontact import Slot
from slipstream.physics.spatial import Scalar, is_single
from slipstream.physics.woodbury import over_slots, slot_components

ENOUGH = 0.5
"""A length is good where the slope is at most this part of the slope at the start ..."""
DECREASE = 1e-3
"""... and the cost has fallen by this part of what that slope promised."""
EVALUATIONS = 16
"""How often the cost along a line is looked at, at most."""

BENT = 1e-3
"""By which part of its force an elliptic cone may leave its springs in the last step. Newton's method squares it."""

Sums = tuple[Scalar, Scalar, Scalar, Scalar]
"""What rows that have changed side add to the slope, the curvature and twice the cost; and their stiffness."""

NOTHING: Sums = (0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Line:
    """A Newton step from some accelerations."""

    problem: Problem
    acceleration: Sequence[Scalar]
    values: LinkValues  # of the cones at the start
    step: Sequence[Scalar]
    slope: Scalar  # of the cost at the start; negative

    def full_step(self) -> tuple[Sums, LinkValues]:
        """The sums at the end of the step, and how far it takes the values of the cones."""
        moved = link_motions(self.problem.model, self.problem.where, self.step) if self.problem.cones else []
        total, steps = self._rows(1.0), {}
        for link, cones in self.problem.cones.items():
            total, steps[link] = _cones_at_full_step(total, cones, self.values[link], moved[link], self.step[0])
        return self._slots(total, 1.0), steps

    def part_of_step(self, length: Scalar, steps: LinkValues) -> Sums:
        """The sums after a part of the step."""
        total = self._rows(length)
        for link, cones in self.problem.cones.items():
            total = _cones_at(total, cones, self.values[link], steps[link], length)
        return self._slots(total, length)

    def _rows(self, length: Scalar) -> Sums:
        total = NOTHING
        for row in self.problem.rows:
            if row.is_equality:  # it has one side only
                continue
            x = sp.dot(row.direction, [self.acceleration[d] for d in row.dofs], row.offset)
            y = sp.dot(row.direction, [self.step[d] for d in row.dofs])
            total = _edge(total, row.stiffness, x, y, length) if row.loss is None else _dry(total, row, x, y, length)
        return total

    def _slots(self, total: Sums, length: Scalar) -> Sums:
        if not self.problem.slots:
            return total

        def edges(slot: Slot) -> Sums:
            values = slot_components(slot, self.acceleration, True)
            return _contact(NOTHING, slot, values, slot_components(slot, self.step, False), length)

        return _sums(sp.plus(total, over_slots(self.problem.slots, edges, 4)))


def _sums(values: Sequence[Scalar]) -> Sums:
    first, second, value, changed = values
    return first, second, value, changed


def _edge(total: Sums, stiffness: Scalar, x: Scalar, y: Scalar, length: Scalar) -> Sums:
    """A row that pushes where its value is negative: x at the start, and y further at the end of the step."""
    first, second, value, changed = total
    end = sp.fma(length, y, x)
    change = dr.select(end < 0.0, stiffness, 0.0) - dr.select(x < 0.0, stiffness, 0.0)
    push = change * end
    return sp.fma(push, y, first), sp.fma(change * y, y, second), sp.fma(push, end, value), changed + dr.abs(change)


def _edges(total: Sums, stiffness: Scalar, values: Sequence, steps: Sequence, length: Scalar) -> Sums:
    """The edges of one pyramid."""
    for x, y in zip(cone_edges(values), cone_edges(steps)):
        total = _edge(total, stiffness, x, y, length)
    return total


def _contact(total: Sums, contact: Cone | Slot, values: Sequence, steps: Sequence, length: Scalar) -> Sums:
    if contact.mu is not None and len(values) > 1:
        return _elliptic(total, contact.stiffness, contact.mu, values, steps, length)
    if isinstance(contact, Slot) and not contact.is_plain:
        for k, t, s in zip(contact.edge_stiffness, values[1:], steps[1:]):
            total = _edges(total, k, (values[0], t), (steps[0], s), length)
        return total
    return _edges(total, contact.stiffness, values, steps, length)


def _elliptic(total: Sums, stiffness: Scalar, mu: Scalar, values: Sequence, steps: Sequence, length: Scalar) -> Sums:
    """An elliptic cone: by how much its cost is not the parabola that it is like at the start."""
    first, second, value, changed = total
    ends = [sp.fma(length, y, x) for x, y in zip(values, steps)]
    (force, modes), (end_force, end_modes) = (elliptic_modes(stiffness, mu, at) for at in (values, ends))
    slope, end_slope = (sp.sub(0.0, sp.dot(f, steps)) for f in (force, end_force))
    curve, end_curve = curvature(modes, steps), curvature(end_modes, steps)
    off = sp.sub(end_slope, sp.fma(length, curve, slope))
    twice = elliptic_cost(stiffness, mu, ends) - elliptic_cost(stiffness, mu, values)
    twice = twice - length * sp.fma(length, curve, 2.0 * slope)
    bend = [end - f for f, end in zip(force, end_force)]
    for k, direction in modes:
        push = length * k * sp.dot(direction, steps)
        bend = [sp.fma(push, d, b) for d, b in zip(direction, bend)]
    allowed = BENT if is_single(slope) else BENT**2
    counts = sp.dot(bend, bend) > allowed**2 * sp.dot(end_force, end_force)
    return first + off, second + (end_curve - curve), value + twice, changed + dr.select(counts, 1.0, 0.0)


def _dry(total: Sums, row: Row, x: Scalar, y: Scalar, length: Scalar) -> Sums:
    """Dry friction. Its force is clamped on both sides: its cost is a parabola between two straight lines."""
    assert row.loss is not None
    first, second, value, changed = total
    k, loss = row.stiffness, row.loss
    start, end = k * x, k * sp.fma(length, y, x)
    side = dr.select(start <= -loss, -1.0, dr.select(start >= loss, 1.0, 0.0))
    clamped = side != 0.0
    # From a line back to the parabola by `near`, and on to the other line by `far`; or from the parabola by `over`.
    near = sp.maximum(loss - side * end, 0.0)
    far = sp.maximum(near - 2.0 * loss, 0.0)
    over = sp.maximum(dr.abs(end) - loss, 0.0)
    push = dr.select(clamped, side * (far - near), dr.select(end > 0.0, -over, over))
    curve = dr.select(clamped, dr.select((near > 0.0) & (far <= 0.0), k, 0.0), dr.select(over > 0.0, -k, 0.0))
    twice = dr.select(clamped, near * near - far * far, -over * over) / k
    return sp.fma(push, y, first), sp.fma(curve * y, y, second), value + twice, changed + dr.abs(push)


def _cones_at_full_step(
    total: Sums, cones: list[Cone], values: list[list[Scalar]], moved: tuple, like: Scalar
) -> tuple[Sums, list[list[Scalar]]]:
    """The contacts of one link; where none of them touches, this is skipped."""

    def compute() -> list[Scalar]:
        sums, flat = NOTHING, []
        for cone, value in zip(cones, values):
            step = cone_motion(cone, moved)
            sums = _contact(sums, cone, value, step, 1.0)
            flat += step
        return [*sums, *flat]

    result = when(any_touching(cones), compute, 4 + sum(map(len, values)), like)
    rest = iter(result[4:])
    return _sums(sp.plus(total, result[:4])), [[next(rest) for _ in value] for value in values]


def _cones_at(total: Sums, cones: list[Cone], values: list, steps: list, length: Scalar) -> Sums:
    def compute() -> Sums:
        sums = NOTHING
        for cone, value, step in zip(cones, values, steps):
            sums = _contact(sums, cone, value, step, length)
        return sums

    return _sums(sp.plus(total, when(any_touching(cones), compute, 4, length)))


@dataclass(frozen=True)
class _Search:
    """A search for the minimum along a line, which is between `low` and `high`."""

    length: Scalar
    low: Scalar
    high: Scalar
    going: Scalar
    count: Scalar

    def after(self, slope: Scalar, sums: Sums) -> _Search:
        """The search after a look at the cost at `length`."""
        first, second, twice, _ = sums
        length, count = self.length, self.count + 1
        here = sp.fma(1.0 - length, slope, first)
        cost = sp.fma(length * (1.0 - 0.5 * length), slope, 0.5 * twice)
        rose, steep = cost > DECREASE * length * slope, dr.abs(here) > -ENOUGH * slope  # neither, for a NaN
        low, high = dr.select(here < 0.0, length, self.low), dr.select(here < 0.0, self.high, length)
        new = length - here / sp.maximum(second - slope, -1e-7 * slope)
        new = dr.select((new > low) & (new < high), new, 0.5 * (low + high))
        # The cost is convex: where it has fallen at one length, at a shorter one it has too.
        unsure = rose | (steep & ((new >= length) | (new < 0.2 * length)))
        going = self.going & unsure & (count < EVALUATIONS)
        return _Search(as_array(dr.select(rose | steep, new, length), slope), low, high, going, count)

    @property
    def parts(self) -> tuple:
        return self.length, self.low, self.high, self.going, self.count


def search(line: Line, careful: Any) -> tuple[Scalar, Scalar]:
    """How far to go for a lower cost: to the end of the step, or where Newton's method along the line leads.

    Args:
        careful: a mask of the worlds that look at the cost again where it is not sure to be lower there.

    Returns:
        The length, and whether a row changes side before the end of the step: if none does, that is the minimum.
    """
    slope = line.slope
    yes, zero = (True, 0) if sp.is_constant(slope) else (dr.mask_t(slope)(True), dr.uint32_array_t(slope)(0))
    low, high = as_array(0.0, slope), as_array(1e10, slope)
    sums, steps = line.full_step()
    begun = _Search(1.0, low, high, yes, zero).after(slope, sums)
    unsure = begun.going & careful

    def refine() -> list[Scalar]:
        def look(*parts: Scalar) -> tuple:
            s = _Search(*parts)
            return s.after(slope, line.part_of_step(s.length, steps)).parts

        return [dr.while_loop(begun.parts, lambda *parts: parts[3], look, label="line")[0]]

    refined = when(unsure, refine, 1, slope)[0]
    return dr.select(unsure, refined, begun.length), sums[3] > 0.0
