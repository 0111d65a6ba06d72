"""Processes that step environments of PettingZoo at once, each its part of the worlds."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import tempfile
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import IO, Any

import numpy as np

from slipstream.child_process import ChildFailed, ending, last_words, start_child
from slipstream.pettingzoo_part import BEGIN, STEP
from slipstream.shared_memory import ALIGNMENT, Block, Shapes, fence

GRACE = 2.0
"""Seconds in which a process that is told to stop may close its environments."""


@dataclass(frozen=True)
class Recipe:
    """What another process needs to know to make the same environment."""

    name: str
    """`MODULE` or `MODULE:FUNCTION`."""
    options: Mapping[str, Any]
    """Plain data."""


@dataclass
class _Worker:
    worlds: range
    process: subprocess.Popen[bytes]
    line: socket.socket
    output: IO[bytes]


class Processes:
    """Does what `Part` does, for all worlds, in several processes.

    Attributes:
        arrays: of all worlds (see `Part`), in memory that all of them share.
    """

    def __init__(
        self, recipe: Recipe, max_steps: int | None, shapes: Shapes, num_worlds: int, first_world: int, count: int
    ):
        """Args:
        recipe: of an environment.
        max_steps: a time limit beside the environment's own.
        shapes: of the arrays.
        num_worlds: how many there are.
        first_world: what their numbers are counted from where random numbers are drawn.
        count: of processes.
        """
        # Every process counts in a cache line of its own what it has answered.
        counters = {"what": (1,), "asked": (1,), "answered": (count, ALIGNMENT // 8)}
        self._block = Block({**shapes, **{name: (shape, np.int64) for name, shape in counters.items()}})
        self.arrays = self._block.arrays
        self._workers: list[_Worker] = []
        self._failure = ""
        self._end = weakref.finalize(self, _end, self._workers, self._block)
        job = {"block": self._block.to_json(), "name": recipe.name, "options": dict(recipe.options)}
        job |= {"first_world": first_world, "max_steps": max_steps}
        bounds = [num_worlds * i // count for i in range(count + 1)]
        for number, (first, last) in enumerate(pairwise(bounds)):
            ours, theirs = socket.socketpair()
            output = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (it lives as long as the process)
            with theirs:
                told = {**job, "number": number, "first": first, "last": last, "line": theirs.fileno()}
                descriptors = (self._block.descriptor, theirs.fileno())
                process = start_child("slipstream.pettingzoo_part", told, descriptors, output, waited_for=True)
            self._workers.append(_Worker(range(first, last), process, ours, output))

    def begin(self) -> None:
        """A new episode in every world."""
        self._ask(BEGIN)

    def step(self) -> None:
        """Step every world; where an episode ends, the next one begins."""
        self._ask(STEP)

    @property
    def pids(self) -> list[int]:
        return [worker.process.pid for worker in self._workers]

    def _ask(self, what: int) -> None:
        self._wait()  # an exception (Ctrl-C) may have come between a question and its answer
        self.arrays["what"][0] = what
        fence()
        self.arrays["asked"][0] += 1
        self._wait()

    def _wait(self) -> None:
        """Wake those who have not answered, and wait for them."""
        if self._failure:
            raise ChildFailed(self._failure)
        asked, answered = self.arrays["asked"][0], self.arrays["answered"][:, 0]
        behind = np.flatnonzero(answered != asked).tolist()
        for number in behind:
            with contextlib.suppress(OSError):  # it is gone, as we are about to hear
                self._workers[number].line.send(b".")
        for number in behind:
            self._hear(number)
            while answered[number] != asked:
                self._hear(number)
        fence()

    def _hear(self, number: int) -> None:
        heard = b""
        with contextlib.suppress(ConnectionResetError):
            heard = self._workers[number].line.recv(64)
        if not heard:
            self._fail(number)

    def _fail(self, number: int) -> None:
        worker, count = self._workers[number], len(self._workers)
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.process.wait(GRACE)
        worker.process.kill()  # if it is still there, without a line to us
        code, words = worker.process.wait(), last_words(worker.output)
        self._failure = (
            f"Process {number} of {count}, which stepped worlds {worker.worlds[0]} to {worker.worlds[-1]}, "
            f"{ending(code, words)}" + (f"\n\nIt said:\n{words}" if words else "")
        )
        self._end()
        raise ChildFailed(self._failure)


def _end(workers: list[_Worker], block: Block) -> None:
    """Let all of them close their environments, and wait until they are gone."""
    for worker in workers:
        worker.line.close()
    end = time.monotonic() + GRACE
    for worker in workers:
        try:
            worker.process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.process.kill()
            worker.process.wait()
        if worker.process.stdin is not None:
            worker.process.stdin.close()
        worker.output.close()
    block.close()
