"""Replay in shared memory: every sampler writes transitions into a region of its own, and the learner draws from all.

Each region has one writer and two counters: how many rows it has ever *claimed* and how many of them are *written*.
A row is claimed before its memory is touched and counted as written when it is complete, so a reader knows which
places hold whole rows at any moment, also when a writer dies half-way. Nobody waits for anybody: a reader looks at the
counters again afterwards, and draws anew what may have been written over meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from slipstream.runs.array_file import Streamed
from slipstream.shared_memory import Block, fence
from slipstream.training.pipeline.priorities import Picked, Priorities

CHUNK = 1 << 24
"""Bytes of a region that are copied at once when it is saved."""

TRIES = 100
"""How often places that are being written are looked at again when a ring is saved."""


def ring_shapes(regions: int, rows: int, width: int, pixels: int) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Shapes of a ring's arrays.

    Args:
        regions: one for each sampler.
        rows: of each region.
        width: 32-bit floats of a row.
        pixels: bytes of a row's pictures; 0: there are none.
    """
    return {
        "claimed": ((regions,), np.int64),
        "written": ((regions,), np.int64),
        "numbers": ((regions, rows, width), np.float32),
        "pixels": ((regions, rows, pixels), np.uint8),
    }


class Region:
    """A sampler's end of the ring."""

    def __init__(self, block: Block, number: int):
        self._number = number
        self._claimed, self._written = block["claimed"], block["written"]
        self._numbers, self._pixels = block["numbers"][number], block["pixels"][number]
        self.rows = len(self._numbers)

    def write(self, numbers: np.ndarray, pixels: np.ndarray | None = None) -> None:
        """Add complete transitions.

        Args:
            numbers: `[count, width]`, fewer than the region has rows.
            pixels: `[count, bytes]`.
        """
        count = len(numbers)
        begin = int(self._written[self._number])
        if begin + count > self._claimed[self._number]:
            self._claimed[self._number] = begin + count
        # else a writer that died has claimed this. It may be half-written, so it stays claimed until it is whole.
        fence()
        place = begin % self.rows
        first = min(count, self.rows - place)
        for kept, new in ((self._numbers, numbers), (self._pixels, pixels)):
            if new is not None:
                kept[place : place + first] = new[:first]
                if first < count:
                    kept[: count - first] = new[first:]
        fence()
        self._written[self._number] = begin + count


