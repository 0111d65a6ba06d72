"""The equations of motion of a tree: mass matrix, bias forces, and the sparse factorisation.

A symmetric matrix with the sparsity of the tree is a dict {(i, j): scalar} over degrees of freedom, j being
i itself or an ancestor of i.
"""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.physics import spatial as sp
from slipstream.physics.kinematics import Motion, Pose
from slipstream.physics.model import Model
from slipstream.physics.spatial import Scalar

TreeMatrix = dict[tuple[int, int], Scalar]


def link_inertias(model: Model, where: Pose, mass_scale: Sequence[Scalar] | None = None) -> list[tuple]:
    """The spatial inertia of every link about its tree's reference point: (mass, 3 moments, 6 moments).

    Args:
        mass_scale: one factor per link, for domain randomisation.
    """
    result = [(0.0,) * 10]
    for index, link in enumerate(model.links[1:], start=1):
        factor = 1.0 if mass_scale is None else mass_scale[index]
        mass = sp.mul(factor, link.mass)
        com = sp.rotate(where.rotation[index], link.com, where.position[index])
        axes = sp.matmul(where.rotation[index], sp.quaternion_matrix(link.inertia_quat))
        first = sp.scaled(mass, com)
        second = _second_moments(axes, sp.scaled(factor, link.inertia), com, first)
        result.append((mass, *first, *second))
    return result


def _second_moments(axes: tuple, principal: Sequence[Scalar], com: tuple, first: tuple) -> tuple:
    """(xx, xy, yy, xz, yz, zz) of the rotational inertia about the reference point.

    With J = p_0 1 + sum_k (p_k - p_0) a_k a_k^T only two of the three axes are needed.
    """
    base = principal[0]
    one, two = sp.sub(principal[1], base), sp.sub(principal[2], base)
    a, b = sp.column(axes, 1), sp.column(axes, 2)
    a1, b2 = sp.scaled(one, a), sp.scaled(two, b)
    x, y, z = com
    hx, hy, hz = first

    def moment(i: int, j: int, start: Scalar) -> Scalar:
        return sp.fma(a1[i], a[j], sp.fma(b2[i], b[j], start))

    xx, yy, zz = sp.mul(x, hx), sp.mul(y, hy), sp.mul(z, hz)
    return (
        moment(0, 0, sp.add(base, sp.add(yy, zz))),
        moment(1, 0, sp.sub(0.0, sp.mul(x, hy))),
        moment(1, 1, sp.add(base, sp.add(xx, zz))),
        moment(2, 0, sp.sub(0.0, sp.mul(x, hz))),
        moment(2, 1, sp.sub(0.0, sp.mul(y, hz))),
        moment(2, 2, sp.add(base, sp.add(xx, yy))),
    )


def mass_matrix(model: Model, where: Pose, inertias: Sequence[tuple]) -> TreeMatrix:
    """The composite rigid body algorithm."""
    composite = list(inertias)
    for index in range(len(model.links) - 1, 0, -1):
        parent = model.links[index].parent
        if parent > 0:
            composite[parent] = sp.plus(composite[parent], composite[index])
    result: TreeMatrix = {}
    for i, dof in enumerate(model.dofs):
        momentum = sp.inertia_times(composite[dof.link], where.axes[i])
        result[i, i] = sp.add(dof.armature, sp.dot(where.axes[i], momentum))
        for j in dof.ancestors:
            result[i, j] = sp.dot(where.axes[j], momentum)
    return result


