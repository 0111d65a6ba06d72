"""One step of the physics, as a recipe that reads top to bottom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.collision import external_contacts
from slipstream.physics.constraints import contact_cone, joint_rows
from slipstream.physics.dynamics import bias_forces, link_inertias, mass_matrix
from slipstream.physics.forces import actuation, actuator_forces, joint_forces, link_forces
from slipstream.physics.integrate import advance_positions, damped_accelerations
from slipstream.physics.kinematics import motion, pose
from slipstream.physics.model import Model
from slipstream.physics.selfcontact import find_slots
from slipstream.physics.solver import Problem, solve_accelerations
from slipstream.physics.spatial import Scalar


@dataclass
class State:
    """A robot in every world: one array per number."""

    qpos: list[Scalar]  # nq
    qvel: list[Scalar]  # nv
    qacc: list[Scalar]  # nv, of the last step: where the solver starts


@dataclass
class Parameters:
    """What may differ between worlds. What is left out is a constant of the kernel."""

    gravity: Sequence[Scalar] | None = None
    friction: Scalar = 1.0  # factor on every friction coefficient
    mass: Mapping[int, Scalar] = field(default_factory=dict)  # factor on mass and inertia, by link


def initial_state(model: Model, kind: type) -> State:
    """The model's default pose at rest, as wide as whatever it meets first."""
    zeros = [kind(0.0) for _ in range(model.nv)]
    return State([kind(q) for q in model.qpos0], zeros, list(zeros))


LARGEST_NUMBER = 1e10
"""MuJoCo's own bound on what a coordinate or velocity can be."""


def is_bad(state: State) -> Scalar:
    """A mask of the worlds whose state is not finite or absurdly large."""
    total = 0.0
    for value in (*state.qpos, *state.qvel, *state.qacc):
        total = sp.maximum(sp.mul(1.0, dr.abs(value)), total)
    finite = 0.0
    for value in (*state.qpos, *state.qvel, *state.qacc):
        finite = sp.add(finite, value - value)
    return ~((total < LARGEST_NUMBER) & (finite == 0.0))


def build_problem(
    model: Model,
    qpos: Sequence[Scalar],
    qvel: Sequence[Scalar],
    ctrl: Sequence[Scalar],
    pushes: Mapping[int, Sequence[Scalar]],
    parameters: Parameters,
) -> Problem:
    where = pose(model, qpos)
    moving = motion(model, where, qvel)
    scales = [parameters.mass.get(i, 1.0) for i in range(len(model.links))]
    inertias = link_inertias(model, where, scales)
    mass = mass_matrix(model, where, inertias)
    gravity = parameters.gravity or model.options.gravity
    bias = bias_forces(model, where, moving, inertias, gravity, link_forces(model, where, moving, pushes))
    passive = joint_forces(model, qpos, qvel)
    driven = actuation(model, actuator_forces(model, qpos, qvel, ctrl))
    force = [sp.sub(sp.add(p, a), b) for p, a, b in zip(passive, driven, bias)]
    cones: dict[int, list] = {}
    for contact in external_contacts(model, where):
        velocity = sp.point_velocity(moving.velocity[contact.link], contact.point)
        cones.setdefault(contact.link, []).append(contact_cone(model, contact, velocity, parameters.friction))
    slots, dropped = find_slots(model, where, qvel, parameters.friction)
    return Problem(model, where, mass, force, joint_rows(model, qpos, qvel), cones, slots, dropped)


def substep(model: Model, state: State, ctrl: Sequence[Scalar], pushes: Any, parameters: Parameters) -> State:
    problem = build_problem(model, state.qpos, state.qvel, ctrl, pushes, parameters)
    qacc = solve_accelerations(problem, state.qacc)
    step = damped_accelerations(model, problem.mass, qacc)
    qvel = [sp.fma(model.options.timestep, a, v) for a, v in zip(step, state.qvel)]
    qpos = advance_positions(model, state.qpos, qvel, model.options.timestep)
    return State(qpos, qvel, qacc)


def step(
    model: Model,
    state: State,
    ctrl: Sequence[Scalar],
    *,
    substeps: int = 1,
    pushes: Mapping[int, Sequence[Scalar]] | None = None,
    parameters: Parameters | None = None,
) -> State:
    pushes, parameters = pushes or {}, parameters or Parameters()

    def body(qpos: list, qvel: list, qacc: list, left: Scalar) -> tuple:
        new = substep(model, State(qpos, qvel, qacc), ctrl, pushes, parameters)
        return new.qpos, new.qvel, new.qacc, left - 1

    if substeps == 1:
        return substep(model, state, ctrl, pushes, parameters)
    count = dr.uint32_array_t(type(state.qpos[0]))(substeps) if not isinstance(state.qpos[0], float) else substeps
    qpos, qvel, qacc, _ = dr.while_loop(
        (list(state.qpos), list(state.qvel), list(state.qacc), count), lambda qpos, qvel, qacc, left: left > 0, body,
        label="substeps",
    )
    return State(qpos, qvel, qacc)
