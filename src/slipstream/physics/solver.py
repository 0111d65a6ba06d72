"""Newton's method on MuJoCo's primal problem, world by world to convergence.

The accelerations a minimise  1/2 (a - a_free)^T M (a - a_free) + sum over rows of s(J a - reference),
a convex and piecewise quadratic function. Where no row changes side between an iterate and its full Newton
step, that step ends in the minimum, but for its rounding. Everywhere else a search along the line gives a
step length that lowers the cost, so that no sequence of active rows can come back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.control import negated, when
from slipstream.physics.dynamics import factor, link_motions, solve, solve_downward, solve_upward
from slipstream.physics.hessian import gradient_and_hessian
from slipstream.physics.line import Line, search
from slipstream.physics.precision import in_double
from slipstream.physics.problem import Problem
from slipstream.physics.spatial import Scalar, is_single
from slipstream.physics.start import better_start
from slipstream.physics.woodbury import with_slots

UNCHECKED = 2
"""The first steps leave what is no more than a guess. That the cost falls is not worth a second look there: most
worlds are done after them."""
TOO_FLAT = 1e6
"""The condition from which on a float32 factorisation is not trusted."""
SINGLE_ITERATIONS = 20
"""After how many iterations float32 gives up, where double precision can take over."""


@dataclass(frozen=True)
class Solution:
    """What a problem's constraints let the accelerations be.

    Attributes:
        qacc: nv scalars, in the precision of the state.
        problem: in double precision where contacts are stiff ...
        acceleration: ... and its solution.
        is_rough: whether some worlds found it in less precision than the problem's.
    """

    qacc: list[Scalar]
    problem: Problem
    acceleration: list[Scalar]
    is_rough: bool = False

    def exact(self) -> list[Scalar]:
        """The accelerations to compute contact forces with: these are a stiffness times the last digits of them."""
        return newton_step(self.problem, self.acceleration).acceleration if self.is_rough else self.acceleration


def solve_accelerations(problem: Problem, start: Sequence[Scalar]) -> Solution:
    """The constrained accelerations.

    Args:
        start: where to begin, usually the accelerations of the step before.
    """
    model = problem.model
    if not problem.constrained:
        free = solve(model, factor(model, problem.mass), problem.force)
        return Solution(free, problem, free)
    bends = model.options.elliptic and bool(problem.cones or problem.slots)
    if not is_single(start[0]) or problem.stiffness == "soft":
        start = better_start(problem, start) if bends else start
        found, _ = newton(problem, start, model.newton_iterations)
        return Solution(found, problem, found)
    exact, begin = in_double(problem), in_double(list(start))
    begin = better_start(exact, begin) if bends else begin
    if problem.stiffness == "hard":
        found, _ = newton(exact, begin, model.newton_iterations)
    else:
        start = better_start(problem, start) if bends else start
        rough, failed = newton(problem, start, min(model.newton_iterations, SINGLE_ITERATIONS))
        again = when(failed, lambda: newton(exact, begin, model.newton_iterations)[0], model.nv, begin[0])
        found = [dr.select(failed, a, r) for a, r in zip(again, in_double(rough))]
    return Solution([type(start[0])(a) for a in found], exact, found, is_rough=problem.stiffness == "stiff")


def newton(problem: Problem, start: Sequence[Scalar], iterations: int) -> tuple[list[Scalar], Scalar]:
    """Iterate, each world until it is done.

    Returns:
        The accelerations, and a mask of the worlds in which they are not to be trusted.
    """

    def iterate(acceleration: list[Scalar], going: Scalar, count: Scalar, failed: Scalar) -> tuple:
        new = newton_step(problem, acceleration, careful=count >= UNCHECKED)
        going, count = going & new.unfinished, count + 1
        if problem.stiffness != "soft":
            failed = negated(new.condition < TOO_FLAT) | (going & (count >= iterations))
        return new.acceleration, going & (count < iterations), count, failed

    yes, no, zero = True, False, 0
    if not sp.is_constant(start[0]):
        yes, no = (dr.mask_t(start[0])(x) for x in (True, False))
        zero = dr.uint32_array_t(start[0])(0)
    acceleration, _, _, failed = dr.while_loop(
        (list(start), yes, zero, no), lambda acceleration, going, count, failed: going, iterate, label="newton"
    )
    return acceleration, failed


@dataclass(frozen=True)
class NewtonStep:
    """Where an iteration leads.

    Attributes:
        acceleration: nv scalars.
        unfinished: a mask of the worlds in which a row changed side on the way, or the step was inexact.
        condition: by how much rounding grew in the step; measured where constraints are not soft.
    """

    acceleration: list[Scalar]
    unfinished: Scalar
    condition: Scalar


def newton_step(problem: Problem, acceleration: list[Scalar], careful: Scalar = True) -> NewtonStep:
    """One iteration.

    Args:
        careful: a mask of the worlds that make sure that the cost falls.
    """
    model, where = problem.model, problem.where
    motions = link_motions(model, where, acceleration)
    local = gradient_and_hessian(problem, acceleration, motions)
    factors = factor(model, local.hessian)
    half = solve_upward(model, factors, sp.negative(local.gradient))
    measured = problem.stiffness != "soft"
    half, condition = with_slots(model, problem.crossing, problem.slots, factors, acceleration, half, measured)
    step = solve_downward(model, factors, half)
    slope = sp.dot(step, local.gradient)
    length, unfinished = search(Line(problem, acceleration, local.values, step, slope), careful)
    new = [sp.fma(length, s, a) for s, a in zip(step, acceleration)]
    if measured:
        condition = sp.maximum(_largest(map(sp.mul, local.magnitude, factors[1])), condition)
        epsilon, accuracy = (6e-8, 1e-5) if is_single(acceleration[0]) else (1.1e-16, 1e-9)
        # The rounding of this step. Where it counts, a further step takes it away.
        rounding = epsilon * condition * _largest(step)
        unfinished = unfinished | (rounding > accuracy * (1.0 + _largest(new)))
    return NewtonStep(new, unfinished, condition)


def _largest(values: Iterable[Scalar]) -> Scalar:
    return reduce(sp.maximum, map(sp.absolute, values))
