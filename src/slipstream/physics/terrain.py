"""Height fields: terrain that geoms walk on.

MuJoCo collides geoms with the prisms of a height field and may find many contacts for one geom. Here a
sphere, each end of a capsule and each lower corner of a box meet the one triangle of the field under them,
as if it were a plane. The two agree where the terrain is smooth on the scale of the geom. Beyond its edges
the field goes on level.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import drjit as dr
import numpy as np

from slipstream.arrays import ArrayTypes
from slipstream.physics import spatial as sp
from slipstream.physics.control import as_array
from slipstream.physics.model import Model
from slipstream.physics.pairs import HeightField
from slipstream.physics.refusal import ModelError
from slipstream.physics.spatial import Scalar


@dataclass
class Terrain:
    """Height fields on the device, and which of them each world stands on.

    Attributes:
        corners: for every cell of every field the heights of its four corners, [fields * cells * 4].
            On the scalar backend a NumPy array [fields * cells, 4].
        packet: the array type of four heights at once; None on the scalar backend.
        fields: how many there are.
        level: the number of a world's field, an integer array (or one number for all).
    """

    corners: Any
    packet: type | None
    fields: int
    level: Any = 0


def make_terrain(model: Model, types: ArrayTypes, heights: np.ndarray | None = None) -> Terrain:
    """Put height fields on the device.

    Args:
        heights: [fields, rows, columns] in metres over the field's base; the model's own unless given.
    """
    field = _field(model)
    if heights is None:
        heights = field.heights[None]
    heights = np.asarray(heights, np.float32)
    if heights.ndim != 3 or heights.shape[1:] != field.heights.shape or not np.isfinite(heights).all():
        rows, columns = field.heights.shape
        raise ModelError(f"Heights must be finite, (fields, {rows}, {columns}); their shape is {heights.shape}.")
    cells = np.stack([heights[:, :-1, :-1], heights[:, :-1, 1:], heights[:, 1:, :-1], heights[:, 1:, 1:]], -1)
    if not types.compiled:
        return Terrain(cells.reshape(-1, 4).astype(np.float64), None, len(heights))
    corners = types.module.Float(np.ascontiguousarray(cells.ravel())) + dr.opaque(types.module.Float, 0.0)
    dr.eval(corners)
    return Terrain(corners, types.module.Array4f, len(heights))


def _field(model: Model) -> HeightField:
    if model.height_field is None:
        raise ModelError("The model has no height field that anything collides with: add an <hfield> and its geom.")
    return model.height_field


def surface(model: Model, terrain: Terrain, x: Scalar, y: Scalar) -> tuple[Scalar, tuple]:
    """The height of the terrain at a place of the world, and its normal there."""
    field = _field(model)
    if terrain.packet is not None:
        x, y = (as_array(v, dr.zeros(dr.value_t(terrain.packet))) if sp.is_constant(v) else v for v in (x, y))
    rows, columns = field.heights.shape
    (px, py, pz), (sx, sy) = field.pos, field.size
    dx, dy = 2 * sx / (columns - 1), 2 * sy / (rows - 1)
    u, v = (x - (px - sx)) * (1.0 / dx), (y - (py - sy)) * (1.0 / dy)
    # A place that is not a number is in the first cell: nothing is read beyond the field.
    column, row = (
        dr.select(w >= 0.0, sp.minimum(dr.floor(w), float(n - 2)), 0.0) for w, n in ((u, columns), (v, rows))
    )
    fx, fy = sp.clip(u - column, 0.0, 1.0), sp.clip(v - row, 0.0, 1.0)
    h00, h10, h01, h11 = _corners(terrain, row, column, (rows - 1, columns - 1))
    # The diagonal of a cell runs from its (0, 0) to its (1, 1) corner, as in MuJoCo.
    below = fx > fy
    slope_x = dr.select(below, h10 - h00, h11 - h01)
    slope_y = dr.select(below, h11 - h10, h01 - h00)
    height = sp.fma(fx, slope_x, sp.fma(fy, slope_y, h00)) + pz
    return height, sp.normalized((slope_x * (-1.0 / dx), slope_y * (-1.0 / dy), 1.0))


def _corners(terrain: Terrain, row: Scalar, column: Scalar, cells: tuple[int, int]) -> list[Scalar]:
    """The heights of a cell's four corners."""
    if terrain.packet is None:
        level = min(max(int(terrain.level), 0), terrain.fields - 1)
        return terrain.corners[(level * cells[0] + int(row)) * cells[1] + int(column)].tolist()
    kind = type(row)
    integer, unsigned = dr.int32_array_t(kind), dr.uint32_array_t(kind)
    level = dr.clip(integer(terrain.level), 0, terrain.fields - 1)
    cell = (unsigned(level) * cells[0] + unsigned(row)) * cells[1] + unsigned(column)
    return [kind(height) for height in dr.gather(terrain.packet, terrain.corners, cell)]


def distance_to_terrain(model: Model, terrain: Terrain) -> Callable[[tuple, tuple], tuple[Scalar, tuple]]:
    """A function of a point and the origin it is relative to: its distance over the ground, the normal."""

    def measure(point: tuple, origin: tuple) -> tuple[Scalar, tuple]:
        x, y = sp.add(point[0], origin[0]), sp.add(point[1], origin[1])
        height, normal = surface(model, terrain, x, y)
        over = sp.add(point[2], sp.sub(origin[2], height))
        return over * normal[2], normal

    return measure
