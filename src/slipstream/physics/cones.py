"""How a contact pushes, as a function of the accelerations along its axes: pyramidal and elliptic friction cones.

The axes of a contact are its normal, and tangents (and axes of spin and roll) scaled by their friction coefficients. In
these coordinates an elliptic cone is a round one. With x along the normal, t along the other axes and mu the first
friction coefficient over the root of impratio, its cost is, by zones,

    nothing where x >= |t|,  k / 2 (x^2 + t^2 / mu^2) where mu^2 x <= -|t|,  k / 2 (x - |t|)^2 / (1 + mu^2) in between.
"""

from __future__ import annotations

from collections.abc import Sequence

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.spatial import Scalar

Modes = list[tuple[Scalar, list[Scalar]]]
"""Springs along combinations of the axes of a contact: what its cost is like nearby."""


def pyramid_modes(stiffness: Sequence[Scalar], values: Sequence[Scalar]) -> tuple[list[Scalar], Modes]:
    """The force of a pyramid along its axes, and its springs.

    Args:
        stiffness: of the two edges of each tangent.
        values: along the normal and the tangents.
    """
    normal, *tangential = values
    force: list[Scalar] = [0.0]
    both, springs = 0.0, []
    for j, (k, t) in enumerate(zip(stiffness, tangential)):
        plus, minus = (dr.select(x < 0.0, k, 0.0) for x in (normal + t, normal - t))
        f_plus, f_minus = -plus * (normal + t), -minus * (normal - t)
        force[0] = sp.add(force[0], f_plus + f_minus)
        force.append(f_plus - f_minus)
        # Where both edges push, the normal and the tangent are springs; where one does, that edge is.
        side = dr.select(plus > minus, 1.0, dr.select(plus < minus, -1.0, 0.0))
        direction = [side, *(1.0 if i == j else 0.0 for i in range(len(tangential)))]
        springs.append((plus + minus, direction))
        both = sp.add(both, 2.0 * sp.minimum(plus, minus))
    return force, [(both, [1.0] + [0.0] * len(tangential)), *springs]


def elliptic_modes(stiffness: Scalar, mu: Scalar, values: Sequence[Scalar]) -> tuple[list[Scalar], Modes]:
    """The force of an elliptic cone along its axes, and its springs.

    Args:
        stiffness: along the normal.
        values: along the normal and the tangents.
    """
    x, *t = values
    length = dr.sqrt(sp.dot(t, t))
    bottom, middle = _zones(mu, x, length)
    some = length > 1e-30
    inverse = dr.select(some, 1.0 / dr.select(some, length, 1.0), 0.0)
    # A product with a zero is folded, as it must be: it may come from a branch in which it was a constant.
    unit = [sp.mul(v, inverse) for v in t]
    squared = mu * mu
    sliding = stiffness / (1.0 + squared)
    push = dr.select(bottom, -stiffness * x, dr.select(middle, -sliding * (x - length), 0.0))
    sticking = dr.select(bottom, stiffness / squared, 0.0)
    force = [push, *(sp.sub(dr.select(middle, -push * u, 0.0), sticking * v) for u, v in zip(unit, t))]
    modes: Modes = [
        (
            dr.select(bottom, stiffness, dr.select(middle, sliding, 0.0)),
            [1.0, *(dr.select(middle, -u, 0.0) for u in unit)],
        )
    ]
    turning = dr.select(middle, push * inverse, 0.0)
    for k, axis in enumerate(_basis(unit)):
        modes.append((sticking if k == 0 else sticking + turning, [0.0, *axis]))
    return force, modes


def _zones(mu: Scalar, x: Scalar, length: Scalar) -> tuple[Scalar, Scalar]:
    """Masks: the contact sticks; it slides."""
    bottom = (mu * mu * x + length <= 0.0) & (x < 0.0)
    return bottom, ~bottom & (x < length) if not isinstance(bottom, bool) else (not bottom and x < length)


def _basis(unit: Sequence[Scalar]) -> list[list[Scalar]]:
    """Orthonormal axes, the first of them along a unit vector (whatever its sign, and anywhere if it vanishes)."""
    first = unit[0]
    away = dr.select(first < 0.0, first - 1.0, first + 1.0)
    h = [away, *unit[1:]]
    scale = 2.0 / sp.dot(h, h)
    size = len(unit)
    return [[sp.fma(-scale * h[k], h[i], 1.0 if i == k else 0.0) for i in range(size)] for k in range(size)]


def elliptic_cost(stiffness: Scalar, mu: Scalar, values: Sequence[Scalar]) -> Scalar:
    """Twice the cost."""
    x, *t = values
    squared = sp.dot(t, t)
    length = dr.sqrt(squared)
    bottom, middle = _zones(mu, x, length)
    slide = x - length
    sliding = slide * slide / (1.0 + mu * mu)
    return stiffness * dr.select(bottom, x * x + squared / (mu * mu), dr.select(middle, sliding, 0.0))


def curvature(modes: Modes, step: Sequence[Scalar]) -> Scalar:
    """The second derivative of the cost along a step."""
    total = 0.0
    for k, direction in modes:
        along = sp.dot(direction, step)
        total = sp.fma(k * along, along, total)
    return total
