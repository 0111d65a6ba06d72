"""What the processes of the pipeline tell each other in numbers: a column for each of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from slipstream.training.pipeline.blocks import Block
from slipstream.training.pipeline.simulators import ODDITIES

COUNTERS = ("steps", "episodes", "lengths", "version", "life")
"""Whole numbers that a process counts: steps, ended episodes and their lengths, which version of the weights it acts
by, and which life it lives."""

SUMS = ("returns", "return_squares", "heartbeat")
"""Sums over ended episodes, and when it was last alive (`time.monotonic`)."""

ORDERS = ("allowance", "stop", "new_life")
"""What the learner says: how many steps a process may take in all, whether to end, and of which life it shall forget
all that was before."""

UNLIMITED = np.iinfo(np.int64).max


class Status:
    """Numbers of `[workers]`."""

    def __init__(self, block: Block):
        self.block = block

    @staticmethod
    def of(workers: int) -> Status:
        whole = {name: ((workers,), np.int64) for name in (*COUNTERS, *ORDERS)}
        odd = {f"oddities/{name}": ((workers,), np.int64) for name in ODDITIES}
        block = Block(whole | odd | {name: ((workers,), np.float64) for name in SUMS})
        block["allowance"][:] = UNLIMITED
        return Status(block)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Status:
        return Status(Block.from_json(data))

    def __getitem__(self, name: str) -> np.ndarray:
        return self.block[name]

    def total(self, name: str) -> float:
        return self.block[name].sum().item()


class Reporter:
    """A process's own column."""

    def __init__(self, status: Status, number: int):
        # Numbers of Python, which are read and written in a third of the time that NumPy's take.
        arrays = status.block.arrays
        self._mine: dict[str, Any] = {name: array[number : number + 1].data for name, array in arrays.items()}

    def add(self, name: str, amount: float) -> None:
        self._mine[name][0] += amount

    def put(self, name: str, value: float) -> None:
        self._mine[name][0] = value

    def alive(self) -> None:
        self._mine["heartbeat"][0] = time.monotonic()

    @property
    def told_to_stop(self) -> bool:
        return bool(self._mine["stop"][0])

    @property
    def new_life(self) -> int | None:
        """The life to begin, if it is another one than the present."""
        wanted = self._mine["new_life"][0]
        return wanted if wanted != self._mine["life"][0] else None

    @property
    def may_step(self) -> bool:
        return self._mine["steps"][0] < self._mine["allowance"][0]
