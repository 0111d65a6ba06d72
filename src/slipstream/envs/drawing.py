"""Pictures of worlds as plain data: shapes in the plane, which films (and whatever else draws) turn into pixels.

A world returns a `Picture` from `Env.draw`. Lengths are the world's own, x goes to the right and y upwards, and later
shapes are drawn over earlier ones. Colours are written as on the web, `#rrggbb`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Point = tuple[float, float]

PAPER = "#faf8f3"
INK = "#2b2d42"
GREY = "#c3c6ce"
RED = "#d1495b"
BLUE = "#2e73b8"
GREEN = "#4f9d69"
SAND = "#d9a05b"


@dataclass(frozen=True)
class Line:
    """A line from point to point, with round ends."""

    points: Sequence[Point]
    width: float
    colour: str = INK


@dataclass(frozen=True)
class Circle:
    centre: Point
    radius: float
    colour: str = INK


@dataclass(frozen=True)
class Polygon:
    points: Sequence[Point]
    colour: str = INK


@dataclass(frozen=True)
class Text:
    """A line of text, as high as `size`; `place` is half-way up its left end, its middle, or its right end."""

    place: Point
    text: str
    size: float
    colour: str = INK
    align: Literal["left", "middle", "right"] = "middle"


Shape = Line | Circle | Polygon | Text


@dataclass(frozen=True)
class Picture:
    """What a world looks like.

    Attributes:
        shapes: the lowest first.
        bounds: what must be seen: left, bottom, right, top. Where the frame has another form, more is seen.
        background: the colour behind everything.
    """

    shapes: Sequence[Shape]
    bounds: tuple[float, float, float, float]
    background: str = PAPER

    def __post_init__(self) -> None:
        left, bottom, right, top = self.bounds
        if not (left < right < math.inf and bottom < top < math.inf):
            raise ValueError(f"The bounds of a picture are left, bottom, right, top; got {self.bounds}.")


def rectangle(left: float, bottom: float, right: float, top: float, colour: str = INK) -> Polygon:
    return Polygon(((left, bottom), (right, bottom), (right, top), (left, top)), colour)


def placed(points: Sequence[Point], place: Point, angle: float = 0.0, scale: float = 1.0) -> tuple[Point, ...]:
    """Points of a small drawing around (0, 0): scaled, turned counter-clockwise by `angle`, and moved to `place`."""
    sin, cos = math.sin(angle), math.cos(angle)
    return tuple((place[0] + scale * (x * cos - y * sin), place[1] + scale * (x * sin + y * cos)) for x, y in points)
