"""Which agents stand in which cell of a grid over their world, and a walk over the cells around a place.

Whoever looks for its nearest neighbours goes through the cells around its own, block by block, until nobody outside of
them can be nearer than those it has found: an exact search whose cost hardly depends on how many agents there are.

The grid lies over the first two coordinates and is as large as the world's agents are apart. Agents are counted per
cell, the counts summed up, and the agents put in the order of their cells: three passes on the device.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import drjit as dr
import numpy as np

PER_CELL = 4
"""Agents in a cell, if they stand evenly. Fewer make more cells to visit, more make more agents to look at."""
MOST_CELLS = 1024
"""Along a side: as far as `SLACK` covers the rounding of a place, in cells."""
SLACK = 1e-3
"""In cells: by how much the way to the edge of what was visited is taken to be shorter than it was computed to be."""
UNROLL = 4
"""Agents per turn of the walk."""
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Grid:
    """A grid over the agents of each world. All fields but the first are per world."""

    stride: int
    """The most cells a world can have."""
    side: Any
    """Cells along an axis."""
    low: list[Any]
    """Where the grid begins along both axes."""
    scale: list[Any]
    """Cells per unit of length (0: everybody has the same coordinate)."""

    def of(self, world: Any) -> Grid:
        """The grid of each agent's world."""
        side, *rest = (dr.gather(type(v), v, world) for v in (self.side, *self.low, *self.scale))
        return Grid(self.stride, side, rest[:2], rest[2:])

    def place(self, plane: Sequence[Any]) -> list[Any]:
        """Coordinates in cells; not yet whole numbers, and maybe outside of the grid."""
        u = [(p - a) * s for p, a, s in zip(plane, self.low, self.scale)]
        return [dr.select(abs(v) <= LARGEST, v, 0.0) for v in u]

    def cell(self, place: Sequence[Any]) -> list[Any]:
        """The column and the row of the nearest cell."""
        integer = type(self.side)
        return [integer(dr.clip(u, 0.0, type(u)(self.side) - 1.0)) for u in place]


@dataclass(frozen=True)
class Cells:
    """The agents of all worlds in the order of their cells: row by row, world by world."""

    grid: Grid
    first: Any
    """Where each cell begins in the order."""
    records: Any
    """Four numbers of each agent side by side, which one load fetches: x, y, the bits of its number in its world, z."""

    def agent(self, position: Any, there_is: Any) -> tuple[list[Any], Any]:
        """The coordinates (three of them) and the number of the agent at a position, where there is one."""
        float_type = type(self.records)
        x, y, number, z = dr.gather(_record_type(float_type), self.records, position, there_is)
        return [x, y, z], dr.reinterpret_array(dr.uint32_array_t(float_type), number)


def _record_type(float_type: Any) -> Any:
    """Four numbers of a backend."""
    return sys.modules[float_type.__module__].Array4f


