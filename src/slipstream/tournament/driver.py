"""The process that drives a tournament: gives pods agents to train, and takes what they report. It may die at any time.

All that matters is in the leaderboard and the storage: whoever drives next goes on from there. It is started by
`tournament.py`, is told its job by standard input, and ends when that closes.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.runs.directory import RunError
from slipstream.tournament.cluster import Cluster, Ended
from slipstream.tournament.directory import TournamentDirectory
from slipstream.tournament.generator import find_generator
from slipstream.tournament.leaderboard import Entry, Leaderboard, Unavailable
from slipstream.tournament.league import rate
from slipstream.tournament.plan import TRAINING_SEEDS
from slipstream.tournament.pod import Job, Origin, Report, to_plain
from slipstream.tournament.storage import Storage, StorageError

OVER, FAILED, BAD_INPUT, LOST = 0, 1, 2, 3
"""Exit codes: the tournament is over; it cannot go on; it makes no sense; the cluster is gone, try again."""

TICK = 0.2
"""Seconds between two looks at everything."""

NOTE = 2.0
"""Seconds between two notes of how long the tournament has run, and two looks at the head of the cluster."""

FAILURES = 5
"""So many jobs that fail one after the other, with none in between that does not, end the tournament."""

LEAVING = 60.0
"""Seconds that pods have to submit what they have when the tournament ends, beyond judging it."""


@dataclass
class Slot:
    """A place for a pod."""

    name: str
    pod: Any
    call: Any
    """What it is doing: starting (no job yet), or a job."""
    job: Job | None = None
    since: float = 0.0
    where: str = ""
    idle: bool = False


class Driver:
    """Runs a tournament until it is over."""

    def __init__(self, directory: TournamentDirectory, address: str | None):
        self.directory, self.plan = directory, directory.plan()
        self.generator = find_generator(self.plan.generator)
        self.board, self.storage = Leaderboard(self.plan.database), Storage(self.plan.storage)
        self.cluster = Cluster(self.plan, address)
        self.slots: dict[str, Slot] = {}
        self._doomed: list[Entry] = []
        self._failures = 0
        self._began, self._elapsed = time.monotonic(), self.board.control().elapsed
        self._noted = 0.0

    def run(self) -> int:
        """Drive; returns an exit code."""
        self.board.declare_all_dead()  # those of an earlier process may still be at work
        self.storage.sweep([entry.weights for entry in self.board.kept() if entry.weights])
        ending: float | None = None
        while True:
            try:
                wanted = self.board.control()
                if ending is None and (wanted.stopping or self._is_over()):
                    self.board.change(stopping=True)
                    ending = time.monotonic()
                if not self._note():
                    return LOST
                if ending is None:
                    self._fill(wanted.pods, wanted.paused)
                else:
                    busy = [slot for slot in self.slots.values() if slot.job is not None]
                    if not busy or time.monotonic() - ending > LEAVING + self.plan.patience / 4:
                        # From here on nobody can submit. Some may have whose reports were lost with their pods.
                        self.board.declare_all_dead()
                        self._retire()
                        break
                self._take_reports()
            except Unavailable as error:
                self.directory.log(f"waiting: {error}")
                time.sleep(1.0)
        self._dispose(everything=True)
        self.directory.log(f"over: {self.board.count()} submissions in {self._seconds():.0f} s")
        return OVER

    def close(self) -> None:
        for slot in self.slots.values():
            self.cluster.kill(slot.pod)
        self.cluster.close()
        self.board.close()

    # When it is over.

    def _seconds(self) -> float:
        return self._elapsed + time.monotonic() - self._began

    def _is_over(self) -> bool:
        plan = self.plan
        if plan.minutes is not None and self._seconds() >= 60.0 * plan.minutes:
            return True
        if plan.agents is not None and self.board.count() >= plan.agents:
            return True
        goal = plan.train.stop_at_return
        if goal is None:
            return False
        best = self.board.top(plan.pools[0], 1, kept_only=plan.league)
        return bool(best) and best[0].score >= goal

    def _note(self) -> bool:
        """Note from time to time how long the tournament has run; whether the cluster is still there."""
        if time.monotonic() - self._noted < NOTE:
            return True
        self._noted = time.monotonic()
        self.board.change(elapsed=self._seconds())
        if not self.cluster.head_answers():
            self.directory.log("the head of the cluster is gone")
            return False
        return True

    # Pods.

    def _fill(self, wanted: int, paused: bool) -> None:
        """Start pods that are missing, and give those who wait something to do."""
        for number in range(wanted):
            name = f"pod-{number}"
            if name not in self.slots:
                pod = self.cluster.start_pod(name)
                self.slots[name] = Slot(name, pod, self.cluster.ask_process(pod), since=time.monotonic())
        for slot in list(self.slots.values()):
            if not slot.idle:
                continue
            if int(slot.name.rpartition("-")[2]) >= wanted:
                self._let_go(slot)
            elif not paused:
                self._employ(slot, wanted)

    def _employ(self, slot: Slot, pods: int) -> None:
        agent, epoch = self.board.begin(slot.name)
        slot.job = self._job(agent, epoch, int(slot.name.rpartition("-")[2]), pods)
        slot.call, slot.since, slot.idle = self.cluster.run(slot.pod, to_plain(slot.job)), time.monotonic(), False

    def _job(self, agent: str, epoch: int, place: int, pods: int) -> Job:
        """Whom to train next: a matter of the seed, the agent's number, the pod's and the leaderboard alone."""
        plan, number = self.plan, int(agent)
        # In a league a pod stays with its side, for which it has compiled, if there are pods enough for all.
        pool = plan.pools[(place if pods >= len(plan.pools) else number) % len(plan.pools)]
        rng = np.random.default_rng([plan.train.seed % TRAINING_SEEDS, number])
        leaders = self.board.top(pool, plan.keep, kept_only=True)
        proposal = self.generator(leaders, plan.situation(pool, -(-pods // len(plan.pools))), rng)
        plan.settings_of(pool, proposal.settings)  # refuses what makes no sense
        seed = int(rng.integers(TRAINING_SEEDS))
        parent = None if proposal.parent is None else Origin.of(proposal.parent)
        return Job(agent, epoch, pool, seed, dict(proposal.settings), parent, self._opponents(pool, rng))

    def _opponents(self, pool: str, rng: np.random.Generator) -> tuple[dict[str, Origin], ...]:
        """With whom to play: those who lead the other pools, one of each at a time."""
        plan = self.plan
        others = {p: self.board.top(p, plan.keep, kept_only=True) for p in plan.pools if p != pool}
        known = {p: [leaders[i] for i in rng.permutation(len(leaders))] for p, leaders in others.items() if leaders}
        count = max((min(plan.opponents, len(leaders)) for leaders in known.values()), default=0)
        return tuple({p: Origin.of(some[i % len(some)]) for p, some in known.items()} for i in range(count))

    def _let_go(self, slot: Slot) -> None:
        self.cluster.kill(slot.pod)
        self.board.declare_dead(slot.name)
        del self.slots[slot.name]

    # Reports.

    def _take_reports(self) -> None:
        calls = {slot.call: slot for slot in self.slots.values() if slot.call is not None}
        for call in self.cluster.over(list(calls), TICK):
            slot = calls[call]
            starting = slot.job is None
            ended = self.cluster.result(call, (lambda found: Ended()) if starting else lambda found: Ended(found))
            if ended.dead:
                self._bury(slot, ended.error or "it died")  # again in a moment, if the leaderboard does not answer now
            else:
                slot.call, slot.job, slot.idle = None, None, True
                if ended.error is not None:
                    self._fail(f"{slot.name}: {ended.error}")
                elif ended.report is not None:
                    self._welcome(ended.report, slot)
        for slot in list(self.slots.values()):
            if slot.job is not None and time.monotonic() - slot.since > self._allowed():
                self.cluster.kill(slot.pod)
                self._bury(slot, f"nothing was heard of it for {self._allowed():.0f} s")
        if not calls:
            time.sleep(TICK)
        self._dispose()

    def _allowed(self) -> float:
        """Seconds that a job may take."""
        return self.plan.patience + 2.0 * (self.plan.quantum_seconds or 0.0)

    def _bury(self, slot: Slot, why: str) -> None:
        """Whatever a dead pod still submits comes too late, and another one takes its place."""
        self.board.declare_dead(slot.name)
        lost = f" with agent {slot.job.agent}" if slot.job is not None else ""
        self.directory.log(f"{slot.name} is dead{lost}: {why}")
        del self.slots[slot.name]
        if self.board.count() == 0:
            self._fail(f"{slot.name} died: {why}")

    def _fail(self, why: str) -> None:
        self.directory.log(f"failed: {why}")
        self._failures += 1
        if self._failures >= FAILURES:
            raise RunError(f"{FAILURES} agents one after the other could not be trained, the last one because: {why}.")

    def _welcome(self, report: Report, slot: Slot) -> None:
        self._failures = 0
        if report.entry is None:
            return
        if self.plan.league:
            self._rate_again()
        self._retire()
        times = " ".join(f"{name} {seconds:.2f}" for name, seconds in report.times.items())
        entry = report.entry
        self.directory.log(
            f"{slot.name}: agent {entry.id} of {entry.parent or 'nobody'} in {entry.pool}: {entry.score:.2f} +- "
            f"{entry.standard_error:.2f}, rank {report.rank} ({times})"
        )

    def _rate_again(self) -> None:
        """Every match says something of all who are kept."""
        kept = [entry.id for entry in self.board.kept()]
        ratings = rate(self.board.matches(kept))
        self.board.rescore({a: (r.mean, r.standard_error) for a, r in ratings.items() if a in kept})

    def _retire(self) -> None:
        """Let all but the best go without weights."""
        for pool in self.plan.pools:
            self._doomed += self.board.retire(pool, self.plan.keep)

    def _dispose(self, everything: bool = False) -> None:
        """Remove weights that are no longer kept, once nobody is about to read them."""
        jobs = [slot.job for slot in self.slots.values() if slot.job is not None]
        needed = {job.parent.id for job in jobs if job.parent}
        needed |= {origin.id for job in jobs for several in job.opponents for origin in several.values()}
        gone = [entry for entry in self._doomed if everything or entry.id not in needed]
        for entry in gone:
            self._doomed.remove(entry)
            if entry.weights is not None:
                try:
                    self.storage.remove(entry.weights)
                except StorageError as error:
                    self.directory.log(f"warning: {error}")


def main() -> int:
    """The driver's own side; returns its exit code."""
    with open(0, "rb", buffering=0, closefd=False) as line:
        job = json.loads(line.readline())
    directory = TournamentDirectory(job["directory"])
    threading.Thread(target=_end_with_the_line, daemon=True).start()
    try:
        driver = Driver(directory, job["address"])
    except (ValueError, RunError) as error:
        print(error, file=sys.stderr)
        return BAD_INPUT
    try:
        code = driver.run()
        if code == LOST:
            os._exit(LOST)  # Ray would wait for the head in vain
        driver.close()
        return code
    except Exception as error:
        traceback.print_exc()
        print(" ".join(f"{error}".split()), file=sys.stderr)
        driver.close()
        return FAILED


def _end_with_the_line() -> None:
    """When whoever started us is gone, end. Ray's own processes notice, and end too."""
    while os.read(0, 1):
        pass
    os._exit(LOST)


if __name__ == "__main__":
    sys.exit(main())
