"""Where Newton's method begins: at the accelerations of the step before, or at those without any constraint.

Elliptic cones have a tip, and from far away Newton's method may come down to it in a hundred short steps. MuJoCo begins
where the cost is lower; so does this.
"""

from __future__ import annotations

from collections.abc import Sequence

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.cones import elliptic_cost
from slipstream.physics.constraints import Cone, Row
from slipstream.physics.control import when
from slipstream.physics.dynamics import factor, link_motions, multiply, solve
from slipstream.physics.problem import Problem, any_touching, cone_rows
from slipstream.physics.selfcontact import Slot
from slipstream.physics.spatial import Scalar
from slipstream.physics.woodbury import over_slots, slot_components


def better_start(problem: Problem, before: Sequence[Scalar]) -> list[Scalar]:
    """Of the accelerations of the step before and those without constraints, the ones of the lower cost."""
    free = solve(problem.model, factor(problem.model, problem.mass), problem.force)
    off = sp.minus(before, free)
    twice = sp.dot(off, multiply(problem.model, problem.mass, off))
    better = sp.add(twice, _constraints(problem, before)) < _constraints(problem, free)
    return [dr.select(better, a, b) for a, b in zip(before, free)]


def _constraints(problem: Problem, acceleration: Sequence[Scalar]) -> Scalar:
    """Twice the cost of all constraints."""
    total, like = 0.0, acceleration[0]
    for row in problem.rows:
        x = sp.dot(row.direction, [acceleration[d] for d in row.dofs], row.offset)
        total = sp.add(total, _row(row, x))
    motions = link_motions(problem.model, problem.where, acceleration) if problem.cones else []
    for link, cones in problem.cones.items():

        def of_link(cones: list[Cone] = cones, motion: tuple = motions[link]) -> list[Scalar]:
            return [sp.sum_of([_contact(cone, cone_rows(cone, motion)) for cone in cones])]

        total = sp.add(total, when(any_touching(cones), of_link, 1, like)[0])
    if problem.slots:

        def of_slot(slot: Slot) -> list[Scalar]:
            return [_contact(slot, slot_components(slot, acceleration, True))]

        total = sp.add(total, over_slots(problem.slots, of_slot, 1)[0])
    return total


def _row(row: Row, x: Scalar) -> Scalar:
    if row.is_equality:
        return row.stiffness * x * x
    if row.loss is None:
        below = sp.minimum(x, 0.0)
        return row.stiffness * below * below
    push = dr.abs(row.stiffness * x)
    inside = sp.minimum(push, row.loss)
    return inside * (2.0 * push - inside) / row.stiffness


def _contact(contact: Cone | Slot, values: Sequence[Scalar]) -> Scalar:
    if contact.mu is not None and len(values) > 1:
        return elliptic_cost(contact.stiffness, contact.mu, values)
    below = sp.minimum(values[0], 0.0)  # without friction
    return contact.stiffness * below * below
