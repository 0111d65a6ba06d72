"""Equality constraints as rows of the solver: joints and tendons tied to each other, points and frames of links too."""

from __future__ import annotations

from collections.abc import Sequence

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.constraints import Row, impedance, row_stiffness, safe_timestep
from slipstream.physics.kinematics import Motion, Pose, link_quaternion
from slipstream.physics.model import BodyEquality, CurveEquality, Model
from slipstream.physics.pairs import standard_reference
from slipstream.physics.spatial import Scalar
from slipstream.physics.tendons import Path, chain_of, tendon_path


def equality_rows(
    model: Model, where: Pose, moving: Motion, qpos: Sequence[Scalar], qvel: Sequence[Scalar]
) -> list[Row]:
    rows: list[Row] = []
    for equality in model.equalities:
        if isinstance(equality, CurveEquality):
            rows.append(_curve_row(model, equality, where, qpos, qvel))
        else:
            rows += _tie_rows(model, equality, where, moving, qpos, qvel)
    return rows


def _row(
    model: Model,
    equality: CurveEquality | BodyEquality,
    pulls: dict[int, Scalar],
    residual: Scalar,
    violation: Scalar,
    weight: float,
    qvel: Sequence[Scalar],
    drift: Scalar = 0.0,
) -> Row:
    """A row that holds a residual at zero.

    Args:
        violation: how far it is off, all rows of the equality together.
        drift: the acceleration of the residual where no degree of freedom accelerates.
    """
    dofs = tuple(sorted(pulls))
    direction = tuple(pulls[d] for d in dofs)
    stiffness, damping = standard_reference(equality.solref, equality.solimp, safe_timestep(model))
    strength = impedance(equality.solimp, violation)
    speed = sp.dot(direction, [qvel[d] for d in dofs])
    offset = sp.add(sp.fma(damping, speed, sp.mul(stiffness, sp.mul(strength, residual))), drift)
    return Row(dofs, direction, offset, row_stiffness(weight, strength), is_equality=True)


def _curve_row(
    model: Model, equality: CurveEquality, where: Pose, qpos: Sequence[Scalar], qvel: Sequence[Scalar]
) -> Row:
    def path(index: int) -> Path:
        if equality.is_tendon:
            return tendon_path(model, model.tendons[index], qpos, where)
        joint = model.joints[index]
        return Path(qpos[joint.qpos], (joint.dof,), (1.0,))

    one = path(equality.one)
    pulls: dict[int, Scalar] = dict(zip(one.dofs, one.pulls))
    residual = sp.sub(one.length, equality.references[0])
    wanted, slope = equality.polynomial[0], 0.0
    if equality.two >= 0:
        two = path(equality.two)
        x = sp.sub(two.length, equality.references[1])
        wanted = 0.0
        for coefficient in reversed(equality.polynomial):
            slope = sp.fma(slope, x, wanted)
            wanted = sp.fma(wanted, x, coefficient)
        for d, pull in zip(two.dofs, two.pulls):
            pulls[d] = sp.sub(pulls.get(d, 0.0), sp.mul(slope, pull))
    residual = sp.sub(residual, wanted)
    return _row(model, equality, pulls, residual, residual, equality.weight, qvel)


def _tie_rows(
    model: Model,
    equality: BodyEquality,
    where: Pose,
    moving: Motion,
    qpos: Sequence[Scalar],
    qvel: Sequence[Scalar],
) -> list[Row]:
    (one, two), chains = equality.links, [chain_of(model, link) for link in equality.links]
    points = [sp.rotate(where.rotation[k], p, where.position[k]) for k, p in zip(equality.links, equality.points)]
    apart = sp.minus(points[0], points[1])
    if where.origin[one] is not where.origin[two]:
        apart = sp.plus(apart, sp.minus(where.origin[one], where.origin[two]))
    motions: dict[int, tuple] = {}  # by dof: how the first frame turns and moves against the second
    for sign, chain, point in ((1.0, chains[0], points[0]), (-1.0, chains[1], points[1])):
        for d in chain:
            motion = (*where.axes[d][:3], *sp.point_velocity(where.axes[d], point))
            motions[d] = sp.scaled(sign, motion, motions.get(d, sp.ZERO6))
    residuals, columns = list(apart), {d: list(motion[3:]) for d, motion in motions.items()}
    drifts = list(sp.minus(*(_point_drift(model, moving, k, p) for k, p in zip(equality.links, points))))
    if equality.frames is not None:
        left, right = _frames(model, equality, qpos)
        scale = equality.torque_scale

        def turn(rate: tuple) -> list[Scalar]:
            product = sp.quaternion_product(sp.quaternion_product(left, rate), right)
            return [sp.mul(0.5 * scale, x) for x in product[1:]]

        residuals += [sp.mul(scale, x) for x in sp.quaternion_product(left, right)[1:]]
        for d, motion in motions.items():
            columns[d] += turn((0.0, *motion[:3]))
        spins = [(0.0, *moving.velocity[k][:3]) for k in equality.links]
        rate = sp.minus(*((0.0, *link_drift(model, moving, k)[:3]) for k in equality.links))
        relative = sp.minus(*spins)
        rate = sp.plus(rate, sp.scaled(0.5, sp.quaternion_product(relative, spins[0])))
        rate = sp.minus(rate, sp.scaled(0.5, sp.quaternion_product(spins[1], relative)))
        drifts += turn(rate)
    violation = dr.sqrt(sp.dot(residuals, residuals))
    return [
        _row(
            model,
            equality,
            {d: column[k] for d, column in columns.items()},
            residual,
            violation,
            equality.weights[0 if k < 3 else 1],
            qvel,
            drifts[k],
        )
        for k, residual in enumerate(residuals)
    ]


def link_drift(model: Model, moving: Motion, link: int) -> tuple:
    """The spatial acceleration of a link where no degree of freedom accelerates."""
    total = sp.ZERO6
    while link > 0:
        total = sp.plus(total, moving.drift[link])
        link = model.links[link].parent
    return total


def _point_drift(model: Model, moving: Motion, link: int, point: tuple) -> tuple:
    """The same of a point of it."""
    velocity = moving.velocity[link]
    turned = sp.cross(velocity[:3], sp.point_velocity(velocity, point))
    return sp.plus(sp.point_velocity(link_drift(model, moving, link), point), turned)


def _frames(model: Model, equality: BodyEquality, qpos: Sequence[Scalar]) -> tuple[tuple, tuple]:
    """The inverse quaternion of the second frame, and the quaternion of the first."""
    assert equality.frames is not None
    first, second = (
        sp.quaternion_product(link_quaternion(model, qpos, link), quat)
        for link, quat in zip(equality.links, equality.frames)
    )
    w, x, y, z = second
    return (w, *sp.negative((x, y, z))), first
