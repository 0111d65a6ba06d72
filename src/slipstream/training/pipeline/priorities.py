"""How likely each row of the ring is drawn: the learner's own memory, of which samplers know nothing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

BLOCK = 32
"""Priorities are added up in blocks of so many, so that a draw looks through few of them."""


class Picked(NamedTuple):
    """Which rows were drawn, and by which priority, `[count]` each. Rows are counted up from the first of a region."""

    region: np.ndarray
    row: np.ndarray
    priority: np.ndarray

    @staticmethod
    def room(count: int) -> Picked:
        return Picked(np.zeros(count, np.int64), np.zeros(count, np.int64), np.ones(count, np.float32))


class Priorities:
    """Of all places of a ring; 0 where there is nothing to be drawn."""

    def __init__(self, regions: int, rows: int):
        """Args:
        regions: of the ring.
        rows: of each region.
        """
        self._rows = rows
        self._blocks = np.zeros((-(-regions * rows // BLOCK), BLOCK), np.float32)
        self._flat = self._blocks.reshape(-1)
        self._sums = np.zeros(len(self._blocks))
        self._first, self._end = np.zeros(regions, np.int64), np.zeros(regions, np.int64)
        """Which rows of each region have a priority."""

    def follow(self, first: np.ndarray, spans: np.ndarray) -> None:
        """What is new in the ring is drawn soon: it gets the largest priority. What is no longer there gets none.

        Args:
            first: the first row of each region that can be drawn, `[regions]`.
            spans: and how many there are, `[regions]`.
        """
        end = first + spans
        changed = np.flatnonzero((first != self._first) | (end != self._end))
        most = (self._flat.max() or 1.0) if len(changed) else 1.0
        for region in changed.tolist():
            self._fill(region, self._first[region], min(first[region], self._end[region]), 0.0)
            self._fill(region, max(first[region], self._end[region]), end[region], most)
        self._first, self._end = first, end

    def draw(self, count: int, rng: np.random.Generator) -> Picked:
        """Rows, each as often as its priority says. There must be one."""
        ends = np.cumsum(self._sums)
        point = rng.random(count) * ends[-1]
        block = np.minimum(np.searchsorted(ends, point, side="right"), np.searchsorted(ends, ends[-1]))
        within = np.cumsum(self._blocks[block], axis=1)
        left = (point - (ends[block] - self._sums[block])).astype(np.float32)
        # Rounding may lead past the last row of a block; rows without a priority are never taken.
        left = np.clip(left, 0.0, within[:, -1] * np.float32(1.0 - 2.0**-22))
        place = block * BLOCK + (within > left[:, None]).argmax(axis=1)
        region = place // self._rows
        first = self._first[region]
        return Picked(region, first + (place - region * self._rows - first) % self._rows, self._flat[place])

    def change(self, picked: Picked, priority: np.ndarray) -> None:
        """Give rows another priority, unless something else has been written over them since they were drawn.

        Args:
            picked: rows.
            priority: `[count]`, positive.
        """
        there = picked.row >= self._first[picked.region]
        region, row = picked.region[there], picked.row[there]
        place = region * self._rows + row % self._rows
        self._flat[place] = priority[there]
        self._add_up(place // BLOCK)

    def forget(self) -> None:
        """The ring is empty."""
        for array in (self._flat, self._sums, self._first, self._end):
            array[:] = 0

    def _fill(self, region: int, begin: int, end: int, priority: float) -> None:
        """Set the priority of some rows of a region, from one to before another: at most two pieces of memory."""
        if begin >= end:
            return
        start, place, count = region * self._rows, begin % self._rows, end - begin
        over = max(0, place + count - self._rows)
        for a, b in ((start + place, start + place + count - over), (start, start + over)):
            self._flat[a:b] = priority
            self._add_up(slice(a // BLOCK, -(-b // BLOCK)))

    def _add_up(self, blocks: np.ndarray | slice) -> None:
        self._sums[blocks] = self._blocks[blocks].sum(axis=1, dtype=np.float64)
