"""From accelerations to the next state."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.physics import spatial as sp
from slipstream.physics.dynamics import TreeMatrix, factor, solve
from slipstream.physics.model import Model
from slipstream.physics.spatial import Scalar


def advance_positions(
    model: Model, qpos: Sequence[Scalar], qvel: Sequence[Scalar], time: float
) -> list[Scalar]:
    """qpos after moving with a constant qvel. Quaternions turn with their body-frame angular velocity."""
    result = list(qpos)
    for joint in model.joints:
        q, d = joint.qpos, joint.dof
        if joint.kind in ("slide", "hinge"):
            result[q] = sp.fma(time, qvel[d], qpos[q])
            continue
        if joint.kind == "free":
            for k in range(3):
                result[q + k] = sp.fma(time, qvel[d + k], qpos[q + k])
            q, d = q + 3, d + 3
        turn = sp.rotation_vector_quaternion([sp.mul(time, qvel[d + k]) for k in range(3)])
        result[q : q + 4] = sp.normalized(sp.quaternion_product(tuple(qpos[q : q + 4]), turn))
    return result


def damped_accelerations(model: Model, mass: TreeMatrix, qacc: Sequence[Scalar]) -> list[Scalar]:
    """Accelerations with joint damping taken implicitly: (M + h B) a' = M a.

    It is solved for the difference, (M + h B) (a - a') = h B a, which float32 represents better.
    """
    h = model.options.timestep
    if not model.options.implicit_damping or not any(dof.damping for dof in model.dofs):
        return list(qacc)
    matrix = dict(mass)
    for d, dof in enumerate(model.dofs):
        matrix[d, d] = sp.add(matrix[d, d], h * dof.damping)
    pull = [sp.mul(h * dof.damping, a) for dof, a in zip(model.dofs, qacc)]
    return list(sp.minus(qacc, solve(model, factor(model, matrix), pull)))