def bias_forces(
    model: Model,
    where: Pose,
    moving: Motion,
    inertias: Sequence[tuple],
    gravity: Sequence[Scalar],
    applied: dict[int, tuple] | None = None,
) -> list[Scalar]:
    """Coriolis, centrifugal and gravitational forces, less external ones: recursive Newton-Euler.

    Args:
        applied: spatial forces on links, about the reference points.

    Returns:
        nv scalars, MuJoCo's qfrc_bias (minus the generalised force of `applied`).
    """
    acceleration = [(0.0, 0.0, 0.0, *sp.negative(gravity))]
    force: list[tuple] = [sp.ZERO6]
    for index, link in enumerate(model.links[1:], start=1):
        acceleration.append(sp.plus(acceleration[link.parent], moving.drift[index]))
        velocity = moving.velocity[index]
        momentum = sp.inertia_times(inertias[index], velocity)
        total = sp.plus(sp.inertia_times(inertias[index], acceleration[index]), sp.force_cross(velocity, momentum))
        if applied and index in applied:
            total = sp.minus(total, applied[index])
        force.append(total)
    return project_forces(model, where, force)


def project_forces(model: Model, where: Pose, force: list[tuple]) -> list[Scalar]:
    """Generalised forces of spatial forces on links. The list `force` is used up."""
    for index in range(len(model.links) - 1, 0, -1):
        parent = model.links[index].parent
        if parent > 0:
            force[parent] = sp.plus(force[parent], force[index])
    return [sp.dot(where.axes[d], force[dof.link]) for d, dof in enumerate(model.dofs)]


def link_motions(model: Model, where: Pose, qvel: Sequence[Scalar]) -> list[tuple]:
    """The spatial motion of every link under generalised velocities (or accelerations, or steps)."""
    result: list[tuple] = [sp.ZERO6]
    for link in model.links[1:]:
        total = result[link.parent]
        for d in link.dofs:
            total = sp.scaled(qvel[d], where.axes[d], total)
        result.append(total)
    return result


def factor(model: Model, matrix: TreeMatrix) -> Factors:
    """L^T D L of a positive definite tree matrix, with no fill-in.

    Returns:
        L (unit diagonal left out) and the inverse of D.
    """
    lower = dict(matrix)
    inverse: list[Scalar] = [0.0] * model.nv
    for k in range(model.nv - 1, -1, -1):
        inverse[k] = 1.0 / lower[k, k]
        chain = model.dofs[k].ancestors
        for position, i in enumerate(chain):
            ratio = sp.mul(lower[k, i], inverse[k])
            minus = sp.sub(0.0, ratio)
            for j in chain[position:]:
                lower[i, j] = sp.fma(minus, lower[k, j], lower[i, j])
            lower[k, i] = ratio
    return lower, inverse


Factors = tuple[TreeMatrix, list[Scalar]]


def solve(model: Model, factors: Factors, vector: Sequence[Scalar]) -> list[Scalar]:
    return solve_downward(model, factors, solve_upward(model, factors, vector))


def solve_upward(model: Model, factors: Factors, vector: Sequence[Scalar]) -> list[Scalar]:
    """L^-T x: from the leaves to the root."""
    lower, _ = factors
    x = list(vector)
    for i in range(model.nv - 1, -1, -1):
        minus = sp.sub(0.0, x[i])
        for j in model.dofs[i].ancestors:
            x[j] = sp.fma(lower[i, j], minus, x[j])
    return x


def solve_downward(model: Model, factors: Factors, vector: Sequence[Scalar]) -> list[Scalar]:
    """L^-1 D^-1 x: from the root to the leaves."""
    lower, inverse = factors
    x = [sp.mul(value, scale) for value, scale in zip(vector, inverse)]
    for i in range(model.nv):
        total = 0.0
        for j in model.dofs[i].ancestors:
            total = sp.fma(lower[i, j], x[j], total)
        x[i] = sp.sub(x[i], total)
    return x


def multiply(model: Model, matrix: TreeMatrix, vector: Sequence[Scalar]) -> list[Scalar]:
    result: list[Scalar] = [sp.mul(matrix[i, i], vector[i]) for i in range(model.nv)]
    for i, dof in enumerate(model.dofs):
        for j in dof.ancestors:
            result[i] = sp.fma(matrix[i, j], vector[j], result[i])
            result[j] = sp.fma(matrix[i, j], vector[i], result[j])
    return result
