"""Named arrays in memory that several processes share.

The memory has no name in any file system: a process gets it by inheriting a file descriptor. It is gone when the last
process that has it is gone, however that one ended, so there is nothing to clean up and nothing to leak.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

ALIGNMENT = 64
"""Bytes: arrays of different writers never share a cache line."""

Shapes = Mapping[str, tuple[tuple[int, ...], np.typing.DTypeLike]]
"""Shape and type of each array."""


class Block:
    """Arrays in one piece of shared memory, zeros at first."""

    def __init__(self, shapes: Shapes, descriptor: int | None = None):
        """Args:
        shapes: of the arrays, by name.
        descriptor: of memory that there is already, made for the same shapes; by default new memory is made.
        """
        self._shapes = {name: (tuple(shape), np.dtype(dtype)) for name, (shape, dtype) in shapes.items()}
        offsets, size = {}, 0
        for name, (shape, dtype) in self._shapes.items():
            offsets[name] = size
            size += -(-int(np.prod(shape, dtype=np.int64)) * dtype.itemsize // ALIGNMENT) * ALIGNMENT
        self.size = max(size, ALIGNMENT)
        self.descriptor = _anonymous_file(self.size) if descriptor is None else descriptor
        memory = mmap.mmap(self.descriptor, self.size)
        self.arrays = {n: np.ndarray(s, t, memory, offsets[n]) for n, (s, t) in self._shapes.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    def to_json(self) -> dict[str, Any]:
        """What a process that inherits the descriptor needs to know."""
        shapes = {name: [list(shape), dtype.str] for name, (shape, dtype) in self._shapes.items()}
        return {"descriptor": self.descriptor, "shapes": shapes}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Block:
        """The same memory, in a process that has inherited it."""
        shapes = {name: (tuple(shape), dtype) for name, (shape, dtype) in data["shapes"].items()}
        return Block(shapes, data["descriptor"])

    def close(self) -> None:
        """Give the descriptor back; arrays that are still in use stay good."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
        self.arrays = {}


def _anonymous_file(size: int) -> int:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("slipstream")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        os.ftruncate(descriptor, size)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


_lock = threading.Lock()


def fence() -> None:
    """What was written before is visible to other processes before what is written after; the same for reading.

    x86 keeps that order by itself. Elsewhere a lock that is released and taken again does it, for next to nothing.
    """
    with _lock:
        pass
    with _lock:
        pass
