"""Uneven ground in levels: hills, bumps and obstacles that grow from nothing, drawn once from a seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import drjit as dr
import numpy as np

from slipstream import physics
from slipstream.arrays import ArrayTypes, array_types

DEPTH = 4.0
"""The ground is within so many metres above or below where robots begin."""
HILL, HILL_SLOPE = 8.0, 0.3
"""The size of hills in metres, and their typical slope at the last level."""
BUMP, BUMP_HEIGHT = 1.0, 0.08
"""The size of bumps, and their typical height at the last level, in metres."""
FIRST_OBSTACLES, OBSTACLE_SHARE = 0.3, 0.12
"""From this share of the levels on there are obstacles; at the last one they cover this share of the ground."""
OBSTACLE_SIZE, OBSTACLE_HEIGHT = (0.5, 2.0), (0.2, 0.8)
RUBBLE, RUBBLE_HEIGHT = 0.25, 0.06
"""The size of what lies on rough ground, and its typical height at the last level, in metres."""
TREAD, RISER = 0.4, 0.18
"""How deep stairs are, and how high at the last level, in metres."""
FLIGHT = 4
"""Stairs go up so many steps, and down again."""


@dataclass(frozen=True)
class Ground:
    """Square height fields, some for each level.

    Attributes:
        levels: how many levels; level 0 is flat.
        variants: fields of each level.
        half_size: from the middle of a field, where robots begin, to its edges, in metres.
        spacing: of its points, in metres.
        seed: the same seed gives the same ground.
        shape: `hills` with obstacles, `rough` ground full of small bumps, or `stairs` around the middle.
        pad: where robots begin, the ground is flat within this radius, and its own again after as much more.
    """

    levels: int = 10
    variants: int = 3
    half_size: float = 25.0
    spacing: float = 0.25
    seed: int = 0
    shape: Literal["hills", "rough", "stairs"] = "hills"
    pad: float = 2.0

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
        if self.shape == "stairs":
            ground = hardness * self._stairs(rng, along)
        else:
            uneven = self._hills if self.shape == "hills" else self._rubble
            away = np.hypot(*np.meshgrid(along, along))
            ground = uneven(rng, along, hardness) * np.clip((away - self.pad) / self.pad, 0.0, 1.0)
        return np.clip(ground, -DEPTH, DEPTH).astype(np.float32)

    def _hills(self, rng: np.random.Generator, along: np.ndarray, hardness: float) -> np.ndarray:
        hills, bumps = (self._noise(rng, size) for size in (HILL, BUMP))
        obstacles = self._obstacles(rng, along, hardness)
        return hardness * (HILL_SLOPE * HILL / math.pi * hills + BUMP_HEIGHT * bumps) + obstacles

    def _rubble(self, rng: np.random.Generator, along: np.ndarray, hardness: float) -> np.ndarray:
        return hardness * (RUBBLE_HEIGHT * self._noise(rng, RUBBLE) + BUMP_HEIGHT * self._noise(rng, BUMP))

    def _stairs(self, rng: np.random.Generator, along: np.ndarray) -> np.ndarray:
        """Square flights around the middle: up and down again, or first down, by turns and by chance."""
        away = np.maximum(*np.abs(np.meshgrid(along, along)))
        steps = np.maximum(np.floor((away - self.pad) / TREAD) + 1, 0)
        climbed = FLIGHT - np.abs(steps % (2 * FLIGHT) - FLIGHT)
        return RISER * rng.choice([-1.0, 1.0]) * climbed

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

    def lay(self, spec: Any, geom: Any) -> None:
        """Make a geom of a description of MuJoCo's a height field, at first a flat one."""
        import mujoco

        engine: Any = mujoco  # its own description leaves these functions out
        flat = np.full(self.points**2, 0.5, np.float32)
        size = [self.half_size, self.half_size, 2 * DEPTH, 1.0]
        spec.add_hfield(name="terrain", size=size, nrow=self.points, ncol=self.points, userdata=flat)
        geom.type, geom.hfieldname, geom.pos = engine.mjtGeom.mjGEOM_HFIELD, "terrain", [0.0, 0.0, -DEPTH]


class Uneven:
    """The ground under robots whose worlds are on different levels: its height fields, wherever they are needed."""

    def __init__(self, ground: Ground):
        self.ground = ground
        self.heights = ground.heights()
        self._made: dict[Any, physics.Terrain] = {}

    def put_under(self, path: Path, floor: str) -> Any:
        """MuJoCo's model of an MJCF file whose floor has become a height field."""
        import mujoco

        engine: Any = mujoco
        spec = engine.MjSpec.from_file(str(path))
        self.ground.lay(spec, spec.geom(floor))
        return self.level_out(spec.compile())

    def level_out(self, m: Any) -> Any:
        """Make the field of MuJoCo's model flat (what it was compiled with is scaled to its whole height)."""
        _show(m, np.zeros((self.ground.points, self.ground.points)))
        return m

    def tables(self, model: physics.Model, types: ArrayTypes) -> list[Any]:
        """All fields on the device, for `Env.tables`."""
        kind = dr.backend_v(types.Float)
        if kind not in self._made:
            self._made[kind] = physics.make_terrain(model, types, self.heights + DEPTH)
        return [self._made[kind].corners] if types.compiled else []

    def start(self, model: physics.Model, qpos: Sequence[Any]) -> physics.Terrain:
        """The first field: robots begin in the middle, which is flat and alike on all of them."""
        traced = next((q for q in qpos if dr.is_jit_v(q)), 0.0)
        if not self._made:  # the features are counted before there are any worlds
            self.tables(model, array_types("scalar"))
        return self._made[dr.backend_v(traced)]

    def field(self, model: physics.Model, state: Any) -> physics.Terrain:
        """What each world stands on: its state has a `level` and a `variant`."""
        return replace(self.start(model, state.qpos), level=state.level * self.ground.variants + state.variant)

    def heights_around(
        self,
        model: physics.Model,
        state: Any,
        heading: tuple[Any, Any],
        ahead: Sequence[float],
        aside: Sequence[float],
    ) -> list[Any]:
        """The ground around each robot, relative to that below it.

        Args:
            heading: sine and cosine of the direction it faces.
            ahead: distances in that direction, in metres.
            aside: distances to its left.
        """
        (sin, cos), (x, y), terrain = heading, state.qpos[:2], self.field(model, state)
        below, _ = physics.surface(model, terrain, x, y)
        places = ((x + a * cos - s * sin, y + a * sin + s * cos) for a in ahead for s in aside)
        return [physics.surface(model, terrain, *place)[0] - below for place in places]

    def show(self, m: Any, state: Mapping[str, np.ndarray]) -> None:
        """Give MuJoCo's model the ground of the (only) world of a state, as `Worlds.get_state` returned it."""
        _show(m, self.heights[state["level"][0] * self.ground.variants + state["variant"][0]])


def _show(m: Any, heights: np.ndarray) -> None:
    start = int(m.hfield_adr[m.hfield("terrain").id])
    m.hfield_data[start : start + heights.size] = (heights.ravel() + DEPTH) / (2 * DEPTH)
