"""Forces that do not depend on accelerations: springs, dampers, fluid, compensated gravity, and pushes from outside."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.dynamics import project_forces
from slipstream.physics.kinematics import Motion, Pose, unit_quaternion
from slipstream.physics.model import Body, Joint, Model
from slipstream.physics.spatial import Scalar


def joint_forces(model: Model, qpos: Sequence[Scalar], qvel: Sequence[Scalar]) -> list[Scalar]:
    """Springs and dampers of joints: nv scalars."""
    result = [sp.mul(-dof.damping, v) for dof, v in zip(model.dofs, qvel)]
    for joint in model.joints:
        if joint.stiffness != 0.0:
            for d, stretch in zip(joint.dofs, _stretch(joint, qpos)):
                result[d] = sp.fma(-joint.stiffness, stretch, result[d])
    return result


def _stretch(joint: Joint, qpos: Sequence[Scalar]) -> tuple:
    """How far a joint is from where its spring is at rest."""
    if joint.kind != "ball":
        return (sp.sub(qpos[joint.qpos], joint.spring_reference[0]),)
    w, x, y, z = joint.spring_reference
    return sp.quaternion_rotation_vector(sp.quaternion_product((w, -x, -y, -z), unit_quaternion(qpos, joint.qpos)))


def link_forces(model: Model, where: Pose, moving: Motion, pushes: Mapping[int, Sequence[Scalar]]) -> dict[int, tuple]:
    """Spatial forces on links from the fluid around them and from outside.

    Args:
        pushes: by body, a force and a torque at its centre of mass in the axes of the world (six scalars,
            MuJoCo's xfrc_applied).
    """
    forces: dict[int, tuple] = {}

    def apply(body: Body, force: tuple, torque: tuple) -> None:
        centre = _centre(where, body)
        spatial = (*sp.cross(centre, force, torque), *force)
        forces[body.link] = sp.plus(forces.get(body.link, sp.ZERO6), spatial)

    for index, push in pushes.items():
        apply(model.bodies[index], tuple(push[:3]), tuple(push[3:]))
    if model.options.density > 0 or model.options.viscosity > 0:
        for body in model.bodies:
            if body.link > 0 and body.mass > 1e-15:
                apply(body, *_fluid_force(model, where, moving, body))
    return forces


def carried_weight(
    model: Model, where: Pose, gravity: Sequence[Scalar], scales: Mapping[int, Scalar]
) -> list[Scalar] | None:
    """Generalised forces that compensate for the weight of some bodies, MuJoCo's qfrc_gravcomp; None without any.

    Args:
        scales: factors on the mass of links.
    """
    if not any(body.gravity_compensation and body.link for body in model.bodies):
        return None
    forces = [sp.ZERO6] * len(model.links)
    for body in model.bodies:
        if body.gravity_compensation and body.link:
            mass = sp.mul(-body.mass * body.gravity_compensation, scales.get(body.link, 1.0))
            push = sp.point_force(sp.scaled(mass, gravity), _centre(where, body))
            forces[body.link] = sp.plus(forces[body.link], push)
    return project_forces(model, where, forces)


def _centre(where: Pose, body: Body) -> tuple:
    local = sp.rotate(sp.quaternion_matrix(body.quat), body.com, body.pos)
    return sp.rotate(where.rotation[body.link], local, where.position[body.link])


def _fluid_force(model: Model, where: Pose, moving: Motion, body: Body) -> tuple[tuple, tuple]:
    """Drag on the box that has the inertia of a body: force and torque in the axes of the world."""
    options = model.options
    ix, iy, iz = body.inertia
    box = [math.sqrt(max(1e-15, s) / body.mass * 6.0) for s in (iy + iz - ix, ix + iz - iy, ix + iy - iz)]
    local = sp.matmul(sp.quaternion_matrix(body.quat), sp.quaternion_matrix(body.inertia_quat))
    axes = sp.matmul(where.rotation[body.link], local)
    velocity = moving.velocity[body.link]
    at_centre = sp.minus(sp.point_velocity(velocity, _centre(where, body)), options.wind)
    spin, speed = sp.rotate_back(axes, velocity[:3]), sp.rotate_back(axes, at_centre)
    diameter = sum(box) / 3.0
    torque = sp.scaled(-math.pi * diameter**3 * options.viscosity, spin)
    force = sp.scaled(-3.0 * math.pi * diameter * options.viscosity, speed)
    if options.density > 0:
        x, y, z = box
        faces = (y * z, x * z, x * y)
        arms = (x * (y**4 + z**4), y * (x**4 + z**4), z * (x**4 + y**4))
        force = tuple(
            sp.sub(f, 0.5 * options.density * face * _signed_square(v)) for f, face, v in zip(force, faces, speed)
        )
        torque = tuple(
            sp.sub(t, options.density / 64.0 * arm * _signed_square(w)) for t, arm, w in zip(torque, arms, spin)
        )
    return sp.rotate(axes, force), sp.rotate(axes, torque)


def _signed_square(x: Scalar) -> Scalar:
    return 0.0 if sp.is_constant(x) and x == 0.0 else dr.abs(x) * x
