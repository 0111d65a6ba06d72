"""From accelerations to the next state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slipstream.physics import spatial as sp
from slipstream.physics.dynamics import TreeMatrix, factor, solve
from slipstream.physics.model import Model
from slipstream.physics.spatial import Scalar
from slipstream.physics.tendons import Path


def advance_positions(model: Model, qpos: Sequence[Scalar], move: Sequence[Scalar]) -> list[Scalar]:
    """qpos after a move of nv numbers (velocities times a time). Quaternions turn by rotation vectors."""
    result = list(qpos)
    for joint in model.joints:
        if joint.kind in ("slide", "hinge"):
            result[joint.qpos] = sp.add(qpos[joint.qpos], move[joint.dof])
        elif joint.kind == "free":
            for k in range(3):
                result[joint.qpos + k] = sp.add(qpos[joint.qpos + k], move[joint.dof + k])
    for q, d in quaternions(model):
        turn = sp.rotation_vector_quaternion(move[d : d + 3])
        result[q : q + 4] = sp.normalized(sp.quaternion_product(tuple(qpos[q : q + 4]), turn))
    return result


def quaternions(model: Model) -> Iterator[tuple[int, int]]:
    """Where quaternions start in qpos, and their angular velocities in qvel."""
    for joint in model.joints:
        if joint.kind == "free":
            yield joint.qpos + 3, joint.dof + 3
        elif joint.kind == "ball":
            yield joint.qpos, joint.dof


def damped_accelerations(model: Model, mass: TreeMatrix, damping: TreeMatrix, qacc: Sequence[Scalar]) -> list[Scalar]:
    """Accelerations with damping B taken implicitly: (M + h B) a' = M a.

    It is solved for the difference, (M + h B) (a - a') = h B a, which float32 represents better.
    """
    h = model.options.timestep
    scaled = {at: sp.mul(h, b) for at, b in damping.items()}
    if all(sp.is_constant(b) and b == 0.0 for b in scaled.values()):
        return list(qacc)
    matrix, pull = dict(mass), [0.0] * model.nv
    for (i, j), b in scaled.items():
        matrix[i, j] = sp.add(matrix[i, j], b)
        pull[i] = sp.fma(b, qacc[j], pull[i])
        if i != j:
            pull[j] = sp.fma(b, qacc[i], pull[j])
    return list(sp.minus(qacc, solve(model, factor(model, matrix), pull)))


def add_damping(model: Model, damping: TreeMatrix, path: Path, slope: Scalar) -> None:
    """Add what a damper along a path does. Between branches of the tree it is not implicit, as in MuJoCo."""
    for k, d in enumerate(path.dofs):
        along = sp.mul(path.pulls[k], slope)
        for j, e in enumerate(path.dofs[: k + 1]):
            if e == d or e in model.dofs[d].ancestors:
                damping[d, e] = sp.fma(along, path.pulls[j], damping.get((d, e), 0.0))


def turning_rates(model: Model, move: Sequence[Scalar], qvel: Sequence[Scalar]) -> list[Scalar]:
    """The rates of change of a move at velocities qvel: they differ for rotations that do not commute.

    With u the rotation vector turned so far and w the angular velocity in the body,
    u' = w + u x w / 2 + c u x (u x w), c = (1 - |u|/2 cot(|u|/2)) / |u|^2 (Munthe-Kaas 1998).
    """
    result = list(qvel)
    for _, d in quaternions(model):
        u, w = tuple(move[d : d + 3]), tuple(qvel[d : d + 3])
        squared = sp.dot(u, u)
        # The series has a relative error below 1e-9 where |u| < 0.3, more than a robot turns in a step.
        c = sp.fma(squared, sp.fma(squared, sp.fma(squared, 1.0 / 1209600.0, 1.0 / 30240.0), 1.0 / 720.0), 1.0 / 12.0)
        across = sp.cross(u, w)
        result[d : d + 3] = sp.plus(w, sp.plus(sp.scaled(0.5, across), sp.scaled(c, sp.cross(u, across))))
    return result