class Ring:
    """The learner's end: draws, saves, and restores."""

    def __init__(self, regions: int, capacity: int, width: int, pixels: int = 0, *, prioritised: bool = False):
        """Args:
        regions: one for each sampler.
        capacity: rows of all regions together, rounded up to whole regions.
        width: 32-bit floats of a row.
        pixels: bytes of a row's pictures; 0: there are none.
        prioritised: whether rows can be drawn by priorities.
        """
        self.rows = -(-capacity // regions)
        self.regions, self.width, self.pixels = regions, width, pixels
        self.block = Block(ring_shapes(regions, self.rows, width, pixels))
        self._claimed, self._written = self.block["claimed"], self.block["written"]
        self._flat = self.block["numbers"].reshape(regions * self.rows, width)
        self._flat_pixels = self.block["pixels"].reshape(regions * self.rows, pixels)
        self._spare = max(1, self.rows // 32)
        """Rows that would be overwritten next and are left alone, so that hardly any is drawn in vain."""
        self.priorities = Priorities(regions, self.rows) if prioritised else None
        self.saved_at, self.saving_seconds = 0.0, 0.0
        """When a checkpoint was last given all rows (`time.perf_counter`), and how long that took."""

    @property
    def written(self) -> int:
        """Rows ever written."""
        return int(self._written.sum())

    @property
    def available(self) -> int:
        """How many rows can be drawn from."""
        return int(self._span()[1].sum())

    def _span(self) -> tuple[np.ndarray, np.ndarray]:
        """The first row that is surely whole and how many follow it, of each region."""
        written = self._written.copy()
        fence()
        claimed = self._claimed.copy()
        spare = np.where(claimed > self.rows, self._spare, 0)
        first = np.minimum(np.maximum(claimed - self.rows + spare, 0), written)
        return first, written - first

    def draw(
        self,
        count: int,
        rng: np.random.Generator,
        numbers: np.ndarray,
        pixels: np.ndarray | None = None,
        picked: Picked | None = None,
    ) -> tuple[float, int]:
        """Fill in transitions drawn from all that are there: uniformly, or by their priorities if the ring has them.

        Args:
            count: how many.
            rng: chance.
            numbers: where they go, `[count, width]`.
            pixels: and their pictures, `[count, bytes]`.
            picked: and which they are, for a ring with priorities.

        Returns:
            How many transitions are newer than those that were drawn, on average; and how many had to be drawn anew.
        """
        where = np.arange(count)
        age, again = 0.0, 0
        while len(where):
            first, spans = self._span()
            ends = np.cumsum(spans)
            if not ends[-1]:
                if not self.written:
                    raise ValueError("There is nothing in the ring to draw from.")
                continue  # writers have gone once around a small ring while we looked at their counts
            if self.priorities is None:
                drawn = rng.integers(ends[-1], size=len(where))
                region = np.searchsorted(ends, drawn, side="right")
                offset = drawn - (ends - spans)[region]
                row = first[region] + offset
            else:
                self.priorities.follow(first, spans)
                found = self.priorities.draw(len(where), rng)
                region, row = found.region, found.row
                offset = row - first[region]
                for kept, new in zip(picked or (), found):
                    kept[where] = new
            self._gather(region * self.rows + row % self.rows, where, count, numbers, pixels)
            fence()
            # What has been claimed since lies where rows were that are older by a whole region.
            good = row >= self._claimed[region] - self.rows
            age += float(((1.0 - offset / spans[region]) * good).sum()) * float(ends[-1])
            where = where[~good]
            again += len(where)
        return age / count, again

    def _gather(
        self, place: np.ndarray, where: np.ndarray, count: int, numbers: np.ndarray, pixels: np.ndarray | None
    ) -> None:
        for source, target in ((self._flat, numbers), (self._flat_pixels, pixels)):
            if target is None:
                continue
            if len(where) == count:
                np.take(source, place, axis=0, out=target, mode="clip")
            else:
                target[where] = source[place]

    # Checkpoints.

    def save(self) -> dict[str, np.ndarray | Streamed]:
        """What a checkpoint keeps: the rows as bytes, region by region and the oldest first.

        They are read when they are written to disk, while samplers go on; what is written over meanwhile is newer.
        """
        written = self._written.copy()
        filled = np.minimum(written, self.rows)
        heads = np.where(written > self.rows, written % self.rows, 0)
        size = 4 * self.width + self.pixels
        return {
            "rows": Streamed((int(filled.sum()), size), np.uint8, lambda: self._chunks(filled, heads, size)),
            "filled": filled,
        }

    def rows_in_memory(self) -> dict[str, np.ndarray]:
        """What `save` would save, at once."""
        saved = self.save()
        rows, filled = saved["rows"], saved["filled"]
        assert isinstance(rows, Streamed) and isinstance(filled, np.ndarray)
        chunks = list(rows.chunks())
        return {"rows": np.concatenate(chunks) if chunks else np.zeros(rows.shape, np.uint8), "filled": filled}

    def _chunks(self, filled: np.ndarray, heads: np.ndarray, size: int) -> Iterator[np.ndarray]:
        step, began = max(1, CHUNK // size), time.perf_counter()
        for region, (count, head) in enumerate(zip(filled.tolist(), heads.tolist())):
            for begin in range(0, count, step):
                places = (head + np.arange(begin, min(begin + step, count))) % self.rows
                yield self._whole_rows(region, places, size)
        self.saved_at = time.perf_counter()
        self.saving_seconds = self.saved_at - began

    def _whole_rows(self, region: int, places: np.ndarray, size: int) -> np.ndarray:
        """The rows at some places of a region, as bytes; none is half of one and half of another."""
        rows = np.empty((len(places), size), np.uint8)
        left = np.arange(len(places))
        for attempt in range(TRIES):
            written = int(self._written[region])
            fence()
            rows[left, : 4 * self.width] = self.block["numbers"][region, places[left]].view(np.uint8)
            rows[left, 4 * self.width :] = self.block["pixels"][region, places[left]]
            fence()
            touched = (places[left] - written) % self.rows < int(self._claimed[region]) - written
            left = left[touched]
            if not len(left):
                return rows
            if attempt:
                time.sleep(0.001)
        # A writer has died here and the next one has not come so far yet: others of the chunk stand in for these rows.
        whole = np.setdiff1d(np.arange(len(places)), left)
        rows[left] = rows[whole[left % len(whole)]] if len(whole) else 0
        return rows

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        """Fill an empty ring with what another one has saved, however many regions that had; the newest if not all fit.

        Priorities are not saved: all rows begin with the same.

        Raises:
            ValueError: if its rows are not like those of this ring.
        """
        rows, filled = saved["rows"], saved["filled"]
        size = 4 * self.width + self.pixels
        if rows.ndim != 2 or rows.shape[1] != size:
            raise ValueError(f"its rows have {rows.shape[-1]} bytes, expected {size}")
        # By their age within their regions, the oldest first; dealt like cards, so that all regions are equally old.
        age = np.concatenate([np.arange(n) / max(n, 1) for n in filled.tolist()] or [np.zeros(0)])
        order = np.argsort(age, kind="stable")[-self.regions * self.rows :]
        for region in range(self.regions):
            mine = order[region :: self.regions]
            step = max(1, CHUNK // size)
            for begin in range(0, len(mine), step):
                part = rows[mine[begin : begin + step]]
                there = slice(begin, begin + len(part))
                self.block["numbers"][region, there] = np.ascontiguousarray(part[:, : 4 * self.width]).view(np.float32)
                self.block["pixels"][region, there] = part[:, 4 * self.width :]
            self._claimed[region] = self._written[region] = len(mine)

    def forget(self) -> None:
        """Be empty. Nobody may be writing meanwhile."""
        self._claimed[:] = self._written[:] = 0
        if self.priorities is not None:
            self.priorities.forget()

    def close(self) -> None:
        self.block.close()
