"""Pictures of worlds (`envs/drawing.py`) as thin solids: what lies over something else in a picture is thicker."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from slipstream.envs.drawing import Circle, Line, Picture, Point, Polygon, Shape, Text

CORNERS = 20
"""Of a circle."""
THIN, THICK = 0.01, 0.045
"""How thick the lowest and the topmost shape of a picture are, as shares of its width or height."""

_angles = np.linspace(0.0, 2.0 * math.pi, CORNERS, endpoint=False)
CIRCLE = np.stack([np.cos(_angles), np.sin(_angles)], -1)


@dataclass
class Solids:
    """Triangles by colour."""

    vertices: dict[str, list[np.ndarray]] = field(default_factory=dict)
    faces: dict[str, list[np.ndarray]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, outline: np.ndarray, depth: float, colour: str, frame: Frame) -> None:
        """A prism over an outline.

        Args:
            outline: corners `[n, 2]`, in the lengths of the picture.
            depth: how thick it is.
            colour: `#rrggbb`.
            frame: where the picture is.
        """
        count = len(outline)
        front, back = frame.placed(outline, depth), frame.placed(outline, 0.0)
        around = np.arange(count)
        after = (around + 1) % count
        sides = np.concatenate(
            [np.stack([around, around + count, after], 1), np.stack([after, around + count, after + count], 1)]
        )
        start = self.counts.get(colour, 0)
        self.vertices.setdefault(colour, []).append(np.concatenate([front, back]))
        self.faces.setdefault(colour, []).append(np.concatenate([triangulated(outline), sides]) + start)
        self.counts[colour] = start + 2 * count

    def meshes(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Vertices `[points, 3]` and faces `[triangles, 3]` by colour."""
        return {
            colour: (
                np.concatenate(self.vertices[colour]).astype(np.float32),
                np.concatenate(self.faces[colour]).astype(np.uint32),
            )
            for colour in self.vertices
        }


@dataclass(frozen=True)
class Frame:
    """Where a picture is in space.

    Attributes:
        origin: of its middle.
        right: a unit of length of the picture to the right.
        up: likewise.
        front: towards whoever looks at it; its length is that of the others.
        middle: what of the picture is there.
        size: its width or height, whichever is more, in its own lengths.
    """

    origin: np.ndarray
    right: np.ndarray
    up: np.ndarray
    front: np.ndarray
    middle: np.ndarray
    size: float

    def placed(self, points: np.ndarray, depth: float) -> np.ndarray:
        """Points `[n, 2]` of the picture in space, `[n, 3]`."""
        x, y = (points - self.middle).T
        return self.origin + x[:, None] * self.right + y[:, None] * self.up + depth * self.front


def add_picture(solids: Solids, picture: Picture, frame: Frame) -> list[tuple[Text, np.ndarray]]:
    """Add a picture's shapes to solids; its texts are returned with their places."""
    left, bottom, right, top = picture.bounds
    board = np.array([(left, bottom), (right, bottom), (right, top), (left, top)])
    solids.add(board, 0.1 * THIN * frame.size, picture.background, frame)
    texts = []
    for number, shape in enumerate(picture.shapes):
        depth = frame.size * (THIN + (THICK - THIN) * (number + 1) / len(picture.shapes))
        if isinstance(shape, Text):
            texts.append((shape, frame.placed(np.array([shape.place]), depth)[0]))
        else:
            for outline in outlines(shape):
                seen = cut_off(outline, picture.bounds)
                if len(seen) > 2:
                    solids.add(seen, depth, shape.colour, frame)
    return texts


def cut_off(outline: np.ndarray, bounds: tuple[float, float, float, float]) -> np.ndarray:
    """What of an outline is within a picture, `[n, 2]`; nothing, if it is all outside (Sutherland and Hodgman 1974)."""
    low, high = np.array(bounds[:2]), np.array(bounds[2:])
    if (outline >= low).all() and (outline <= high).all():
        return outline
    for axis, edge, sign in ((0, low[0], 1.0), (0, high[0], -1.0), (1, low[1], 1.0), (1, high[1], -1.0)):
        inside = sign * (outline[:, axis] - edge)
        kept: list[np.ndarray] = []
        for i in range(len(outline)):
            before, here = inside[i - 1], inside[i]
            if (before < 0.0) != (here < 0.0):
                kept.append(outline[i - 1] + before / (before - here) * (outline[i] - outline[i - 1]))
            if here >= 0.0:
                kept.append(outline[i])
        if not kept:
            return np.empty((0, 2))
        outline = np.stack(kept)
    return outline


def outlines(shape: Shape) -> list[np.ndarray]:
    """A shape as outlines `[n, 2]`, counter-clockwise, that are filled."""
    match shape:
        case Circle(centre, radius, _):
            return [np.array(centre) + radius * CIRCLE]
        case Polygon(points, _):
            return [_counter_clockwise(np.array(points, np.float64))]
        case Line(points, width, _):
            corners = np.array(points, np.float64)
            bars = [_bar(a, b, width) for a, b in zip(corners[:-1], corners[1:]) if np.hypot(*(b - a)) > 0]  # noqa: RUF007
            return bars + [corner + 0.5 * width * CIRCLE for corner in corners]
        case _:
            raise TypeError(f"Env.draw returned a shape of type {type(shape).__name__}; see envs/drawing.py.")


def _bar(start: np.ndarray, end: np.ndarray, width: float) -> np.ndarray:
    along = (end - start) / np.hypot(*(end - start))
    aside = 0.5 * width * np.array([-along[1], along[0]])
    return np.stack([start - aside, end - aside, end + aside, start + aside])


def _counter_clockwise(outline: np.ndarray) -> np.ndarray:
    x, y = outline.T
    area = float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y))
    return outline if area >= 0 else outline[::-1]


def triangulated(outline: np.ndarray) -> np.ndarray:
    """Triangles that fill an outline, `[n - 2, 3]`, numbers of its corners."""
    count = len(outline)
    edges = np.roll(outline, -1, axis=0) - outline
    turns = edges[:, 0] * np.roll(edges[:, 1], -1) - edges[:, 1] * np.roll(edges[:, 0], -1)
    if (turns >= 0).all():
        return _fan(count)
    return _clipped(tuple((float(x), float(y)) for x, y in outline))


@lru_cache(maxsize=256)
def _fan(count: int) -> np.ndarray:
    others = np.arange(1, count - 1)
    return np.stack([np.zeros_like(others), others, others + 1], 1)


@lru_cache(maxsize=256)
def _clipped(outline: Sequence[Point]) -> np.ndarray:
    """Triangles of an outline that is not convex, cut off one by one (what stays the same is remembered)."""
    left = list(range(len(outline)))
    triangles = []
    while len(left) > 3:
        for i in range(len(left)):
            a, b, c = left[i - 1], left[i], left[(i + 1) % len(left)]
            corner = (outline[a], outline[b], outline[c])
            others = (outline[k] for k in left if k not in (a, b, c))
            if _turn(*corner) > 0 and not any(_inside(p, *corner) for p in others):
                break
        else:
            i, (a, b, c) = 1, left[:3]  # an outline that crosses itself: some way to fill it
        triangles.append((a, b, c))
        left.pop(i)
    return np.array([*triangles, tuple(left)])


def _turn(a: Point, b: Point, c: Point) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _inside(p: Point, a: Point, b: Point, c: Point) -> bool:
    return _turn(a, b, p) >= 0 and _turn(b, c, p) >= 0 and _turn(c, a, p) >= 0
