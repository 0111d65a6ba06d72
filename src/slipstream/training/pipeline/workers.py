"""The processes of the pipeline, seen from the learner: starting them, watching them, and replacing those that fail."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstream.child_process import GIVEN_UP, TRACEBACK, Job, ending, last_words, start_child
from slipstream.training.health import TrainingFailed

FAILURES = 3
"""So many failures of a process in a row, without a step to be proud of in between, end the run."""

ENOUGH_STEPS = 1000
"""A process that has taken so many steps has shown that the environment works."""

STARTING = 60.0
"""Seconds that a process may take to make its environments, at the least."""

GRACE = 2.0
"""Seconds in which a process that is told to stop may close its environments."""


@dataclass(frozen=True)
class Plan:
    """A process that there should always be."""

    name: str
    """Such as `sampler 2`."""
    module: str
    """What it runs, as `python -m`."""
    job: Callable[[], Job]
    """What it is told when it is started."""
    descriptors: tuple[int, ...]
    """Of the memory it shares."""
    steps: Callable[[], int]
    """How many steps it has taken, those before it included."""
    heartbeat: Callable[[], float]
    """When it was last alive (`time.monotonic`)."""
    patience: float
    """Seconds without a sign of life after which it counts as hung."""
    essential: bool = True
    """Whether the run ends if it fails again and again; else the run goes on without it."""


class Worker:
    """A process and those that take its place."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.failures = 0
        """In a row, without enough steps in between."""
        self.hopeless = False
        """Whether another in its place would do no better."""
        self._process: subprocess.Popen[bytes] | None = None
        self._output: Any = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        plan = self.plan
        self._steps, self._started = plan.steps(), time.monotonic()
        self._output = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (it lives as long as the process)
        self._process = start_child(plan.module, plan.job(), plan.descriptors, self._output)

    def failure(self) -> str | None:
        """What has gone wrong, if something has: the process is over then, and `last_words` may say more."""
        assert self._process is not None
        code, plan = self._process.poll(), self.plan
        if code is None:
            heard = plan.heartbeat()
            quiet = time.monotonic() - max(heard, self._started)
            if quiet < (plan.patience if heard > self._started else max(plan.patience, STARTING)):
                return None
            self._kill_with_traceback()
            how = f"took no step for {quiet:.0f} s"
        else:
            how = ending(code, self.last_words())
            self.hopeless = code == GIVEN_UP
        proud = plan.steps() - self._steps >= ENOUGH_STEPS
        self.failures = 1 if proud else self.failures + 1
        self.hopeless |= self.failures >= FAILURES
        return how

    def _kill_with_traceback(self) -> None:
        """End a process that hangs, and let it say where."""
        assert self._process is not None
        self._process.send_signal(TRACEBACK)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.3)
        self._process.kill()
        self._process.wait()

    def last_words(self) -> str:
        return last_words(self._output)

    def stop(self, end: float) -> None:
        """It has been told to: wait until it is over, and not past `end` (`time.monotonic`)."""
        if self._process is None:
            return
        try:
            self._process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._close()

    def _close(self) -> None:
        assert self._process is not None and self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._output.close()
        self._process = None

    def replace(self) -> None:
        self._close()
        self.start()


class Workers:
    """All processes beside the learner."""

    def __init__(self, log: Callable[[str], None], warn: Callable[[str], None]):
        """Args:
        log: takes all that is known of a failure.
        warn: takes it in one line.
        """
        self._all: list[Worker] = []
        self._log, self._warn = log, warn
        self.replaced = 0

    def add(self, plan: Plan) -> None:
        """Start a process, and see to it that there always is one."""
        worker = Worker(plan)
        worker.start()
        self._all.append(worker)

    def remove(self, kind: str) -> None:
        """Wait for processes to end whose names begin so. They have been told to; those that do not are killed."""
        leaving = [worker for worker in self._all if worker.plan.name.startswith(kind)]
        self._all = [worker for worker in self._all if worker not in leaving]
        end = time.monotonic() + GRACE
        for worker in leaving:
            worker.stop(end)

    @property
    def pids(self) -> dict[str, int]:
        return {w.plan.name: w.pid for w in self._all if w.pid is not None}

    def check(self) -> None:
        """Replace processes that have failed.

        Raises:
            TrainingFailed: when one fails again and again.
        """
        for worker in list(self._all):
            how = worker.failure()
            if how is None:
                continue
            name, words = worker.plan.name, worker.last_words()
            self._log(f"{name} {how}" + (f"; it said:\n{words}" if words else ""))
            if worker.hopeless and not worker.plan.essential:
                self._warn(f"There is no {name} any more: it {how}")
                self._all.remove(worker)
                worker.stop(0.0)
                continue
            if worker.hopeless:
                raise TrainingFailed(
                    f"The environment fails again and again: {name} {how} ({worker.failures} times in a row; what it "
                    "said is in the run's log.txt)."
                )
            self._warn(f"{name} {how}. Another one takes its place (log.txt has what it said)")
            self.replaced += 1
            worker.replace()


def usage(pid: int) -> tuple[float, float] | None:
    """Seconds of processor time that a process has taken and bytes of memory that it has for itself; None if nobody
    knows (there is no /proc, or it is gone)."""
    try:
        folder = Path(f"/proc/{pid}")
        times = (folder / "stat").read_text().rpartition(")")[2].split()
        private = next(line for line in (folder / "status").read_text().splitlines() if line.startswith("RssAnon"))
        return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK"), int(private.split()[1]) * 1024.0
    except (OSError, StopIteration, ValueError, IndexError):
        return None
