"""What an agent may observe and do, as static data.

A space says how many components a lane has; the lane axis itself is always last (`[components, lanes]`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Box:
    """`size` real numbers, each within `[low, high]`.

    As an action space, finite bounds are what a policy's actions are clipped to. They may be one number
    for all components or a tuple with one for each.
    """

    size: int
    low: float | tuple[float, ...] = -math.inf
    high: float | tuple[float, ...] = math.inf

    def __post_init__(self) -> None:
        _check_count("Box size", self.size)
        for name, bound in (("low", self.low), ("high", self.high)):
            if isinstance(bound, tuple) and len(bound) != self.size:
                raise ValueError(f"Box {name} has {len(bound)} bounds for {self.size} components: {bound}.")
        if np.any(self.lows >= self.highs):
            raise ValueError(f"Box low must be below high, got low={self.low} and high={self.high}.")

    @property
    def lows(self) -> np.ndarray:
        """Lower bounds, `[size]`."""
        return np.broadcast_to(np.asarray(self.low, np.float32), (self.size,))

    @property
    def highs(self) -> np.ndarray:
        """Upper bounds, `[size]`."""
        return np.broadcast_to(np.asarray(self.high, np.float32), (self.size,))

    @property
    def bounded(self) -> bool:
        return bool(np.all(np.isfinite(self.lows)) and np.all(np.isfinite(self.highs)))


@dataclass(frozen=True)
class MultiDiscrete:
    """Several independent choices: component i is one of `0 .. choices[i] - 1`."""

    choices: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.choices:
            raise ValueError("MultiDiscrete needs at least one component.")
        for n in self.choices:
            _check_count("number of choices", n)

    @property
    def size(self) -> int:
        return len(self.choices)


@dataclass(frozen=True)
class Discrete:
    """One choice out of `0 .. n - 1`."""

    n: int

    def __post_init__(self) -> None:
        _check_count("number of choices", self.n)

    @property
    def size(self) -> int:
        return 1

    @property
    def choices(self) -> tuple[int, ...]:
        return (self.n,)


Space = Box | Discrete | MultiDiscrete


def describe(space: Space) -> str:
    """A short text for tables, such as `Box(4)` or `MultiDiscrete(11, 11)`."""
    if isinstance(space, Box):
        if not space.bounded:
            return f"Box({space.size})"
        return f"Box({space.size}, {space.lows.min():g} .. {space.highs.max():g})"
    if isinstance(space, Discrete):
        return f"Discrete({space.n})"
    return f"MultiDiscrete({', '.join(map(str, space.choices))})"


def to_json(space: Space) -> dict[str, Any]:
    """A space as plain data; bounds that are infinite become null, which JSON has."""
    if isinstance(space, Box):
        bounds = {n: [b if math.isfinite(b) else None for b in a.tolist()] for n, a in _bounds(space).items()}
        return {"kind": "box", "size": space.size, **bounds}
    kind = "discrete" if isinstance(space, Discrete) else "multi-discrete"
    return {"kind": kind, "choices": list(space.choices)}


def from_json(data: dict[str, Any]) -> Space:
    """The space that `to_json` was given (with a bound for each component)."""
    if data["kind"] == "box":
        low = tuple(-math.inf if b is None else b for b in data["low"])
        high = tuple(math.inf if b is None else b for b in data["high"])
        return Box(data["size"], low, high)
    return Discrete(*data["choices"]) if data["kind"] == "discrete" else MultiDiscrete(tuple(data["choices"]))


def _bounds(space: Box) -> dict[str, np.ndarray]:
    return {"low": space.lows, "high": space.highs}


def _check_count(what: str, value: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"The {what} must be a positive whole number, got {value!r}.")
