"""Branches and loops of a kernel, for lists of scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import drjit as dr

from slipstream.physics.spatial import Scalar, is_constant


def as_array(value: Scalar, like: Scalar) -> Scalar:
    """A constant as an array of the type of `like`: two literals alone would become float32."""
    return type(like)(value) if is_constant(value) else value


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
        (), condition, lambda: [as_array(value, like) for value in compute()], lambda: [kind(0.0) for _ in range(count)]
    )
