"""What is seen of worlds: the part of the page that moves."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from slipstream.studio.stage import State

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
