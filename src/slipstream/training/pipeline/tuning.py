"""How many samplers, how many environments each, and how large batches: measured on the machine, while it learns.

The search climbs: from a guess it goes up as long as that pays, else down, first in the number of samplers and then
in that of their environments; where it is asked for, batches are doubled as long as that costs little. What was found
is kept with the run, and for the machine: the next run begins with it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from slipstream.caches import cache_folder
from slipstream.runs.directory import TUNED, RunDirectory, RunError, write_atomically

WORTHWHILE = 1.05
"""How much better something must be to be worth more processes or environments, or fewer."""

NEARLY_FREE = 1.5
"""How many times as many samples must be learned from in a second for a batch of twice the size: there are fewer
gradient steps then."""

LARGEST = 16
"""How many times as large batches may become."""

WINDOW = 0.7
"""Seconds for which a choice is measured."""

UPDATES_MATTER = 2.0 / 3.0
"""The power of updates/s in what is maximised; the remainder is that of samples/s."""

LANES = (1, 2, 4, 8, 16, 32, 64)
GUESSED_LANES = 16
"""On top of a bare step of HalfCheetah, 8 cost a quarter of it, 16 a fifth; 32 are no cheaper."""


@dataclass(frozen=True)
class Choice:
    """So many samplers with so many environments each."""

    samplers: int
    lanes: int
    batch: int
    """Samples of a gradient step."""


@dataclass(frozen=True)
class Measured:
    """What a choice came to."""

    choice: Choice
    samples: float
    """In a second."""
    updates: float
    """In a second."""

    @property
    def score(self) -> float:
        return self.updates**UPDATES_MATTER * self.samples ** (1.0 - UPDATES_MATTER)

    @property
    def frames(self) -> float:
        """Samples that are learned from in a second."""
        return self.updates * self.choice.batch


def usable_cores() -> int:
    """How many cores this process may use: several runs may share a machine, each on its own."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def sampler_counts(cores: int) -> list[int]:
    """Numbers of samplers that are worth trying."""
    return sorted({1, max(1, cores // 4), max(1, cores // 2), max(1, cores - 1), cores, cores + cores // 2})


def guessed_samplers(cores: int) -> int:
    """One core is the learner's."""
    return max(1, cores - 1)


def climb(options: Sequence[int], start: int, worthwhile: float = WORTHWHILE) -> Generator[int, float, int]:
    """Yields what to try next, is sent how good it was, and returns the best."""
    at = options.index(start)
    best = yield options[at]
    for direction in (1, -1):
        moved = False
        while 0 <= at + direction < len(options):
            score = yield options[at + direction]
            if score < best * worthwhile:
                break
            best, at, moved = score, at + direction, True
        if moved:
            break
    return options[at]


def search(
    samplers: int | None, lanes: int | None, batch: int, cores: int, *, larger_batches: bool = False
) -> Generator[Choice, Measured, Choice]:
    """Yields what to try next, is sent what it came to, and returns the best.

    Args:
        samplers: how many, if that is given.
        lanes: environments of each, if that is given.
        batch: samples of a gradient step.
        cores: of the machine.
        larger_batches: whether to try those too.
    """
    known: dict[Choice, Measured] = {}

    def best_of(
        climber: Generator[int, float, int], choice: Callable[[int], Choice], score: Callable[[Measured], float]
    ) -> Generator[Choice, Measured, int]:
        tried = next(climber)
        while True:
            if choice(tried) not in known:
                known[choice(tried)] = yield choice(tried)
            try:
                tried = climber.send(score(known[choice(tried)]))
            except StopIteration as end:
                return end.value

    guess = lanes or GUESSED_LANES
    if samplers is None:
        climber = climb(sampler_counts(cores), guessed_samplers(cores))
        samplers = yield from best_of(climber, lambda n: Choice(n, guess, batch), lambda m: m.score)
    processes = samplers
    if lanes is None:
        climber = climb(LANES, guess)
        lanes = yield from best_of(climber, lambda n: Choice(processes, n, batch), lambda m: m.score)
    environments = lanes
    if larger_batches:
        sizes = [batch << i for i in range(LARGEST.bit_length())]
        climber = climb(sizes, batch, NEARLY_FREE)
        batch = yield from best_of(climber, lambda n: Choice(processes, environments, n), lambda m: m.frames)
    return Choice(processes, environments, batch)


class Tuning:
    """A search that goes on while the learner learns: it looks at counters and says what to change."""

    def __init__(self, proposals: Generator[Choice, Measured, Choice]):
        """Args:
        proposals: a search.
        """
        self._search = proposals
        self.now = next(self._search)
        """What is being measured."""
        self.measured: list[Measured] = []
        self.best: Choice | None = None
        """What was found, when all is done."""
        self._since: tuple[float, int, int] | None = None

    def look(self, at: float, samples: int, updates: int, settled: bool) -> Choice | None:
        """What to change to, if it is time to.

        Args:
            at: the time in seconds.
            samples: how many there have been.
            updates: likewise.
            settled: whether all samplers of the present choice are at work.
        """
        if not settled:
            return None
        if self._since is None:
            self._since = (at, samples, updates)
            return None
        began, samples_before, updates_before = self._since
        seconds = at - began
        if seconds < WINDOW or updates == updates_before:
            return None
        self._since = None
        found = Measured(self.now, (samples - samples_before) / seconds, (updates - updates_before) / seconds)
        self.measured.append(found)
        return self._next(found)

    def measure_again(self) -> None:
        """Counters have begun anew: what they said of the present choice so far is of no use."""
        self._since = None

    def refuse(self) -> Choice:
        """There is no memory for the present choice: what to try instead."""
        return self._next(Measured(self.now, 0.0, 0.0))

    def _next(self, found: Measured) -> Choice:
        try:
            self.now = self._search.send(found)
        except StopIteration as end:
            self.now = self.best = end.value
        return self.now

    def table(self) -> str:
        """What was measured, for people to read."""
        lines = ["samplers  envs each   batch  samples/s  updates/s"]
        for m in self.measured:
            mark, c = "  <- best" if m.choice == self.best else "", m.choice
            lines.append(f"{c.samplers:>8}  {c.lanes:>9}  {c.batch:>6}  {m.samples:>9,.0f}  {m.updates:>9,.1f}{mark}")
        return "\n".join(lines)


# What was found before.


def kept_choice(run: RunDirectory, key: str) -> Choice | None:
    """What was found for a run, or else for runs like it on this machine (which the run then keeps)."""
    own = run.tuned
    with suppress(OSError, ValueError, KeyError, TypeError):
        return Choice(**json.loads(own.read_text())["choice"])
    with suppress(OSError, KeyError, TypeError):
        found = known_on_this_machine()[key]
        choice = Choice(**found["choice"])
        _write(own, found)
        return choice
    return None


def keep_choice(run: RunDirectory, key: str, tuning: Tuning) -> None:
    """Remember what was found, with the run and for the machine."""
    assert tuning.best is not None
    rows = [{**asdict(m.choice), "samples": m.samples, "updates": m.updates} for m in tuning.measured]
    found = {"choice": asdict(tuning.best), "measured": rows}
    _write(run.tuned, found)
    keep_on_this_machine(key, found)


def known_on_this_machine() -> dict[str, Any]:
    """What was found in earlier runs, by kind of run."""
    with suppress(OSError, ValueError):
        return json.loads(_machine_file().read_text())
    return {}


def keep_on_this_machine(key: str, found: dict[str, Any]) -> None:
    """Remember what was found, for runs of a kind."""
    with suppress(OSError, RunError):  # a home that cannot be written to costs the next run a few seconds, no more
        file = _machine_file()
        file.parent.mkdir(parents=True, exist_ok=True)
        _write(file, {**known_on_this_machine(), key: found})


def _write(file: Path, content: dict[str, Any]) -> None:
    write_atomically(file, json.dumps(content, indent=2) + "\n")


def _machine_file() -> Path:
    return cache_folder() / TUNED
