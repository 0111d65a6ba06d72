"""Newton's method on MuJoCo's primal problem, world by world to convergence.

The accelerations a minimise  1/2 (a - a_free)^T M (a - a_free) + sum over rows of s(J a - reference),
a convex and piecewise quadratic function. Where no row changes side between an iterate and its full Newton
step, that step ends exactly in the minimum: this is the only test of convergence. Everywhere else one
Newton step along the line gives the step length.

Contacts with what does not move turn into a 6 x 6 stiffness on their link, which travels up the tree like a
composite inertia. The Hessian M + J^T D J therefore has the sparsity of M.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.constraints import Cone, Row
from slipstream.physics.control import repeat, when
from slipstream.physics.dynamics import TreeMatrix, factor, link_motions, multiply, project_forces, solve, solve_downward, solve_upward
from slipstream.physics.kinematics import Pose
from slipstream.physics.model import Model
from slipstream.physics.selfcontact import (
    Slot,
    slot_components,
    slot_gradient,
    with_slots,
)
from slipstream.physics.spatial import Scalar


@dataclass
class Problem:
    """What does not change between iterations."""

    model: Model
    where: Pose
    mass: TreeMatrix
    force: Sequence[Scalar]  # smooth generalised forces, nv
    rows: list[Row]
    cones: dict[int, list[Cone]]  # by link
    slots: list[Slot]
    dropped: Scalar  # contacts between moving links that found no slot

    @property
    def constrained(self) -> bool:
        return bool(self.rows or self.cones or self.slots)


def solve_accelerations(problem: Problem, start: Sequence[Scalar]) -> list[Scalar]:
    """The constrained accelerations qacc.

    Args:
        start: where to begin, usually the accelerations of the step before.
    """
    model = problem.model
    if not problem.constrained:
        return solve(model, factor(model, problem.mass), problem.force)

    def iterate(acceleration: list[Scalar], going: Scalar, count: Scalar) -> tuple:
        acceleration, changed = newton_step(problem, acceleration)
        count = count + 1
        return acceleration, going & changed & (count < model.newton_iterations), count

    going, count = _loop_start(start)
    acceleration, _, _ = dr.while_loop(
        (list(start), going, count), lambda acceleration, going, count: going, iterate, label="newton"
    )
    return acceleration


def _loop_start(values: Sequence[Scalar]) -> tuple:
    """A mask that holds everywhere and a counter at zero, as wide as the values."""
    if isinstance(values[0], float):
        return True, 0
    going = values[0] == values[0]
    return dr.mask_t(values[0])(True) | going, dr.int32_array_t(type(values[0]))(0)


def touch_forces(problem: Problem, acceleration: Sequence[Scalar]) -> list[Scalar]:
    """The normal contact force on each of the model's touch sensors."""
    model = problem.model
    forces: list[Scalar] = [0.0] * len(model.touch)
    if not forces:
        return forces
    motions = link_motions(model, problem.where, acceleration)
    for index, geoms in enumerate(model.touch):
        for link, cones in problem.cones.items():
            for cone in cones:
                if cone.geom in geoms:
                    push = pyramid_push(cone.stiffness, cone_rows(cone, motions[link]))
                    forces[index] = sp.add(forces[index], push)
        for slot in problem.slots:
            push = pyramid_push(slot.stiffness, slot_components(slot, acceleration, True))
            forces[index] = sp.add(forces[index], dr.select(slot.has_any(geoms), push, 0.0))
    return forces


def pyramid_push(stiffness: Scalar, rows: Sequence[Scalar]) -> Scalar:
    """The normal force of a contact: the sum over the edges of its pyramid."""
    return sp.mul(stiffness, sp.sum_of(-sp.minimum(x, 0.0) for x in cone_edges(rows)))


def newton_step(problem: Problem, acceleration: list[Scalar]) -> tuple[list[Scalar], Scalar]:
    """One iteration.

    Returns:
        The new accelerations, and whether a row changed side on the way (it has not converged).
    """
    model, where = problem.model, problem.where
    motions = link_motions(model, where, acceleration)
    gradient, hessian = _gradient_and_hessian(problem, acceleration, motions)
    factors = factor(model, hessian)
    half = solve_upward(model, factors, sp.negative(gradient))
    half = with_slots(model, problem.slots, factors, acceleration, half)
    step = solve_downward(model, factors, half)
    slope = sp.dot(step, gradient)
    correction, curvature, changed = _line(problem, acceleration, step, motions)
    # Along the line the derivative at the full step is `correction`, the second derivative there is:
    curvature = sp.sub(curvature, slope)
    length = 1.0 - correction / sp.maximum(curvature, 1e-12)
    if any(row.loss is not None for row in problem.rows):
        length = _search(problem, acceleration, step, motions, slope, length)
    length = sp.clip(dr.select(changed, length, 1.0), 1e-3, 4.0)
    return [sp.fma(length, s, a) for s, a in zip(step, acceleration)], changed


