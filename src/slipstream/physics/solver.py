"""Newton's method on MuJoCo's primal problem, world by world to convergence.

The accelerations a minimise  1/2 (a - a_free)^T M (a - a_free) + sum over rows of s(J a - reference),
a convex and piecewise quadratic function. Where no row changes side between an iterate and its full Newton
step, that step ends exactly in the minimum: this is the only test of convergence. Everywhere else one
Newton step along the line gives the step length.
"""

from __future__ import annotations

from collections.abc import Sequence

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.dynamics import factor, link_motions, solve, solve_downward, solve_upward
from slipstream.physics.hessian import gradient_and_hessian
from slipstream.physics.line import line_derivatives, search
from slipstream.physics.problem import Problem
from slipstream.physics.spatial import Scalar
from slipstream.physics.woodbury import with_slots


def solve_accelerations(problem: Problem, start: Sequence[Scalar]) -> list[Scalar]:
    """The constrained accelerations qacc.

    Args:
        start: where to begin, usually the accelerations of the step before.
    """
    model = problem.model
    if not problem.constrained:
        return solve(model, factor(model, problem.mass), problem.force)

    def iterate(acceleration: list[Scalar], going: Scalar, count: Scalar) -> tuple:
        acceleration, changed = newton_step(problem, acceleration)
        count = count + 1
        return acceleration, going & changed & (count < model.newton_iterations), count

    going, count = (
        (True, 0) if sp.is_constant(start[0]) else (dr.mask_t(start[0])(True), dr.uint32_array_t(start[0])(0))
    )
    acceleration, _, _ = dr.while_loop(
        (list(start), going, count), lambda acceleration, going, count: going, iterate, label="newton"
    )
    return acceleration


def newton_step(problem: Problem, acceleration: list[Scalar]) -> tuple[list[Scalar], Scalar]:
    """One iteration.

    Returns:
        The new accelerations, and whether a row changed side on the way (it has not converged).
    """
    model, where = problem.model, problem.where
    motions = link_motions(model, where, acceleration)
    gradient, hessian = gradient_and_hessian(problem, acceleration, motions)
    factors = factor(model, hessian)
    half = solve_upward(model, factors, sp.negative(gradient))
    half = with_slots(model, problem.slots, factors, acceleration, half)
    step = solve_downward(model, factors, half)
    slope = sp.dot(step, gradient)
    correction, curvature, changed = line_derivatives(problem, acceleration, step, motions)
    # Along the line the derivative at the full step is `correction`, the second derivative there is:
    curvature = sp.sub(curvature, slope)
    length = 1.0 - correction / sp.maximum(curvature, 1e-12)
    if any(row.loss is not None for row in problem.rows):
        length = search(problem, acceleration, step, motions, slope, length)
    length = sp.clip(dr.select(changed, length, 1.0), 1e-3, 4.0)
    return [sp.fma(length, s, a) for s, a in zip(step, acceleration)], changed
