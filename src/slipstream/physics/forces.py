"""Forces that do not depend on accelerations: motors, springs, dampers, fluid, and pushes from outside."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.kinematics import Motion, Pose, unit_quaternion
from slipstream.physics.model import Actuator, Body, Joint, Model
from slipstream.physics.spatial import Scalar


def actuator_forces(
    model: Model, qpos: Sequence[Scalar], qvel: Sequence[Scalar], ctrl: Sequence[Scalar]
) -> list[Scalar]:
    """MuJoCo's actuator_force: nu scalars."""
    return [_actuator_force(model, a, qpos, qvel, u) for a, u in zip(model.actuators, ctrl)]


def _actuator_force(
    model: Model, actuator: Actuator, qpos: Sequence[Scalar], qvel: Sequence[Scalar], ctrl: Scalar
) -> Scalar:
    joint = model.joints[actuator.joint]
    length = sp.mul(actuator.gear, qpos[joint.qpos])
    velocity = sp.mul(actuator.gear, qvel[joint.dof])
    state = (1.0, length, velocity)
    gain = sp.dot(actuator.gain, state)
    force = sp.fma(gain, sp.clip(ctrl, *actuator.ctrl_range), sp.dot(actuator.bias, state))
    return sp.clip(force, *actuator.force_range)


def actuator_damping(
    model: Model, qpos: Sequence[Scalar], qvel: Sequence[Scalar], ctrl: Sequence[Scalar]
) -> list[Scalar]:
    """How fast actuator forces fall with the velocity: nv scalars, zero where a force is clamped."""
    result: list[Scalar] = [0.0] * model.nv
    forces = actuator_forces(model, qpos, qvel, ctrl)
    for actuator, force, u in zip(model.actuators, forces, ctrl):
        d = model.joints[actuator.joint].dof
        slope = sp.fma(actuator.gain[2], sp.clip(u, *actuator.ctrl_range), actuator.bias[2])
        low, high = actuator.force_range
        if math.isfinite(low) and not (sp.is_constant(slope) and slope == 0.0):
            slope = dr.select((force <= low) | (force >= high), 0.0, slope)
        result[d] = sp.fma(-(actuator.gear**2), slope, result[d])
    return result


def actuation(model: Model, forces: Sequence[Scalar]) -> list[Scalar]:
    """MuJoCo's qfrc_actuator: nv scalars."""
    result: list[Scalar] = [0.0] * model.nv
    for actuator, force in zip(model.actuators, forces):
        d = model.joints[actuator.joint].dof
        result[d] = sp.fma(actuator.gear, force, result[d])
    return result


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
