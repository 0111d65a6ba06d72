"""Motors: the forces they make, and the activations some of them have."""

from __future__ import annotations

import math
from collections.abc import Sequence

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.kinematics import Pose
from slipstream.physics.model import Activation, Actuator, Model
from slipstream.physics.spatial import Scalar
from slipstream.physics.tendons import Path, tendon_path


def actuator_forces(
    model: Model,
    qpos: Sequence[Scalar],
    qvel: Sequence[Scalar],
    ctrl: Sequence[Scalar],
    act: Sequence[Scalar] = (),
    where: Pose | None = None,
) -> list[Scalar]:
    """MuJoCo's actuator_force: nu scalars.

    Args:
        act: na scalars, for models whose actuators have activations.
        where: the pose at qpos, if it is known already.
    """
    return _limited_by_tendons(model, _own_forces(model, qpos, qvel, ctrl, act, where))[0]


def _own_forces(
    model: Model,
    qpos: Sequence[Scalar],
    qvel: Sequence[Scalar],
    ctrl: Sequence[Scalar],
    act: Sequence[Scalar],
    where: Pose | None,
) -> list[Scalar]:
    return [
        _force(a, transmission(model, a, qpos, where), qvel, actuator_input(model, a, u, act))
        for a, u in zip(model.actuators, ctrl)
    ]


def _limited_by_tendons(model: Model, own: Sequence[Scalar]) -> tuple[list[Scalar], dict[int, Scalar]]:
    """All actuators of a tendon are scaled down together where their sum is beyond its limits.

    Returns:
        The forces, and by tendon a mask of the worlds where its limit acts.
    """
    forces, beyond = list(own), {}
    for t, tendon in enumerate(model.tendons):
        (low, high), pulling = tendon.force_range, [i for i, a in enumerate(model.actuators) if a.tendon == t]
        if pulling and math.isfinite(low):
            total = sp.sum_of(forces[i] for i in pulling)
            beyond[t] = (total < low) | (total > high)
            scale = dr.select(beyond[t], sp.clip(total, low, high) / dr.select(beyond[t], total, 1.0), 1.0)
            for i in pulling:
                forces[i] = forces[i] * scale
    return forces, beyond


def transmission(model: Model, actuator: Actuator, qpos: Sequence[Scalar], where: Pose | None = None) -> Path:
    """What an actuator pulls on, its gear included."""
    gear = actuator.gear
    if actuator.tendon < 0:
        joint = model.joints[actuator.joint]
        return Path(sp.mul(gear, qpos[joint.qpos]), (joint.dof,), (gear,))
    path = tendon_path(model, model.tendons[actuator.tendon], qpos, where)
    return Path(sp.mul(gear, path.length), path.dofs, sp.scaled(gear, path.pulls))


def actuator_input(model: Model, actuator: Actuator, ctrl: Scalar, act: Sequence[Scalar]) -> Scalar:
    """What the gain is multiplied with."""
    control, state = sp.clip(ctrl, *actuator.ctrl_range), actuator.activation
    if state is None:
        return control
    return next_activation(model, state, control, act[state.address]) if state.early else act[state.address]


def activation_rate(state: Activation, control: Scalar, act: Scalar) -> Scalar:
    """MuJoCo's act_dot."""
    return control if state.kind == "integrator" else sp.mul(1.0 / state.time, sp.sub(control, act))


def next_activation(
    model: Model, state: Activation, control: Scalar, act: Scalar, rate: Scalar | None = None
) -> Scalar:
    """The activation after a time step.

    Args:
        rate: how fast it changes, unless that follows from the control.
    """
    h = model.options.timestep
    rate = activation_rate(state, control, act) if rate is None else rate
    reach = state.time * (1.0 - math.exp(-h / state.time)) if state.kind == "filterexact" else h
    return sp.clip(sp.fma(reach, rate, act), *state.range)


