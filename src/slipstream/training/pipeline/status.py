"""What the processes of the pipeline tell each other in numbers: a column for each of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from slipstream.training.pipeline.blocks import Block
from slipstream.training.pipeline.simulators import ODDITIES

COUNTERS = ("steps", "episodes", "lengths", "version")
"""Whole numbers that a process counts: steps, ended episodes and their lengths, and which version of the weights it
acts by."""

SUMS = ("returns", "return_squares", "heartbeat")
"""Sums over ended episodes, and when it was last alive (`time.monotonic`)."""

ORDERS = ("allowance", "stop")
"""What the learner says: how many steps a process may take in all, and whether to end."""

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
        self._mine = {name: array[number : number + 1] for name, array in status.block.arrays.items()}

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
    def may_step(self) -> bool:
        return bool(self._mine["steps"][0] < self._mine["allowance"][0])
