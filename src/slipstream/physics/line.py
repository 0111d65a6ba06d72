"""The cost along a Newton step: where rows change side, and how far to go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.constraints import Cone
from slipstream.physics.control import repeat, when
from slipstream.physics.dynamics import link_motions
from slipstream.physics.problem import Problem, any_touching, cone_edges, cone_rows, row_force
from slipstream.physics.selfcontact import Slot
from slipstream.physics.spatial import Scalar
from slipstream.physics.woodbury import over_slots, slot_components


def line_derivatives(
    problem: Problem, acceleration: Sequence[Scalar], step: Sequence[Scalar], motions: list[tuple]
) -> tuple[Scalar, Scalar, Scalar]:
    """What the rows that change side add to the first and second derivative at the full step.

    Returns:
        Both sums, and whether there are such rows.
    """
    model = problem.model
    first, second, changed = 0.0, 0.0, False
    for row in problem.rows:
        x = sp.dot(row.direction, [acceleration[d] for d in row.dofs], row.offset)
        y = sp.dot(row.direction, [step[d] for d in row.dofs])
        f0, k0 = row_force(row, x)
        f1, k1 = row_force(row, x + y)
        differs = k0 != k1
        if row.loss is not None:  # from one clamped side to the other, too
            differs = differs | (dr.abs(f1 - f0) > 1.5 * row.loss)
        first = sp.fma(f1 - f0 - k0 * y, y, first)
        second = sp.fma((k1 - k0) * y, y, second)
        changed = changed | differs
    if problem.cones:
        moved = link_motions(model, problem.where, step)
        for link, cones in problem.cones.items():
            a, b, c = _line_cones(cones, motions[link], moved[link], step[0])
            first, second, changed = sp.add(first, a), sp.add(second, b), changed | (c > 0.0)
    if problem.slots:

        def edges(slot: Slot) -> tuple:
            rows = slot_components(slot, acceleration, True)
            return _line_edges(slot.stiffness, rows, slot_components(slot, step, False))

        a, b, c = over_slots(problem.slots, edges, 3)
        first, second, changed = sp.add(first, a), sp.add(second, b), changed | (c > 0.0)
    return first, second, changed


def _line_cones(cones: list[Cone], motion: tuple, moved: tuple, like: Scalar) -> list[Scalar]:
    def compute() -> tuple:
        sums: tuple = (0.0, 0.0, 0.0)
        for cone in cones:
            at = sp.point_velocity(moved, cone.point)
            steps = [sp.dot(axis, at) for axis in (cone.normal, *cone.tangents)]
            sums = sp.plus(sums, _line_edges(cone.stiffness, cone_rows(cone, motion), steps))
        return sums

    return when(any_touching(cones), compute, 3, like)


def _line_edges(stiffness: Scalar, rows: Sequence[Scalar], steps: Sequence[Scalar]) -> tuple:
    """Sums over the edges of one pyramid that change side: first and second derivative, and |change|."""
    first, second, changed = 0.0, 0.0, 0.0
    for x, y in zip(cone_edges(rows), cone_edges(steps)):
        end = x + y
        gained = dr.select(end < 0.0, stiffness, 0.0) - dr.select(x < 0.0, stiffness, 0.0)
        first = sp.fma(gained * end, y, first)
        second = sp.fma(gained * y, y, second)
        changed = sp.add(changed, dr.abs(gained))
    return first, second, changed


@dataclass
class _Search:
    length: Scalar
    low: Scalar
    high: Scalar


def search(
    problem: Problem,
    acceleration: Sequence[Scalar],
    step: Sequence[Scalar],
    motions: list[tuple],
    slope: Scalar,
    length: Scalar,
) -> Scalar:
    """The minimum along the line: Newton's method, bisecting where it leaves the bracket.

    Dry friction needs it. Its force is clamped on both sides, so that a single step can jump to and fro
    between them for ever.
    """

    def refine(s: _Search, _: Scalar) -> _Search:
        part = [sp.mul(s.length, x) for x in step]
        first, second, _ = line_derivatives(problem, acceleration, part, motions)
        first = first / s.length + (1.0 - s.length) * slope
        second = second / (s.length * s.length) - slope
        low = dr.select(first < 0.0, s.length, s.low)
        high = dr.select(first < 0.0, s.high, s.length)
        new = s.length - first / sp.maximum(second, 1e-12)
        return _Search(dr.select((new > low) & (new < high), new, 0.5 * (low + high)), low, high)

    low, high = 1e-3 + 0.0 * slope, 4.0 + 0.0 * slope
    return repeat(10, refine, _Search(sp.clip(length, 1e-3, 4.0), low, high), like=slope).length
