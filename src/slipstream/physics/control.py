"""Branches and loops of a kernel, for lists of scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import drjit as dr

from slipstream.physics.spatial import Scalar


def as_array(value: Scalar, like: Scalar) -> Scalar:
    """A value in the type of `like`. Two literals chosen between would otherwise become float32 arrays."""
    return value if type(value) is type(like) else type(like)(value)


def negated(mask: Any) -> Any:
    """The opposite of a mask, of a plain bool too."""
    return (not mask) if isinstance(mask, bool) else ~mask


def when(condition: Any, compute: Callable[[], Sequence[Scalar]], count: int, like: Scalar) -> list[Scalar]:
    """`compute()` in the worlds where the condition holds, zeros elsewhere.

    A packet of worlds (16 of them with AVX-512) in none of which the condition holds skips the work.

    Args:
        count: how many scalars `compute` returns.
        like: any scalar of the worlds, for its type.
    """
    if isinstance(condition, bool):
        return list(compute()) if condition else [0.0] * count
    zero = type(like)(
        0.0
    )  # made out here: with a single world it would leave the branch as it is, and be unknown there
    return dr.if_stmt(
        (),
        condition,
        lambda: [as_array(value, like) for value in compute()],
        lambda: [zero] * count,
    )


S = TypeVar("S")


def repeat(count: int, body: Callable[[S, Scalar], S], state: S, like: Scalar) -> S:
    """`state = body(state, index)` for index 0 to count - 1, as one loop in the kernel.

    Args:
        state: a dataclass of scalars and lists of scalars.
        like: any scalar of the worlds, for its type.
    """
    kind: Any = type(state)
    names = [f.name for f in fields(kind)]
    if count == 1 or isinstance(like, float):
        for index in range(count):
            state = body(state, index)
        return state
    unsigned = dr.uint32_array_t(type(like))

    def once(index: Scalar, *parts: Any) -> tuple:
        new = body(kind(**dict(zip(names, parts))), index)
        return index + 1, *(_arrays(getattr(new, name), like) for name in names)

    start = (unsigned(0), *(_arrays(getattr(state, name), like) for name in names))
    _, *parts = dr.while_loop(start, lambda index, *_: index < count, once)
    return kind(**dict(zip(names, parts)))


def _arrays(part: Any, like: Scalar) -> Any:
    return [as_array(value, like) for value in part] if isinstance(part, list) else as_array(part, like)


def unsigned(value: int, like: Scalar) -> Any:
    """A whole number in every world of `like`."""
    return value if isinstance(like, (int, float)) else dr.uint32_array_t(type(like))(value)


def memory(like: Scalar, size: int) -> Any:
    """Room for some numbers in every world, which a kernel can reach by their index."""
    return [type(like)(0)] * size if isinstance(like, (int, float)) else dr.alloc_local(type(like), size)


def lowest_bit(bits: Any) -> Any:
    """The number of the lowest bit that is set; 0 if none is."""
    if isinstance(bits, int):
        return max((bits & -bits).bit_length() - 1, 0)
    return dr.select(bits == 0, 0, dr.tzcnt(bits))