def sort_into_cells(places: Sequence[Any], present: Any, size: int) -> Cells:
    """Sort agents into cells.

    Args:
        places: two or three coordinates, `size` agents of each world side by side.
        present: who can be found. Whoever stands nowhere (not a finite number) never is.
        size: how many agents a world has.
    """
    float_type = type(places[0])
    unsigned: Any = dr.uint32_array_t(float_type)
    integer: Any = dr.int32_array_t(float_type)
    for axis in places:
        present = present & (abs(axis) <= LARGEST)
    plane = places[:2]
    most = min(MOST_CELLS, math.isqrt(round(size / PER_CELL)) + 1)
    low = [dr.block_reduce(dr.ReduceOp.Min, dr.select(present, axis, dr.inf), size) for axis in plane]
    high = [dr.block_reduce(dr.ReduceOp.Max, dr.select(present, axis, -dr.inf), size) for axis in plane]
    there = type(low[0])(dr.block_reduce(dr.ReduceOp.Add, unsigned(present), size))
    side = dr.clip(integer(dr.sqrt(there / PER_CELL)), 1, most)
    width = [b - a for a, b in zip(low, high)]
    scale = [dr.select((w > 1e-30) & (w <= LARGEST), type(w)(side) / w, 0.0) for w in width]
    dr.eval(side, low, scale)
    grid = Grid(most * most, side, low, scale)

    lane = dr.arange(unsigned, len(places[0]))
    world = lane // size
    own = grid.of(world)
    column, row = own.cell(own.place(plane))
    cell = dr.fma(world, grid.stride, unsigned(dr.fma(row, own.side, column)))
    tally = dr.zeros(unsigned, len(places[0]) // size * grid.stride + 1)
    # Who comes first within a cell is chance. It makes no difference: neighbours are ordered by distance and number.
    rank = unsigned(dr.scatter_inc(tally, cell, present))
    dr.eval(rank, cell, tally)
    first = dr.prefix_sum(tally)
    place = dr.gather(unsigned, first, cell) + rank
    number = dr.reinterpret_array(float_type, lane - world * size)
    records = dr.empty(float_type, 4 * len(lane))
    dr.scatter(records, _record_type(float_type)(*plane, number, *places[2:] or [0.0]), place, present)
    dr.eval(records)
    return Cells(grid, first, records)


def walk(
    cells: Cells,
    world: Any,
    here: Sequence[Any],
    asked: Any,
    best: Sequence[Any],
    consider: Callable[[Any, Any, list[Any]], list[Any]],
    reach2: Callable[[list[Any]], Any],
) -> list[Any]:
    """Go through the cells around a place, from the nearest outwards, as far as needed.

    Args:
        cells: of all worlds.
        world: in which one each walker is.
        here: its coordinates.
        asked: whether it walks at all.
        best: what it has found before it sets out.
        consider: what it has found once it has seen one more agent: from its place in the order, whether there is
            one, and what was found before.
        reach2: the squared distance beyond which nobody is of interest, from what was found.

    Walkers go in the order of their lanes. To sort them by their cells, so that neighbours in a packet look at the same
    agents, was measured to cost as much as it saves.
    """
    float_type = type(here[0])
    unsigned: Any = dr.uint32_array_t(float_type)
    integer: Any = dr.int32_array_t(float_type)
    grid = cells.grid.of(world)
    u = grid.place(here[:2])
    x, y = grid.cell(u)
    slack = [dr.fma(abs(v), 1e-6, SLACK) for v in u]
    base = integer(world) * grid.stride

    def beyond(ring: Any) -> Any:
        """How far away at least whoever stands outside of the block is, squared (infinitely: there is nobody)."""
        nearest = float_type(dr.inf)
        for v, cell, give, per_unit in zip(u, (x, y), slack, grid.scale):
            left, right = cell - ring, cell + ring + 1
            before = dr.select(left > 0, v - float_type(left) - give, dr.inf)
            after = dr.select(right < grid.side, float_type(right) - v - give, dr.inf)
            nearest = dr.minimum(nearest, dr.minimum(before, after) / per_unit)
        return dr.select(nearest > 0.0, nearest * nearest, 0.0)

    def stretch(ring: Any, leg: Any) -> tuple[Any, Any]:
        """From where to where the agents are of the given part of a ring of cells.

        The first ring is the whole block of three rows. A later one is a row, another row, and for each row between
        them a cell on the left and one on the right.
        """
        row = dr.select(leg == 0, -ring, ring)
        single = leg - 2
        row = dr.select(leg >= 2, (single >> 1) - ring + 1, row)
        whole = (leg < 2) | (ring == 1)
        column = dr.select((single & 1) == 0, x - ring, x + ring)
        begin = dr.select(whole, dr.maximum(x - ring, 0), column)
        end = dr.select(whole, dr.minimum(x + ring, grid.side - 1), column)
        row += y
        inside = (row >= 0) & (row < grid.side) & (begin >= 0) & (end < grid.side)
        start = base + row * grid.side
        return tuple(dr.gather(unsigned, cells.first, unsigned(start + c), inside) for c in (begin, end + 1))

    def body(ring, leg, position, end, *best):
        for i in range(UNROLL):
            best = consider(position + i, position + i < end, list(best))
        position = position + UNROLL
        arrived = position >= end
        leg = dr.select(arrived, leg + 1, leg)
        around = leg >= dr.select(ring == 1, 3, 4 * ring)
        edge2 = beyond(ring)
        over = around & ((edge2 > reach2(list(best))) | (edge2 == dr.inf))
        ring, leg = dr.select(around, ring + 1, ring), dr.select(around, 0, leg)
        ring = dr.select(over, 0, ring)
        next_begin, next_end = stretch(ring, leg)
        position, end = dr.select(arrived, next_begin, position), dr.select(arrived, next_end, end)
        return ring, leg, position, end, *best

    ring = dr.select(asked, integer(1), 0)
    leg = dr.zeros(integer, len(here[0]))
    _, _, _, _, *found = dr.while_loop(
        (ring, leg, *stretch(ring, leg), *best), lambda ring, *_: ring > 0, body, label="cells"
    )
    return found
