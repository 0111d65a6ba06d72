"""One step of the physics, as a recipe that reads top to bottom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.actuators import (
    activation_rates,
    actuation,
    actuator_damping,
    actuator_forces,
    advance_activations,
)
from slipstream.physics.collision import external_contacts
from slipstream.physics.constraints import contact_cone, joint_rows
from slipstream.physics.control import as_array, repeat, when
from slipstream.physics.dynamics import TreeMatrix, bias_forces, link_inertias, mass_matrix
from slipstream.physics.equalities import equality_rows
from slipstream.physics.felt import count_numbers, read_forces
from slipstream.physics.forces import carried_weight, joint_forces, link_forces
from slipstream.physics.integrate import add_damping, advance_positions, damped_accelerations, turning_rates
from slipstream.physics.kinematics import Pose, motion, pose
from slipstream.physics.model import Model
from slipstream.physics.precision import stiffness
from slipstream.physics.problem import Problem, touch_forces
from slipstream.physics.selfcontact import find_slots
from slipstream.physics.solver import Solution, solve_accelerations
from slipstream.physics.spatial import Scalar
from slipstream.physics.tendons import tendon_forces, tendon_path
from slipstream.physics.terrain import Terrain
from slipstream.physics.wrenches import wrenches_on_bodies


@dataclass
class State:
    """A robot in every world: one array per number."""

    qpos: list[Scalar]  # nq
    qvel: list[Scalar]  # nv
    qacc: list[Scalar]  # nv, of the last step; the solver starts there
    touch: list[Scalar]  # normal contact force on each of the model's touch sensors, newtons
    dropped: Scalar  # self-contacts left out since the start, for want of a slot
    measured: list[Scalar] = field(default_factory=list)  # what `step` was asked to measure
    act: list[Scalar] = field(default_factory=list)  # na, activations of actuators
    sensed: list[Scalar] = field(default_factory=list)  # what the sensors said that `step` was asked for


@dataclass
class Parameters:
    """What may differ between worlds. What is left out is a constant of the kernel.

    Attributes:
        gravity: three scalars.
        friction: a factor on every friction coefficient.
        mass: factors on the mass and inertia of links (everything welded to a body), by the link's number.
        terrain: the height fields, for models that stand on one.
        least_friction: the smallest factor on friction in any world. Low friction makes contacts stiff; a kernel that
            does not know how low it gets is prepared for everything, and slower.
    """

    gravity: Sequence[Scalar] | None = None
    friction: Scalar = 1.0
    mass: Mapping[int, Scalar] = field(default_factory=dict)
    terrain: Terrain | None = None
    least_friction: float | None = None

    @property
    def known_least_friction(self) -> float | None:
        return self.friction if sp.is_constant(self.friction) else self.least_friction


Pushes = Mapping[int, Sequence[Scalar]]
"""By body, a force and a torque at its centre of mass, in the axes of the world (MuJoCo's xfrc_applied)."""

Measure = Callable[[list[tuple]], Sequence[Scalar]]
"""A few numbers made of the wrenches of contacts on all bodies (see `contact_wrenches`)."""


def make_state(
    model: Model, qpos: Sequence[Scalar], qvel: Sequence[Scalar], act: Sequence[Scalar] | None = None
) -> State:
    """A state from coordinates and velocities; as wide as they are. Activations are zero unless given."""
    zero = 0.0 * qvel[0]
    activations = [zero] * model.na if act is None else list(act)
    return State(list(qpos), list(qvel), [zero] * model.nv, [zero] * len(model.touch), zero, act=activations)


def step(
    model: Model,
    state: State,
    ctrl: Sequence[Scalar],
    *,
    substeps: int = 1,
    pushes: Pushes | None = None,
    parameters: Parameters | None = None,
    measure: Measure | None = None,
    sensors: Sequence[str] = (),
) -> State:
    """Advance all worlds by `substeps` time steps with the same controls.

    Args:
        ctrl: nu scalars.
        measure: what to put in the new state's `measured`. Like MuJoCo's own, the wrenches it is given are those
            that the last evaluation of the dynamics saw: at the last stage of the last time step, not after it.
        sensors: names of sensors of forces and accelerations whose readings shall be in the new state's `sensed`, one
            after the other, as they were at the start of the last time step. (What follows from positions and
            velocities alone, `read_sensor` reads.)
    """
    if len(ctrl) != model.nu or len(state.qpos) != model.nq or len(state.qvel) != model.nv:
        raise ValueError(
            f"The model has {model.nq} qpos, {model.nv} qvel and {model.nu} ctrl; got {len(state.qpos)}, "
            f"{len(state.qvel)} and {len(ctrl)}."
        )
    if len(state.act) != model.na:
        raise ValueError(f"The model has {model.na} activations; the state has {len(state.act)} (see make_state).")
    given = _Given(model, ctrl, pushes or {}, parameters or Parameters(), measure, tuple(sensors))
    state = replace(state, measured=given.nothing_measured(), sensed=[0.0] * count_numbers(model, sensors))
    substep = _runge_kutta if model.options.integrator == "rk4" else _semi_implicit
    return repeat(substeps, lambda s, index: substep(given, s, index == substeps - 1), state, like=state.qvel[0])


def make_problem(
    model: Model,
    qpos: Sequence[Scalar],
    qvel: Sequence[Scalar],
    ctrl: Sequence[Scalar],
    pushes: Pushes,
    parameters: Parameters,
    act: Sequence[Scalar] = (),
) -> Problem:
    """Everything the accelerations follow from."""
    where = pose(model, qpos)
    moving = motion(model, where, qvel)
    scales = [parameters.mass.get(i, 1.0) for i in range(len(model.links))]
    inertias = link_inertias(model, where, scales)
    mass = mass_matrix(model, where, inertias)

    gravity = parameters.gravity or model.options.gravity
    outside = link_forces(model, where, moving, pushes)
    bias = bias_forces(model, where, moving, inertias, gravity, outside)
    passive = tendon_forces(model, where, qpos, qvel, joint_forces(model, qpos, qvel))
    carried = carried_weight(model, where, gravity, parameters.mass)
    if carried is not None:
        outer = [not joint.carried_by_actuators for joint in model.joints for _ in joint.dofs]
        passive = [sp.add(p, c) if is_outer else p for p, c, is_outer in zip(passive, carried, outer)]
    driven = actuation(model, qpos, actuator_forces(model, qpos, qvel, ctrl, act, where), where, carried)
    force = [sp.sub(sp.add(p, a), b) for p, a, b in zip(passive, driven, bias)]

    cones: dict[int, list] = {}
    for contact in external_contacts(model, where, parameters.terrain):
        motion_of_link = moving.velocity[contact.link]
        velocity = sp.point_velocity(motion_of_link, contact.point)
        cone = contact_cone(model, contact, velocity, parameters.friction, spin=motion_of_link[:3])
        cones.setdefault(contact.link, []).append(cone)
    slots, dropped = find_slots(model, where, qvel, parameters.friction)
    rows = joint_rows(model, where, qpos, qvel) + equality_rows(model, where, moving, qpos, qvel)
    care = stiffness(model, parameters.known_least_friction)
    return Problem(model, where, mass, force, rows, cones, slots, dropped, care)


@dataclass(frozen=True)
class _Given:
    """What stays the same during a step."""

    model: Model
    ctrl: Sequence[Scalar]
    pushes: Pushes
    parameters: Parameters
    measure: Measure | None
    sensors: tuple[str, ...]

    def problem(self, qpos: Sequence[Scalar], qvel: Sequence[Scalar], act: Sequence[Scalar]) -> Problem:
        return make_problem(self.model, qpos, qvel, self.ctrl, self.pushes, self.parameters, act)

    def damping(self, state: State, where: Pose) -> TreeMatrix:
        """What is taken implicitly."""
        model = self.model
        fast = model.options.integrator == "implicitfast"
        if not fast and not model.options.implicit_damping:
            return {}
        damping: TreeMatrix = {(d, d): dof.damping for d, dof in enumerate(model.dofs)}
        if fast:
            carried = carried_weight(
                model, where, self.parameters.gravity or model.options.gravity, self.parameters.mass
            )
            slopes = actuator_damping(model, state.qpos, state.qvel, self.ctrl, state.act, where, carried)
            for tendon in model.tendons:
                if tendon.damping != 0.0:
                    slopes.append((tendon_path(model, tendon, state.qpos, where), tendon.damping))
            for path, slope in slopes:
                add_damping(model, damping, path, slope)
        return damping

    def nothing_measured(self) -> list[Scalar]:
        """As many zeros as there are numbers to measure."""
        return [] if self.measure is None else [0.0 for _ in self.measure([sp.ZERO6] * len(self.model.bodies))]

    def measured(self, solution: Solution, last: Scalar) -> list[Scalar]:
        """Measure in the last evaluation of a step; all others skip the work."""
        measure, count, like = self.measure, len(self.nothing_measured()), solution.qacc[0]
        if measure is None:
            return []

        def compute() -> Sequence[Scalar]:
            wrenches = wrenches_on_bodies(solution.problem, solution.exact(), self.parameters.mass)
            return measure([tuple(as_array(x, like) for x in wrench) for wrench in wrenches])

        return when(last, compute, count, like)

    def sensed(self, solution: Solution, qpos: Sequence[Scalar], qvel: Sequence[Scalar], last: Scalar) -> list[Scalar]:
        """Read sensors in the last evaluation of a step; all others skip the work."""
        if not self.sensors:
            return []
        gravity = self.parameters.gravity or self.model.options.gravity

        def compute() -> Sequence[Scalar]:
            return read_forces(self.model, self.sensors, qpos, qvel, solution, gravity, self.parameters.mass)

        return when(last, compute, count_numbers(self.model, self.sensors), solution.qacc[0])


def _touch(solution: Solution) -> list[Scalar]:
    if not solution.problem.model.touch:
        return []
    return [as_array(x, solution.qacc[0]) for x in touch_forces(solution.problem, solution.exact())]


def _semi_implicit(given: _Given, state: State, last: Scalar) -> State:
    """New velocities first, then positions with them; damping is taken implicitly."""
    model, h = given.model, given.model.options.timestep
    problem = given.problem(state.qpos, state.qvel, state.act)
    solution = solve_accelerations(problem, state.qacc)
    qacc = solution.qacc
    change = damped_accelerations(model, problem.mass, given.damping(state, problem.where), qacc)
    qvel = [sp.fma(h, a, v) for a, v in zip(change, state.qvel)]
    qpos = advance_positions(model, state.qpos, [sp.mul(h, v) for v in qvel])
    touch, measured = _touch(solution), given.measured(solution, last)
    act = advance_activations(model, given.ctrl, state.act)
    sensed = given.sensed(solution, state.qpos, state.qvel, last)
    return State(qpos, qvel, qacc, touch, state.dropped + problem.dropped, measured, act, sensed)


@dataclass
class _Stage:
    """Between the stages of a Runge-Kutta step."""

    move: list[Scalar]  # from the start of the step to this stage, nv
    qvel: list[Scalar]
    rates: list[Scalar]  # weighted sums over the stages so far
    qaccs: list[Scalar]
    qacc: list[Scalar]
    touch: list[Scalar]
    dropped: Scalar
    measured: list[Scalar]
    act: list[Scalar]
    act_rates: list[Scalar]  # weighted sums over the stages so far
    sensed: list[Scalar]


def _runge_kutta(given: _Given, state: State, last_step: Scalar) -> State:
    """The classical fourth-order method; its four stages are a loop, so that the kernel does not grow."""
    model, h = given.model, given.model.options.timestep

    def stage(s: _Stage, index: Scalar) -> _Stage:
        last, outer = index == 3, (index == 0) | (index == 3)
        weight = dr.select(outer, as_array(1.0 / 6.0, s.dropped), as_array(1.0 / 3.0, s.dropped))
        reach = dr.select(index == 2, as_array(h, s.dropped), as_array(0.5 * h, s.dropped))
        qpos = advance_positions(model, state.qpos, s.move)
        problem = given.problem(qpos, s.qvel, s.act)
        solution = solve_accelerations(problem, s.qacc)
        qacc = solution.qacc
        rates = turning_rates(model, s.move, s.qvel)
        act_rates = activation_rates(model, given.ctrl, s.act)
        # Unlike what contacts do to bodies, MuJoCo's sensors are of the first stage.
        sensed = given.sensed(solution, qpos, s.qvel, (index == 0) & last_step)
        return _Stage(
            move=[dr.select(last, m, reach * r) for m, r in zip(s.move, rates)],
            qvel=[sp.fma(reach, a, v) for a, v in zip(qacc, state.qvel)],
            rates=[sp.fma(weight, r, total) for r, total in zip(rates, s.rates)],
            qaccs=[sp.fma(weight, a, total) for a, total in zip(qacc, s.qaccs)],
            qacc=qacc,
            touch=_touch(solution),
            dropped=s.dropped + problem.dropped,
            measured=given.measured(solution, last & last_step),
            act=[sp.fma(reach, rate, a) for rate, a in zip(act_rates, state.act)],
            act_rates=[sp.fma(weight, rate, total) for rate, total in zip(act_rates, s.act_rates)],
            sensed=[dr.select(index == 0, new, old) for new, old in zip(sensed, s.sensed)],
        )

    zero = 0.0 * state.dropped
    zeros = [zero] * model.nv
    touch, dropped, measured = state.touch, state.dropped, state.measured
    no_rates = [zero] * model.na
    first = _Stage(
        zeros, list(state.qvel), zeros, zeros, state.qacc, touch, dropped, measured, state.act, no_rates, state.sensed
    )
    end = repeat(4, stage, first, like=state.qvel[0])
    qvel = [sp.fma(h, a, v) for a, v in zip(end.qaccs, state.qvel)]
    qpos = advance_positions(model, state.qpos, [sp.mul(h, r) for r in end.rates])
    act = advance_activations(model, given.ctrl, state.act, end.act_rates)
    return State(qpos, qvel, end.qacc, end.touch, end.dropped, end.measured, act, end.sensed)


LARGEST_NUMBER = 1e10
"""MuJoCo's own bound on what a coordinate or velocity can be."""


def is_bad(state: State) -> Scalar:
    """A mask of the worlds whose state is not finite or absurdly large."""
    good = True
    for value in (*state.qpos, *state.qvel, *state.qacc, *state.act):
        good = (dr.abs(value) < LARGEST_NUMBER) & good  # false for a NaN too
    return (not good) if isinstance(good, bool) else ~good
