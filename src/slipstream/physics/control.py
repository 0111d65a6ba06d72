"""Branches and loops of a kernel, for lists of scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import drjit as dr

from slipstream.physics.spatial import Scalar, is_constant


def as_arrays(values: Sequence[Scalar], kind: type) -> list[Scalar]:
    """The same values with constants turned into arrays, so that both sides of a branch agree in type."""
    return [kind(value) if is_constant(value) else value for value in values]


def when(condition: Any, compute: Callable[[], Sequence[Scalar]], count: int, like: Scalar) -> list[Scalar]:
    """`compute()` in the worlds where the condition holds, zeros elsewhere.

    A packet of worlds (16 of them with AVX-512) in none of which the condition holds skips the work.

    Args:
        count: how many scalars `compute` returns.
        like: any scalar of the worlds, for its type.
    """
    if isinstance(condition, bool):
        return list(compute()) if condition else [0.0] * count
    kind = type(like)
    return dr.if_stmt(
        (), condition, lambda: as_arrays(compute(), kind), lambda: [kind(0.0) for _ in range(count)]
    )
