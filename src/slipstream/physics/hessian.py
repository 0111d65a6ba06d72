"""Gradient and Hessian of the problem.

Contacts with what does not move turn into a 6 x 6 stiffness on their link, which travels up the tree like a
composite inertia. The Hessian M + J^T D J therefore has the sparsity of M.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.cones import elliptic_modes, pyramid_modes
from slipstream.physics.constraints import Cone, Row, row_force
from slipstream.physics.control import when
from slipstream.physics.dynamics import TreeMatrix, multiply, project_forces
from slipstream.physics.kinematics import Pose
from slipstream.physics.model import Model
from slipstream.physics.problem import LinkValues, Problem, any_touching, cone_rows
from slipstream.physics.spatial import Scalar
from slipstream.physics.woodbury import slots_gradient


@dataclass
class Local:
    """The cost around some accelerations.

    Attributes:
        gradient: nv scalars.
        hessian: without the slots, and without rows that cross the tree.
        magnitude: what the diagonal of the Hessian was summed up of, nv scalars: its rounding is that of these.
        values: of the cones.
    """

    gradient: list[Scalar]
    hessian: TreeMatrix
    magnitude: list[Scalar]
    values: LinkValues


def gradient_and_hessian(problem: Problem, acceleration: Sequence[Scalar], motions: list[tuple]) -> Local:
    model, where = problem.model, problem.where
    gradient = [sp.sub(x, f) for x, f in zip(multiply(model, problem.mass, acceleration), problem.force)]
    hessian, values = dict(problem.mass), {}
    for row in problem.rows:
        _add_row(row, acceleration, gradient, hessian if row.is_on_one_branch(model) else None)
    magnitude = [hessian[d, d] for d in range(model.nv)]
    if problem.cones:
        force = [sp.ZERO6] * len(model.links)
        stiffness = [sp.ZERO21] * len(model.links)
        for link, cones in problem.cones.items():
            force[link], stiffness[link], values[link] = _link_cones(cones, motions[link], acceleration[0])
        gradient = [sp.sub(g, f) for g, f in zip(gradient, project_forces(model, where, force))]
        _add_stiffness(model, where, stiffness, set(problem.cones), hessian, magnitude)
    if problem.slots:
        gradient = list(sp.plus(gradient, slots_gradient(problem.slots, acceleration)))
    return Local(gradient, hessian, magnitude, values)


def _add_row(row: Row, acceleration: Sequence[Scalar], gradient: list[Scalar], hessian: TreeMatrix | None) -> None:
    x = sp.dot(row.direction, [acceleration[d] for d in row.dofs], row.offset)
    push, stiffness = row_force(row, x)
    for k, d in enumerate(row.dofs):
        gradient[d] = sp.fma(row.direction[k], push, gradient[d])
        along = sp.mul(row.direction[k], stiffness)
        if hessian is None:
            continue
        for j, e in enumerate(row.dofs[: k + 1]):
            hessian[d, e] = sp.fma(along, row.direction[j], hessian[d, e])


def _link_cones(cones: list[Cone], motion: tuple, like: Scalar) -> tuple[tuple, tuple, list]:
    """The spatial force and stiffness of all contacts of a link, and their values; skipped where none touches."""

    def compute() -> tuple:
        force, stiffness, values = sp.ZERO6, sp.ZERO21, []
        for cone in cones:
            rows = cone_rows(cone, motion)
            if cone.is_plain:
                f, k = _cone_force(cone, rows)
                force = sp.plus(force, sp.point_force(f, cone.point))
                stiffness = sp.plus(stiffness, sp.point_stiffness(k, cone.point))
            else:
                f, k = _modes_force(cone, rows)
                force, stiffness = sp.plus(force, f), sp.plus(stiffness, k)
            values += rows
        return (*force, *stiffness, *values)

    sizes = [1 + len(cone.tangents) + len(cone.spins) for cone in cones]
    result = when(any_touching(cones), compute, 27 + sum(sizes), like)
    rest = iter(result[27:])
    return tuple(result[:6]), tuple(result[6:27]), [[next(rest) for _ in range(size)] for size in sizes]


def _modes_force(cone: Cone, rows: Sequence[Scalar]) -> tuple[tuple, tuple]:
    """The spatial force of a contact, and its stiffness: the lower triangle of a 6 x 6 matrix."""
    if cone.mu is not None:
        components, modes = elliptic_modes(cone.stiffness, cone.mu, rows)
    else:
        components, modes = pyramid_modes([cone.stiffness] * (len(rows) - 1), rows)
    axes = [sp.point_force(axis, cone.point) for axis in (cone.normal, *cone.tangents)]
    axes += [(*spin, *sp.ZERO3) for spin in cone.spins]
    force, stiffness = sp.ZERO6, sp.ZERO21
    for component, axis in zip(components, axes):
        force = sp.scaled(component, axis, force)
    for k, direction in modes:
        along = sp.ZERO6
        for weight, axis in zip(direction, axes):
            along = sp.scaled(weight, axis, along)
        heavy = sp.scaled(k, along)
        entries = [sp.mul(heavy[i], along[j]) for i in range(6) for j in range(i + 1)]
        stiffness = sp.plus(stiffness, entries)
    return force, stiffness


def _cone_force(cone: Cone, rows: Sequence[Scalar]) -> tuple[tuple, tuple]:
    """The contact force, and its symmetric 3 x 3 stiffness (xx, xy, yy, xz, yz, zz)."""
    normal, *along = rows
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
    model: Model,
    where: Pose,
    stiffness: list[tuple],
    touched: set[int],
    hessian: TreeMatrix,
    magnitude: list[Scalar],
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
            # |axis|^T |stiffness| |axis|, or more: what is left of it in the Hessian may be little, say where the
            # axis goes through the contact.
            weights = [sp.absolute(x) for x in where.axes[i]]
            diagonal = [stiffness[dof.link][k * (k + 3) // 2] for k in range(6)]
            magnitude[i] = sp.fma(sp.sum_of(weights), sp.dot(weights, diagonal), magnitude[i])
