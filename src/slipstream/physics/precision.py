"""In which precision constraints are solved.

A contact that is r times stiffer than the mass behind it leaves that mass at 1 / r in the Hessian M + J^T K J: a
float32 factorisation of it loses r of its 16 million steps. Up to some tens that is nothing. With a friction
coefficient of 0.1 r is some thousands (the edges of a flat pyramid are stiff), with `solimp` near 1 and `impratio`
100 it is millions.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import drjit as dr

from slipstream.physics.constraints import Cone, Row
from slipstream.physics.kinematics import Pose
from slipstream.physics.model import Model
from slipstream.physics.pairs import LARGEST_IMPEDANCE, SMALLEST_IMPEDANCE
from slipstream.physics.problem import Problem, Stiffness
from slipstream.physics.selfcontact import Slot
from slipstream.physics.spatial import is_single

STIFF, HARD = 100.0, 2e4
"""From which ratio of stiffness to mass on a problem is stiff, and hard."""


def stiffness(model: Model, least_friction: float | None) -> Stiffness:
    """What the constraints of a model ask for.

    Args:
        least_friction: the smallest factor on the friction coefficients in any world, if it is known.
    """
    ratio = stiffness_ratio(model, 1.0 if least_friction is None else least_friction)
    if ratio > HARD or (ratio > STIFF and model.options.elliptic):  # a sliding cone bends, which takes more digits
        return "hard"
    # A long chain of light links has the same effect without any contact; and the two multiply.
    growth = model.mass_growth
    is_soft = least_friction is not None and ratio <= STIFF and growth <= STIFF and ratio * growth <= 20 * STIFF
    return "soft" if is_soft else "stiff"


def stiffness_ratio(model: Model, least_friction: float) -> float:
    """How much stiffer than the masses behind them contacts (and limits of several joints) can be."""
    ratios = [0.0]
    for pair in model.pairs:
        ratio = _strength(pair.solimp)
        if pair.condim > 1 and model.options.elliptic:
            ratio *= max(1.0, model.options.impratio)
        elif pair.condim > 1:
            squared = (pair.friction * least_friction) ** 2
            ratio *= 4.0 * model.options.impratio / max(2.0 * squared * (1.0 + squared), 1e-30)
        ratios.append(ratio)
    # The limit of one joint is stiff on the diagonal alone, which costs no digits.
    ratios += [_strength(joint.solimp) for joint in model.joints if joint.limited and joint.kind == "ball"]
    ratios += [_strength(tendon.solimp) for tendon in model.tendons if tendon.limited and len(tendon.joints) != 1]
    ratios += [_strength(equality.solimp) for equality in model.equalities]
    return max(ratios)


def _strength(solimp: tuple[float, ...]) -> float:
    """d / (1 - d) at its largest."""
    d = min(max(*solimp[:2], SMALLEST_IMPEDANCE), LARGEST_IMPEDANCE)
    return d / (1.0 - d)


def in_double(value: Any, memo: dict[int, Any] | None = None) -> Any:
    """A scalar, a problem, or anything made of scalars in double precision. What was one object stays one."""
    memo = {} if memo is None else memo
    if id(value) not in memo:
        memo[id(value)] = _in_double(value, memo)
    return memo[id(value)]


def _in_double(value: Any, memo: dict[int, Any]) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(in_double(v, memo) for v in value)
    if isinstance(value, dict):
        return {key: in_double(v, memo) for key, v in value.items()}
    if isinstance(value, Problem | Pose | Row | Cone | Slot):
        return replace(value, **{f.name: in_double(getattr(value, f.name), memo) for f in fields(value)})
    if not dr.is_array_v(value) or not is_single(value):
        return value
    double: Any = dr.float64_array_t(value)
    return double(value)
