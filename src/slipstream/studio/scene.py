"""What is seen of worlds: the part of the page that moves."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from slipstream.studio.stage import State

SKY_ABOVE, SKY_BELOW = (168, 198, 226), (240, 243, 246)
FLOOR, CELLS, LINES = (226, 230, 235), (203, 209, 217), (176, 184, 194)
SECTION, CELL = 5.0, 1.0
"""Metres between strong lines on the floor, and between thin ones."""

ROOT = "/world"
"""Where in viser's tree of things everything is that belongs to the worlds."""


class Scene(ABC):
    """Draws states of worlds on a page.

    Attributes:
        server: the page.
        focus: the number of the world that is followed.
        following: whether the camera goes with it.
        camera: where viewers begin: from where they look, and at what.
        on_click: is called with the number of a world that somebody clicked on, and the direction of their look.
    """

    camera: tuple[tuple[float, float, float], tuple[float, float, float]] = ((0.0, -6.0, 3.0), (0.0, 0.0, 0.5))

    def __init__(self, server: Any):
        self.server, self.focus, self.following = server, 0, True
        self.on_click: Any = None

    @abstractmethod
    def show(self, before: State, after: State, share: float, ended: np.ndarray) -> None:
        """Draw a moment between two states.

        Args:
            before: of all worlds.
            after: a step later.
            share: how far it is from one to the other, 0 to 1.
            ended: in which worlds `after` is the beginning of another episode, `[worlds]`.
        """

    def follow(self, world: int) -> None:
        """Follow another world from now on."""
        self.focus = world

    def close(self) -> None:
        """Take everything away."""
        self.server.scene.remove_by_name(ROOT)


def square_places(count: int, along: float, across: float) -> np.ndarray:
    """Places for so many worlds on a square grid around the origin, the first one in its middle, `[count, 2]`."""
    side = math.ceil(math.sqrt(count))
    middle = (side - 1) // 2
    rows, columns = (axis.reshape(-1) - middle for axis in np.meshgrid(np.arange(side), np.arange(side), indexing="ij"))
    nearest_first = np.argsort(np.hypot(rows, columns), kind="stable")[:count]
    return np.stack([rows[nearest_first] * along, columns[nearest_first] * across], -1).astype(np.float64)


def paint_sky(server: Any) -> None:
    """A sky that is blue above and pale below, behind everything."""
    share = np.linspace(0.0, 1.0, 256)[:, None, None] ** 0.7
    sky = (1.0 - share) * np.array(SKY_ABOVE, float) + share * np.array(SKY_BELOW, float)
    server.scene.set_background_image(np.repeat(sky, 2, axis=1).round().astype(np.uint8), format="png")


def hex_colour(colour: str) -> tuple[int, int, int]:
    """`#rrggbb` as red, green and blue."""
    digits = colour.removeprefix("#")
    red, green, blue = (int(digits[i : i + 2], 16) for i in (0, 2, 4))
    return red, green, blue


def add_floor(server: Any, height: float) -> Any:
    """A floor without end, with lines on it."""
    return server.scene.add_grid(
        f"{ROOT}/floor",
        infinite_grid=True,
        cell_size=CELL,
        section_size=SECTION,
        cell_color=CELLS,
        section_color=LINES,
        cell_thickness=0.8,
        section_thickness=1.2,
        fade_distance=90.0,
        fade_strength=1.5,
        plane_color=FLOOR,
        plane_opacity=1.0,
        shadow_opacity=0.35,
        position=(0.0, 0.0, height),
    )
