"""MuJoCo's soft constraints as rows of the solver: impedance, reference acceleration, regularisation.

A row with the acceleration x along it, measured from its reference, pushes with -stiffness * x where x is
negative (limits and contacts), or with that force clamped to +-loss (dry friction in a joint).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.collision import Contact
from slipstream.physics.control import as_array
from slipstream.physics.kinematics import Pose, unit_quaternion
from slipstream.physics.model import Joint, Model, Tendon
from slipstream.physics.pairs import LARGEST_IMPEDANCE, SMALLEST_IMPEDANCE, standard_reference
from slipstream.physics.spatial import Scalar
from slipstream.physics.tendons import tendon_path


@dataclass
class Row:
    """A constraint on a combination of a few degrees of freedom: a limit, dry friction, or an equality."""

    dofs: tuple[int, ...]
    direction: tuple[Scalar, ...]
    offset: Scalar  # minus the reference acceleration
    stiffness: Scalar  # zero where the constraint does not exist
    loss: float | None = None  # dry friction: the largest force, on both sides
    is_equality: bool = False  # pushes and pulls

    def is_on_one_branch(self, model: Model) -> bool:
        """Whether its stiffness keeps the sparsity of the tree."""
        return set(self.dofs) <= {self.dofs[-1], *model.dofs[self.dofs[-1]].ancestors} if self.dofs else True


def row_force(row: Row, x: Scalar) -> tuple[Scalar, Scalar]:
    """The derivative of a row's cost, and its second derivative."""
    if row.is_equality:
        return row.stiffness * x, row.stiffness
    if row.loss is None:
        stiffness = dr.select(x < 0.0, row.stiffness, 0.0)
        return stiffness * x, stiffness
    push = row.stiffness * x
    inside = dr.abs(push) < row.loss
    return sp.clip(push, -row.loss, row.loss), dr.select(inside, row.stiffness, 0.0)


@dataclass
class Cone:
    """A contact's rows: one normal row (condim 1), the edges of a pyramid, or an elliptic cone."""

    link: int
    geom: int  # the one on the link
    against: int  # the geom that does not move
    point: tuple
    normal: tuple
    tangents: tuple  # scaled by the friction coefficient; empty without friction
    offsets: tuple  # minus the reference acceleration along the normal, the tangents and the spins
    stiffness: Scalar
    touching: Scalar  # mask: does the contact exist
    spins: tuple = ()  # axes of torsional and rolling friction, scaled
    mu: Scalar | None = None  # of an elliptic cone

    @property
    def is_plain(self) -> bool:
        """Whether it is a pyramid without torques."""
        return not self.spins and (self.mu is None or not self.tangents)


def impedance(solimp: Sequence[float], violation: Scalar) -> Scalar:
    """MuJoCo's d(r): how strongly a constraint acts at a (signed) violation."""
    low, high = (min(max(x, SMALLEST_IMPEDANCE), LARGEST_IMPEDANCE) for x in solimp[:2])
    width, middle, power = (
        solimp[2],
        min(max(solimp[3], SMALLEST_IMPEDANCE), LARGEST_IMPEDANCE),
        max(1.0, solimp[4]),
    )
    if low == high or width <= 1e-15:
        return 0.5 * (low + high)
    x = sp.minimum(dr.abs(violation) * (1.0 / width), 1.0)
    if power == 1.0:
        y = x
    else:
        below = _power(x, power) * (1.0 / middle ** (power - 1.0))
        above = 1.0 - _power(1.0 - x, power) * (1.0 / (1.0 - middle) ** (power - 1.0))
        y = dr.select(x <= middle, below, above)
    return sp.fma(y, high - low, low)


def _power(x: Scalar, power: float) -> Scalar:
    return x * x if power == 2.0 else dr.power(x, power)


def row_stiffness(weight: Scalar, strength: Scalar) -> Scalar:
    """1 / R with R = (1 - d) / d * weight."""
    return strength / (sp.maximum(weight, 1e-15) * (1.0 - strength))


def contact_cone(
    model: Model,
    contact: Contact,
    velocity: tuple,
    friction_scale: Scalar = 1.0,
    invweight: Scalar | None = None,
    spin: tuple = sp.ZERO3,
) -> Cone:
    """The rows of a contact.

    Args:
        velocity: the velocity of the contact's point.
        friction_scale: of this world.
        invweight: replaces the pair's own.
        spin: the angular velocity.
    """
    pair = contact.pair
    geom, against = (pair.geom1, pair.geom2) if pair.link2 == 0 else (pair.geom2, pair.geom1)
    invweight = pair.invweight if invweight is None else invweight
    stiffness, damping = standard_reference(pair.solref, pair.solimp, pair.safe_timestep)
    violation = sp.sub(contact.distance, pair.margin)
    strength = impedance(pair.solimp, violation)
    touching = violation < 0.0
    friction = sp.mul(pair.friction, friction_scale)
    tangents: tuple = ()
    spins = _spins(contact, friction_scale) if pair.condim > 3 else ()
    weight, mu = invweight, None
    if pair.condim > 1:
        first = sp.scaled(friction, contact.tangent)
        tangents = (first, sp.cross(contact.normal, first))
    if pair.condim > 1 and model.options.elliptic:
        mu = sp.mul(1.0 / math.sqrt(model.options.impratio), friction)
    elif pair.condim > 1:
        squared = sp.mul(friction, friction)
        # MuJoCo makes a pyramid as stiff as the elliptic cone with the regularised friction coefficient.
        regularised = sp.mul(2.0 / model.options.impratio, squared)
        weight = sp.mul(regularised, sp.fma(squared, invweight, invweight))
    offsets = [sp.fma(damping, sp.dot(contact.normal, velocity), sp.mul(stiffness, strength * violation))]
    offsets += [sp.mul(damping, sp.dot(tangent, velocity)) for tangent in tangents]
    offsets += [sp.mul(damping, sp.dot(axis, spin)) for axis in spins]
    return Cone(
        link=contact.link,
        geom=geom,
        against=against,
        point=contact.point,
        normal=contact.normal,
        tangents=tangents,
        offsets=tuple(offsets),
        stiffness=dr.select(touching, row_stiffness(weight, strength), 0.0),
        touching=touching,
        spins=spins,
        mu=mu,
    )


