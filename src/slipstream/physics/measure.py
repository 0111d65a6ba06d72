"""What can be measured in a state beside its kinematics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slipstream.physics import spatial as sp
from slipstream.physics.control import as_array
from slipstream.physics.dynamics import link_motions
from slipstream.physics.hessian import gradient_and_hessian
from slipstream.physics.model import Model
from slipstream.physics.solver import solve_accelerations
from slipstream.physics.spatial import Scalar
from slipstream.physics.step import Parameters, make_problem
from slipstream.physics.wrenches import wrenches_on_bodies


def constraint_forces(
    model: Model,
    qpos: Sequence[Scalar],
    qvel: Sequence[Scalar],
    qacc: Sequence[Scalar],
    ctrl: Sequence[Scalar],
    parameters: Parameters | None = None,
    act: Sequence[Scalar] = (),
) -> list[Scalar]:
    """MuJoCo's qfrc_constraint: the generalised forces of limits, contacts and dry friction, nv scalars.

    It costs as much as a physics step.

    Args:
        qacc: where the solver starts.
        ctrl: nu scalars.
        act: na scalars, for actuators with activations.
    """
    problem = make_problem(model, qpos, qvel, ctrl, {}, parameters or Parameters(), act)
    solution = solve_accelerations(problem, qacc)
    problem, acceleration = solution.problem, solution.exact()
    # The gradient without its smooth part. M a - f is the same in theory, and leaves its rounding where nothing pushes.
    pushes = replace(problem, mass=dict.fromkeys(problem.mass, 0.0), force=[0.0] * model.nv)
    local = gradient_and_hessian(pushes, acceleration, link_motions(model, problem.where, acceleration))
    return [as_array(sp.sub(0.0, g), qvel[0]) for g in local.gradient]


def contact_wrenches(
    model: Model,
    qpos: Sequence[Scalar],
    qvel: Sequence[Scalar],
    qacc: Sequence[Scalar],
    ctrl: Sequence[Scalar],
    parameters: Parameters | None = None,
    act: Sequence[Scalar] = (),
) -> list[tuple]:
    """MuJoCo's cfrc_ext, without pushes: by body, the torque and the force of all its contacts.

    Torques are about the centre of mass of the body's tree; both are in the axes of the world. It costs as much
    as a physics step, the `measure` of a step next to nothing.

    Args:
        qacc: where the solver starts.
        ctrl: nu scalars.
        act: na scalars, for actuators with activations.
    """
    parameters = parameters or Parameters()
    problem = make_problem(model, qpos, qvel, ctrl, {}, parameters, act)
    solution = solve_accelerations(problem, qacc)
    wrenches = wrenches_on_bodies(solution.problem, solution.exact(), parameters.mass)
    return [tuple(as_array(x, qvel[0]) for x in wrench) for wrench in wrenches]
