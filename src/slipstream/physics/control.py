"""Branches and loops of a kernel, for lists of scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import drjit as dr

from slipstream.physics.spatial import Scalar, is_constant


def as_arrays(values: Sequence[Scalar], kind: type) -> list[Scalar]:
    """The same values with constants turned into arrays, so that both sides of a branch agree in type."""
    return [kind(value) if is_constant(value) else value for value in values]


def when(condition: Any, compute: Callable[..., Sequence[Scalar]], inputs: Sequence[Scalar], count: int) -> list[Scalar]:
    """`compute(*inputs)` in the worlds where the condition holds, zeros elsewhere.

    A packet of worlds (16 of them with AVX-512) in none of which the condition holds skips the work.

    Args:
        count: how many scalars `compute` returns.
    """
    if isinstance(condition, bool):
        return list(compute(*inputs)) if condition else [0.0] * count
    kind = next(type(value) for value in inputs if not is_constant(value))
    return dr.if_stmt(
        (list(inputs),),
        condition,
        lambda values: as_arrays(compute(*values), kind),
        lambda values: [kind(0.0) for _ in range(count)],
    )
