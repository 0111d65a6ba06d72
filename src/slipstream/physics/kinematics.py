"""Where everything is and how it moves: one pass from the root to the leaves.

Positions are relative to the origin of the root link of their tree (in the axes of the world): float32
is then as accurate a kilometre from the world's origin as it is at it. The same point is the reference
point of all spatial vectors of the tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.model import Joint, Model
from slipstream.physics.spatial import Scalar


@dataclass
class Pose:
    """Positions that follow from qpos. Link 0 is the world."""

    origin: list[tuple]  # of the tree each link belongs to, in the world
    position: list[tuple]  # of each link, relative to `origin`
    rotation: list[tuple]  # of each link
    axes: list[tuple]  # spatial motion of each degree of freedom (six numbers)


@dataclass
class Motion:
    """Velocities that follow from qpos and qvel."""

    velocity: list[tuple]  # spatial velocity of each link
    drift: list[tuple] = field(default_factory=list)  # sum of axis_dot * qvel over the dofs of each link


def pose(model: Model, qpos: Sequence[Scalar]) -> Pose:
    """Forward kinematics.

    Args:
        qpos: nq scalars. Quaternions need not be normalised.
    """
    result = Pose([sp.ZERO3], [sp.ZERO3], [sp.IDENTITY], [sp.ZERO6] * model.nv)
    for index, link in enumerate(model.links):
        if index == 0:
            continue
        is_root = link.parent == 0
        rotation = sp.matmul(result.rotation[link.parent], sp.quaternion_matrix(link.quat))
        position = sp.rotate(result.rotation[link.parent], link.pos, result.position[link.parent])
        hinges = []
        for joint in link.joints:
            hinge, position, rotation = _apply(joint, qpos, position, rotation)
            hinges.append(hinge)
        origin = position if is_root else result.origin[link.root]
        for joint, (anchor, axes) in zip(link.joints, hinges):
            _set_axes(result.axes, joint, sp.minus(anchor, origin) if is_root else anchor, axes)
        result.origin.append(origin)
        result.position.append(sp.ZERO3 if is_root else position)
        result.rotation.append(rotation)
    return result


def unit_quaternion(qpos: Sequence[Scalar], start: int) -> tuple:
    return sp.normalized(tuple(qpos[start : start + 4]))


def _apply(joint: Joint, qpos: Sequence[Scalar], position: tuple, rotation: tuple) -> tuple:
    """Move a link by one of its joints.

    Returns:
        (the joint's anchor, its axes), both in the world; position; rotation.
    """
    if joint.kind == "free":
        position = tuple(qpos[joint.qpos : joint.qpos + 3])
        rotation = sp.quaternion_matrix(unit_quaternion(qpos, joint.qpos + 3))
        return (position, [sp.column(rotation, k) for k in range(3)]), position, rotation
    anchor = sp.rotate(rotation, joint.pos, position)
    if joint.kind == "slide":
        axis = sp.rotate(rotation, joint.axis)
        moved = sp.scaled(sp.sub(qpos[joint.qpos], joint.reference[0]), axis, position)
        return (anchor, [axis]), moved, rotation
    if joint.kind == "hinge":
        axis = sp.rotate(rotation, joint.axis)
        turn = sp.axis_rotation(joint.axis, sp.sub(qpos[joint.qpos], joint.reference[0]))
        rotation = sp.matmul(rotation, turn)
        axes = [axis]
    else:
        rotation = sp.matmul(rotation, sp.quaternion_matrix(unit_quaternion(qpos, joint.qpos)))
        axes = [sp.column(rotation, k) for k in range(3)]
    position = sp.minus(anchor, sp.rotate(rotation, joint.pos))
    return (anchor, axes), position, rotation


def _set_axes(table: list[tuple], joint: Joint, anchor: tuple, axes: Sequence[tuple]) -> None:
    if joint.kind == "slide":
        table[joint.dof] = (*sp.ZERO3, *axes[0])
        return
    first = joint.dof
    if joint.kind == "free":
        for k in range(3):
            table[first + k] = (*sp.ZERO3, *sp.IDENTITY[k])
        first += 3
    for k, axis in enumerate(axes):
        table[first + k] = (*axis, *sp.cross(anchor, axis))


def motion(model: Model, where: Pose, qvel: Sequence[Scalar]) -> Motion:
    """Spatial velocities of all links, and how their axes drift."""
    result = Motion([sp.ZERO6], [sp.ZERO6])
    for index, link in enumerate(model.links):
        if index == 0:
            continue
        velocity, drift = result.velocity[link.parent], sp.ZERO6
        for joint in link.joints:
            dofs = list(joint.dofs)
            if joint.kind == "free":  # translations do not drift, and come before all rotations
                for d in dofs[:3]:
                    velocity = sp.scaled(qvel[d], where.axes[d], velocity)
                dofs = dofs[3:]
            change = sp.ZERO6
            for d in dofs:
                change = sp.scaled(qvel[d], where.axes[d], change)
            drift = sp.plus(drift, sp.motion_cross(velocity, change))
            velocity = sp.plus(velocity, change)
        result.velocity.append(velocity)
        result.drift.append(drift)
    return result


def body_position(model: Model, where: Pose, body: int) -> tuple:
    """MuJoCo's xpos: where the frame of a body is, in the world."""
    b = model.bodies[body]
    return sp.plus(where.origin[b.link], sp.rotate(where.rotation[b.link], b.pos, where.position[b.link]))


def body_rotation(model: Model, where: Pose, body: int) -> tuple:
    """MuJoCo's xmat, as three rows."""
    b = model.bodies[body]
    return sp.matmul(where.rotation[b.link], sp.quaternion_matrix(b.quat))


def body_quaternion(model: Model, qpos: Sequence[Scalar], body: int) -> tuple:
    """MuJoCo's xquat (w, x, y, z)."""
    b = model.bodies[body]
    return sp.quaternion_product(link_quaternion(model, qpos, b.link), b.quat)


def link_quaternion(model: Model, qpos: Sequence[Scalar], index: int) -> tuple:
    if index == 0:
        return (1.0, 0.0, 0.0, 0.0)
    link = model.links[index]
    quat = sp.quaternion_product(link_quaternion(model, qpos, link.parent), link.quat)
    for joint in link.joints:
        if joint.kind == "free":
            quat = unit_quaternion(qpos, joint.qpos + 3)
        elif joint.kind == "ball":
            quat = sp.quaternion_product(quat, unit_quaternion(qpos, joint.qpos))
        elif joint.kind == "hinge":
            s, c = dr.sincos(0.5 * sp.sub(qpos[joint.qpos], joint.reference[0]))
            quat = sp.quaternion_product(quat, (c, *sp.scaled(s, joint.axis)))
    return quat


def body_velocity(model: Model, where: Pose, moving: Motion, body: int) -> tuple:
    """The velocity of a body's frame origin in the world: three angular, then three linear numbers.

    MuJoCo's `cvel` is the same motion with its linear part taken at the tree's centre of mass.
    """
    b = model.bodies[body]
    point = sp.rotate(where.rotation[b.link], b.pos, where.position[b.link])
    velocity = moving.velocity[b.link]
    return (*velocity[:3], *sp.point_velocity(velocity, point))


def centre_of_mass(model: Model, where: Pose, links: Sequence[int] | None = None) -> tuple:
    """The centre of mass of some links (all that move, unless told), in the world."""
    chosen = range(1, len(model.links)) if links is None else links
    total = sum(model.links[i].mass for i in chosen)
    centre = sp.ZERO3
    for i in chosen:
        link = model.links[i]
        point = sp.plus(where.origin[i], sp.rotate(where.rotation[i], link.com, where.position[i]))
        centre = sp.scaled(link.mass / total, point, centre)
    return centre
