"""Uneven ground in levels: hills, bumps and obstacles that grow from nothing, drawn once from a seed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

DEPTH = 4.0
"""The ground is within so many metres above or below where robots begin."""
PAD, PAD_EDGE = 2.0, 2.0
"""Where robots begin, the ground is flat within this radius, and its own again after as much more."""
HILL, HILL_SLOPE = 8.0, 0.3
"""The size of hills in metres, and their typical slope at the last level."""
BUMP, BUMP_HEIGHT = 1.0, 0.08
"""The size of bumps, and their typical height at the last level, in metres."""
FIRST_OBSTACLES, OBSTACLE_SHARE = 0.3, 0.12
"""From this share of the levels on there are obstacles; at the last one they cover this share of the ground."""
OBSTACLE_SIZE, OBSTACLE_HEIGHT = (0.5, 2.0), (0.2, 0.8)


@dataclass(frozen=True)
class Ground:
    """Square height fields, some for each level.

    Attributes:
        levels: how many levels; level 0 is flat.
        variants: fields of each level.
        half_size: from the middle of a field, where robots begin, to its edges, in metres.
        spacing: of its points, in metres.
        seed: the same seed gives the same ground.
    """

    levels: int = 10
    variants: int = 3
    half_size: float = 25.0
    spacing: float = 0.25
    seed: int = 0

    def __post_init__(self) -> None:
        if self.levels < 1 or self.variants < 1:
            raise ValueError(f"There must be a level and a variant, got {self.levels} and {self.variants}.")

    @property
    def points(self) -> int:
        """Along each side."""
        return 2 * round(self.half_size / self.spacing) + 1

    def heights(self) -> np.ndarray:
        """Of all fields in metres over the flat middle, `[levels * variants, points, points]`, variants last."""
        return np.stack(
            [self.field(level, variant) for level in range(self.levels) for variant in range(self.variants)]
        )

    def field(self, level: int, variant: int = 0) -> np.ndarray:
        """One field, `[points, points]` (y, x). A variant has the same hills at every level, only higher."""
        hardness = level / max(self.levels - 1, 1)
        rng = np.random.default_rng((self.seed, variant))
        along = np.linspace(-self.half_size, self.half_size, self.points)
        hills, bumps = (self._noise(rng, size) for size in (HILL, BUMP))
        obstacles = self._obstacles(rng, along, hardness)
        ground = hardness * (HILL_SLOPE * HILL / math.pi * hills + BUMP_HEIGHT * bumps) + obstacles
        away = np.hypot(*np.meshgrid(along, along))
        ground *= np.clip((away - PAD) / PAD_EDGE, 0.0, 1.0)
        return np.clip(ground, -DEPTH, DEPTH).astype(np.float32)

    def _noise(self, rng: np.random.Generator, size: float) -> np.ndarray:
        """Smooth noise of unit variance: random numbers without the waves that are shorter than twice `size`."""
        waves = np.fft.rfft2(rng.normal(size=(self.points, self.points)))
        y, x = np.fft.fftfreq(self.points, self.spacing), np.fft.rfftfreq(self.points, self.spacing)
        waves *= np.exp(-((x[None] ** 2 + y[:, None] ** 2) * 2.0 * size**2))
        noise = np.fft.irfft2(waves, (self.points, self.points))
        return (noise - noise.mean()) / noise.std()

    def _obstacles(self, rng: np.random.Generator, along: np.ndarray, hardness: float) -> np.ndarray:
        """Blocks with sides as steep as the spacing allows; the first ones at every level are the same."""
        blocks = np.zeros((self.points, self.points))
        area = OBSTACLE_SHARE * (2 * self.half_size) ** 2 / np.mean(OBSTACLE_SIZE) ** 2
        share = max(hardness - FIRST_OBSTACLES, 0.0) / (1.0 - FIRST_OBSTACLES)
        most = round(area)
        middles = rng.uniform(-self.half_size, self.half_size, (most, 2))
        sizes, heights = rng.uniform(*OBSTACLE_SIZE, (most, 2)), rng.uniform(*OBSTACLE_HEIGHT, most)
        for (x, y), (width, length), height in list(zip(middles, sizes, heights))[: round(share * most)]:
            inside = np.ix_(np.abs(along - y) <= 0.5 * length, np.abs(along - x) <= 0.5 * width)
            blocks[inside] = np.maximum(blocks[inside], height)
        return blocks

    def put_under(self, path: Path, floor: str = "floor") -> Any:
        """MuJoCo's model of an MJCF file whose floor has become a height field, at first a flat one."""
        import mujoco

        engine: Any = mujoco  # its own description leaves these functions out
        spec = engine.MjSpec.from_file(str(path))
        flat = np.full(self.points**2, 0.5, np.float32)
        size = [self.half_size, self.half_size, 2 * DEPTH, 1.0]
        spec.add_hfield(name="terrain", size=size, nrow=self.points, ncol=self.points, userdata=flat)
        geom = spec.geom(floor)
        geom.type, geom.hfieldname, geom.pos = engine.mjtGeom.mjGEOM_HFIELD, "terrain", [0.0, 0.0, -DEPTH]
        model = spec.compile()
        show(model, np.zeros((self.points, self.points)))
        return model


def show(model: Any, heights: np.ndarray) -> None:
    """Give MuJoCo's model this ground."""
    model.hfield_data[:] = (heights.ravel() + DEPTH) / (2 * DEPTH)