def _spins(contact: Contact, friction_scale: Scalar) -> tuple:
    """Axes of torsional friction, and of rolling friction for condim 6, scaled by their coefficients."""
    torsion, roll = (sp.mul(x, friction_scale) for x in contact.pair.spin_friction)
    axes = [sp.scaled(torsion, contact.normal)]
    if contact.pair.condim > 4:
        first = sp.scaled(roll, contact.tangent)
        axes += [first, sp.cross(contact.normal, first)]
    return tuple(axes)


def joint_rows(model: Model, where: Pose, qpos: Sequence[Scalar], qvel: Sequence[Scalar]) -> list[Row]:
    """Limits of joints and tendons, dry friction, and equalities."""
    rows = [row for joint in model.joints if joint.limited for row in _joint_limits(model, joint, qpos, qvel)]
    for tendon in model.tendons:
        if tendon.limited:
            path = tendon_path(model, tendon, qpos, where)
            rows += _interval(model, tendon, path.dofs, path.pulls, tendon.invweight, path.length, qvel)
    for d, dof in enumerate(model.dofs):
        if dof.friction_loss > 0:
            _, damping = standard_reference(dof.solref, dof.solimp, safe_timestep(model))
            stiffness = row_stiffness(dof.invweight, impedance(dof.solimp, 0.0))
            rows.append(Row((d,), (1.0,), damping * qvel[d], stiffness, dof.friction_loss))
    for tendon in model.tendons:
        if tendon.friction_loss > 0:
            path = tendon_path(model, tendon, qpos, where)
            _, damping = standard_reference(tendon.friction_solref, tendon.friction_solimp, safe_timestep(model))
            stiffness = row_stiffness(tendon.invweight, impedance(tendon.friction_solimp, 0.0))
            offset = sp.mul(damping, path.speed(qvel))
            rows.append(Row(path.dofs, path.pulls, offset, stiffness, tendon.friction_loss))
    return rows


def safe_timestep(model: Model) -> float:
    return model.options.timestep if model.options.safe_reference else 0.0


def _joint_limits(model: Model, joint: Joint, qpos: Sequence[Scalar], qvel: Sequence[Scalar]) -> list[Row]:
    weight = model.dofs[joint.dof].invweight
    if joint.kind != "ball":
        return _interval(model, joint, (joint.dof,), (1.0,), weight, qpos[joint.qpos], qvel)
    rotation = sp.quaternion_rotation_vector(unit_quaternion(qpos, joint.qpos))
    angle = dr.sqrt(sp.dot(rotation, rotation))
    inward = sp.scaled(-1.0 / sp.maximum(angle, 1e-12), rotation)
    return [_limit(model, joint, tuple(joint.dofs), inward, weight, max(joint.range) - angle, qvel)]


def _interval(
    model: Model,
    limit: Joint | Tendon,
    dofs: tuple[int, ...],
    direction: tuple,
    weight: float,
    length: Scalar,
    qvel: Sequence[Scalar],
) -> list[Row]:
    """The rows that keep a length in its range: one where only one end can be reached at a time."""
    low, high = limit.range
    below, above = length - low, high - length
    if high - low > 2.0 * limit.margin:
        lower = below < above
        side = dr.select(lower, as_array(1.0, length), as_array(-1.0, length))
        distance = dr.select(lower, below, above)
        return [_limit(model, limit, dofs, sp.scaled(side, direction), weight, distance, qvel)]
    return [
        _limit(model, limit, dofs, direction, weight, below, qvel),
        _limit(model, limit, dofs, sp.negative(direction), weight, above, qvel),
    ]


def _limit(
    model: Model,
    limit: Joint | Tendon,
    dofs: tuple[int, ...],
    direction: tuple,
    weight: float,
    distance: Scalar,
    qvel: Sequence[Scalar],
) -> Row:
    stiffness, damping = standard_reference(limit.solref, limit.solimp, safe_timestep(model))
    violation = sp.sub(distance, limit.margin)
    strength = impedance(limit.solimp, violation)
    speed = sp.dot(direction, [qvel[d] for d in dofs])
    return Row(
        dofs=dofs,
        direction=direction,
        offset=sp.fma(damping, speed, stiffness * strength * violation),
        stiffness=dr.select(violation < 0.0, row_stiffness(weight, strength), 0.0),
    )
