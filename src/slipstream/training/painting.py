"""Pictures of worlds (`envs/drawing.py`) as pixels."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from slipstream.envs.drawing import Circle, Line, Picture, Point, Polygon, Shape, Text

SAMPLES = 3
"""Pictures are painted so many times as large, and made smaller: that smooths edges."""


class Painter:
    """Paints pictures into frames of one size.

    Args:
        width: of the frames, in pixels.
        height: likewise.
    """

    def __init__(self, width: int, height: int):
        self.size = (width * SAMPLES, height * SAMPLES)

    def paint(self, picture: Picture) -> np.ndarray:
        """A frame `[height, width, 3]`, bytes."""
        from PIL import Image, ImageDraw

        image = Image.new("RGB", self.size, picture.background)
        canvas = _Canvas(ImageDraw.Draw(image), picture.bounds, self.size)
        for shape in picture.shapes:
            canvas.add(shape)
        return np.asarray(image.reduce(SAMPLES))


class _Canvas:
    """A drawing in which lengths are those of the world."""

    def __init__(self, draw: Any, bounds: tuple[float, float, float, float], size: tuple[int, int]):
        left, bottom, right, top = bounds
        self.draw = draw
        self.scale = min(size[0] / (right - left), size[1] / (top - bottom))
        self.left = 0.5 * (left + right - size[0] / self.scale)
        self.top = 0.5 * (bottom + top + size[1] / self.scale)

    def pixel(self, point: Point) -> Point:
        return (point[0] - self.left) * self.scale, (self.top - point[1]) * self.scale

    def add(self, shape: Shape) -> None:
        match shape:
            case Line(points, width, colour):
                self.line([self.pixel(p) for p in points], width * self.scale, colour)
            case Circle(centre, radius, colour):
                self.disc(self.pixel(centre), radius * self.scale, colour)
            case Polygon(points, colour):
                self.draw.polygon([self.pixel(p) for p in points], fill=colour)
            case Text(place, text, size, colour, align):
                anchor = {"left": "lm", "middle": "mm", "right": "rm"}[align]
                font = _font(max(round(size * self.scale), 1))
                self.draw.text(self.pixel(place), text, fill=colour, anchor=anchor, font=font)
            case _:
                raise TypeError(f"Env.draw returned a shape of type {type(shape).__name__}; see envs/drawing.py.")

    def line(self, pixels: list[Point], width: float, colour: str) -> None:
        self.draw.line(pixels, fill=colour, width=max(round(width), 1), joint="curve")
        if width > SAMPLES:  # the ends of thinner ones are not seen
            for end in (pixels[0], pixels[-1]):
                self.disc(end, 0.5 * width, colour)

    def disc(self, pixel: Point, radius: float, colour: str) -> None:
        x, y = pixel
        self.draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)


@cache
def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)