@dataclass
class _Search:
    length: Scalar
    low: Scalar
    high: Scalar


def _search(
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
        first, second, _ = _line(problem, acceleration, part, motions)
        first = first / s.length + (1.0 - s.length) * slope
        second = second / (s.length * s.length) - slope
        low = dr.select(first < 0.0, s.length, s.low)
        high = dr.select(first < 0.0, s.high, s.length)
        new = s.length - first / sp.maximum(second, 1e-12)
        return _Search(dr.select((new > low) & (new < high), new, 0.5 * (low + high)), low, high)

    low, high = 1e-3 + 0.0 * slope, 4.0 + 0.0 * slope
    return repeat(10, refine, _Search(sp.clip(length, 1e-3, 4.0), low, high), like=slope).length


# Gradient and Hessian -------------------------------------------------------------------------------


def _gradient_and_hessian(
    problem: Problem, acceleration: Sequence[Scalar], motions: list[tuple]
) -> tuple[list[Scalar], TreeMatrix]:
    model, where = problem.model, problem.where
    gradient = [sp.sub(x, f) for x, f in zip(multiply(model, problem.mass, acceleration), problem.force)]
    hessian = dict(problem.mass)
    for row in problem.rows:
        _add_row(row, acceleration, gradient, hessian)
    if problem.cones:
        force = [sp.ZERO6] * len(model.links)
        stiffness = [sp.ZERO21] * len(model.links)
        for link, cones in problem.cones.items():
            force[link], stiffness[link] = _link_cones(cones, motions[link])
        gradient = [sp.sub(g, f) for g, f in zip(gradient, project_forces(model, where, force))]
        _add_stiffness(model, where, stiffness, set(problem.cones), hessian)
    for slot in problem.slots:
        change = slot_gradient(slot, acceleration)
        gradient = list(sp.plus(gradient, change))
    return gradient, hessian


def _add_row(row: Row, acceleration: Sequence[Scalar], gradient: list[Scalar], hessian: TreeMatrix) -> None:
    x = sp.dot(row.direction, [acceleration[d] for d in row.dofs], row.offset)
    push, stiffness = row_force(row, x)
    for k, d in enumerate(row.dofs):
        gradient[d] = sp.fma(row.direction[k], push, gradient[d])
        along = sp.mul(row.direction[k], stiffness)
        for j, e in enumerate(row.dofs[: k + 1]):
            hessian[d, e] = sp.fma(along, row.direction[j], hessian[d, e])


def row_force(row: Row, x: Scalar) -> tuple[Scalar, Scalar]:
    """The derivative of a row's cost, and its second derivative."""
    if row.loss is None:
        stiffness = dr.select(x < 0.0, row.stiffness, 0.0)
        return stiffness * x, stiffness
    push = row.stiffness * x
    inside = dr.abs(push) < row.loss
    return sp.clip(push, -row.loss, row.loss), dr.select(inside, row.stiffness, 0.0)


def _link_cones(cones: list[Cone], motion: tuple) -> tuple[tuple, tuple]:
    """The spatial force and stiffness of all contacts of a link; skipped where none of them touches."""

    def compute() -> tuple:
        force, stiffness = sp.ZERO6, sp.ZERO21
        for cone in cones:
            f, k = _cone_force(cone, motion)
            force = sp.plus(force, sp.point_force(f, cone.point))
            stiffness = sp.plus(stiffness, sp.point_stiffness(k, cone.point))
        return (*force, *stiffness)

    result = when(_any_touching(cones), compute, 27, cones[0].stiffness)
    return tuple(result[:6]), tuple(result[6:])


def _any_touching(cones: list[Cone]) -> Scalar:
    touching = cones[0].touching
    for cone in cones[1:]:
        touching = touching | cone.touching
    return touching


def cone_rows(cone: Cone, motion: Sequence[Scalar]) -> list[Scalar]:
    """Accelerations along the normal and the (scaled) tangents, from their references."""
    at = sp.point_velocity(motion, cone.point)
    return [sp.dot(axis, at, offset) for axis, offset in zip((cone.normal, *cone.tangents), cone.offsets)]


def _cone_force(cone: Cone, motion: Sequence[Scalar]) -> tuple[tuple, tuple]:
    """The contact force, and its symmetric 3 x 3 stiffness (xx, xy, yy, xz, yz, zz)."""
    normal, *along = cone_rows(cone, motion)
    if not cone.tangents:
        stiffness = dr.select(normal < 0.0, cone.stiffness, 0.0)
        return sp.scaled(-stiffness * normal, cone.normal), _outer(sp.scaled(stiffness, cone.normal), cone.normal)
    total_force, total_stiffness = 0.0, 0.0
    force, coupling, mixed = sp.ZERO3, sp.ZERO3, (0.0,) * 6
    for tangent, t in zip(cone.tangents, along):
        plus, minus = normal + t, normal - t
        k_plus, k_minus = (dr.select(x < 0.0, cone.stiffness, 0.0) for x in (plus, minus))
        f_plus, f_minus = -k_plus * plus, -k_minus * minus
        both = k_plus + k_minus
        total_force = sp.add(total_force, f_plus + f_minus)
        total_stiffness = sp.add(total_stiffness, both)
        force = sp.scaled(f_plus - f_minus, tangent, force)
        coupling = sp.scaled(k_plus - k_minus, tangent, coupling)
        mixed = sp.plus(mixed, _outer(sp.scaled(both, tangent), tangent))
    force = sp.scaled(total_force, cone.normal, force)
    # n (k n + c)^T + c n^T, symmetric as a whole.
    heavy = sp.scaled(total_stiffness, cone.normal, coupling)
    n, c = cone.normal, coupling
    for index, (i, j) in enumerate(((0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2))):
        entry = sp.fma(n[i], heavy[j], sp.fma(c[i], n[j], mixed[index]))
        mixed = (*mixed[:index], entry, *mixed[index + 1 :])
    return force, mixed


def _outer(a: Sequence[Scalar], b: Sequence[Scalar]) -> tuple:
    return tuple(sp.mul(a[i], b[j]) for i, j in ((0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)))


def _add_stiffness(
    model: Model, where: Pose, stiffness: list[tuple], touched: set[int], hessian: TreeMatrix
) -> None:
    """Carry the stiffness of links up the tree and project it on the joint axes."""
    for index in range(len(model.links) - 1, 0, -1):
        parent = model.links[index].parent
        if index in touched and parent > 0:
            stiffness[parent] = sp.plus(stiffness[parent], stiffness[index])
            touched.add(parent)
    for i, dof in enumerate(model.dofs):
        if dof.link in touched:
            force = sp.symmetric6_times(stiffness[dof.link], where.axes[i])
            for j in (i, *dof.ancestors):
                hessian[i, j] = sp.dot(where.axes[j], force, hessian[i, j])


# Along the line -------------------------------------------------------------------------------------


def _line(
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
            a, b, c = _line_cones(cones, motions[link], moved[link])
            first, second, changed = sp.add(first, a), sp.add(second, b), changed | (c > 0.0)
    for slot in problem.slots:
        a, b, c = _line_slot(slot, acceleration, step)
        first, second, changed = sp.add(first, a), sp.add(second, b), changed | (c > 0.0)
    return first, second, changed


def _line_slot(slot: Slot, acceleration: Sequence[Scalar], step: Sequence[Scalar]) -> list[Scalar]:
    def compute() -> tuple:
        rows = slot_components(slot, acceleration, True)
        return _line_edges(slot.stiffness, rows, slot_components(slot, step, False))

    return when(slot.used, compute, 3, slot.stiffness)


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


def _line_cones(cones: list[Cone], motion: tuple, moved: tuple) -> list[Scalar]:
    def compute() -> tuple:
        sums: tuple = (0.0, 0.0, 0.0)
        for cone in cones:
            at = sp.point_velocity(moved, cone.point)
            steps = [sp.dot(axis, at) for axis in (cone.normal, *cone.tangents)]
            sums = sp.plus(sums, _line_edges(cone.stiffness, cone_rows(cone, motion), steps))
        return sums

    return when(_any_touching(cones), compute, 3, cones[0].stiffness)


def cone_edges(values: Sequence[Scalar]) -> list[Scalar]:
    """Normal and tangential components as components along the edges of the pyramid."""
    normal, *tangential = values
    if not tangential:
        return [normal]
    return [edge for t in tangential for edge in (normal + t, normal - t)]
