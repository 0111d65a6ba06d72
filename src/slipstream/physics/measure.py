"""What can be measured in a state beside its kinematics."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.physics import spatial as sp
from slipstream.physics.dynamics import multiply
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
) -> list[Scalar]:
    """MuJoCo's qfrc_constraint: the generalised forces of limits, contacts and dry friction, nv scalars.

    It costs as much as a physics step.

    Args:
        qacc: where the solver starts.
        ctrl: nu scalars.
    """
    problem = make_problem(model, qpos, qvel, ctrl, {}, parameters or Parameters())
    acceleration = solve_accelerations(problem, qacc)
    inertial = multiply(model, problem.mass, acceleration)
    return [sp.sub(i, f) for i, f in zip(inertial, problem.force)]


def contact_wrenches(
    model: Model,
    qpos: Sequence[Scalar],
    qvel: Sequence[Scalar],
    qacc: Sequence[Scalar],
    ctrl: Sequence[Scalar],
    parameters: Parameters | None = None,
) -> list[tuple]:
    """MuJoCo's cfrc_ext, without pushes: by body, the torque and the force of all its contacts.

    Torques are about the centre of mass of the body's tree; both are in the axes of the world. It costs as much
    as a physics step, the `measure` of a step next to nothing.

    Args:
        qacc: where the solver starts.
        ctrl: nu scalars.
    """
    parameters = parameters or Parameters()
    problem = make_problem(model, qpos, qvel, ctrl, {}, parameters)
    return wrenches_on_bodies(problem, solve_accelerations(problem, qacc), parameters.mass)