def advance_activations(
    model: Model, ctrl: Sequence[Scalar], act: Sequence[Scalar], rates: Sequence[Scalar] | None = None
) -> list[Scalar]:
    """All activations after a time step; na scalars."""
    result = list(act)
    for actuator, u in zip(model.actuators, ctrl):
        state = actuator.activation
        if state is not None:
            k = state.address
            rate = None if rates is None else rates[k]
            result[k] = next_activation(model, state, sp.clip(u, *actuator.ctrl_range), act[k], rate)
    return result


def activation_rates(model: Model, ctrl: Sequence[Scalar], act: Sequence[Scalar]) -> list[Scalar]:
    rates = list(act)
    for actuator, u in zip(model.actuators, ctrl):
        state = actuator.activation
        if state is not None:
            rates[state.address] = activation_rate(state, sp.clip(u, *actuator.ctrl_range), act[state.address])
    return rates


def _force(actuator: Actuator, path: Path, qvel: Sequence[Scalar], control: Scalar) -> Scalar:
    state = (1.0, path.length, path.speed(qvel))
    gain = sp.dot(actuator.gain, state)
    return sp.clip(sp.fma(gain, control, sp.dot(actuator.bias, state)), *actuator.force_range)


def actuation(
    model: Model,
    qpos: Sequence[Scalar],
    forces: Sequence[Scalar],
    where: Pose | None = None,
    carried: Sequence[Scalar] | None = None,
) -> list[Scalar]:
    """MuJoCo's qfrc_actuator: nv scalars.

    Args:
        carried: the generalised forces that compensate for gravity. Some joints let their actuators do that.
    """
    result = _unlimited(model, qpos, forces, where)
    for joint in model.joints:
        for d in joint.dofs:
            if carried is not None and joint.carried_by_actuators:
                result[d] = sp.add(result[d], carried[d])
        if joint.kind in ("slide", "hinge"):
            result[joint.dof] = sp.clip(result[joint.dof], *joint.force_range)
    return result


def _unlimited(model: Model, qpos: Sequence[Scalar], forces: Sequence[Scalar], where: Pose | None) -> list[Scalar]:
    result: list[Scalar] = [0.0] * model.nv
    for actuator, force in zip(model.actuators, forces):
        path = transmission(model, actuator, qpos, where)
        for d, pull in zip(path.dofs, path.pulls):
            result[d] = sp.fma(pull, force, result[d])
    return result


Slopes = list[tuple[Path, Scalar]]
"""Combinations of degrees of freedom, and how fast the force along each falls with its velocity."""


def actuator_damping(
    model: Model,
    qpos: Sequence[Scalar],
    qvel: Sequence[Scalar],
    ctrl: Sequence[Scalar],
    act: Sequence[Scalar] = (),
    where: Pose | None = None,
    carried: Sequence[Scalar] | None = None,
) -> Slopes:
    """How fast actuator forces fall with the velocity; not at all where a force is clamped."""
    forces, beyond = _limited_by_tendons(model, _own_forces(model, qpos, qvel, ctrl, act, where))
    totals = actuation(model, qpos, forces, where, carried)
    slopes: Slopes = []
    for actuator, force, u in zip(model.actuators, forces, ctrl):
        path = transmission(model, actuator, qpos, where)
        slope = sp.fma(actuator.gain[2], actuator_input(model, actuator, u, act), actuator.bias[2])
        if sp.is_constant(slope) and slope == 0.0:
            continue
        limits = [(force, actuator.force_range)]
        if actuator.tendon < 0:
            joint = model.joints[actuator.joint]
            limits.append((totals[joint.dof], joint.force_range))
        for value, (low, high) in limits:
            if math.isfinite(low):
                slope = dr.select((value <= low) | (value >= high), 0.0, slope)
        if actuator.tendon in beyond:
            slope = dr.select(beyond[actuator.tendon], 0.0, slope)
        slopes.append((path, sp.sub(0.0, slope)))
    return slopes
