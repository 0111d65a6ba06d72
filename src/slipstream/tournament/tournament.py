"""A tournament, seen from whoever wants it: starts the process that drives it, looks after it, shows it, and concludes.

Ray lives in the process that drives. If that one dies, or the head of the cluster does, another one takes over; what
was acknowledged is in the leaderboard. Nothing of Ray is imported here.
"""

from __future__ import annotations

import dataclasses
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

from slipstream.capacity import usable_cores
from slipstream.envs.registry import INTERACTIVE
from slipstream.runs.directory import RunError
from slipstream.tournament.directory import TournamentDirectory, at_home, new_directory
from slipstream.tournament.driver import BAD_INPUT, OVER
from slipstream.tournament.leaderboard import Leaderboard, Unavailable, insist
from slipstream.tournament.plan import Plan
from slipstream.tournament.result import Outcome, conclude
from slipstream.tournament.storage import Storage
from slipstream.tournament.view import View
from slipstream.training.api import RUNS
from slipstream.training.choices import groups_of
from slipstream.training.interrupt import Interrupt
from slipstream.training.policies import check_policies
from slipstream.training.source import from_anywhere
from slipstream.training.starting import with_opponents

GLANCE = 0.5
"""Seconds between two looks."""

RESTARTS = 5
"""So many drivers may die one after the other without a single new submission."""

PAUSE = 10.0
"""Seconds before another driver takes over, times how many have ended without a submission."""

DRIVER = (sys.executable, "-m", "slipstream.tournament.driver")

STOPPING = 30.0
"""Seconds beyond the pods' own patience that the driver has to end when it is asked to."""


class NeverBegan(ValueError):
    """A tournament makes no sense on this cluster."""


def run_tournament(
    plan: Plan, *, run: str | Path | None = None, address: str | None = None, quiet: bool = False
) -> Outcome:
    """Run a tournament, and leave a directory with its leaderboard, its agents and its winner behind.

    Args:
        plan: what to do.
        run: the directory; by default a new one under `runs/`.
        address: of a Ray cluster; by default this machine.
        quiet: show nothing.
    """
    plan = _checked(plan)
    _check_place(plan, address)
    path = Path(run) if run is not None else new_directory(plan, RUNS)
    # What is not in the directory is looked at first: if it cannot be used, there is nothing to be left behind.
    board = _empty_board(plan.database) if plan.database else None
    if plan.storage:
        Storage(plan.storage)
    plan = dataclasses.replace(plan, **at_home(plan, path))
    directory = TournamentDirectory.create(path, plan)
    try:
        board = board or _empty_board(plan.database)
        board.change(pods=plan.pods)
        with View(plan, board, quiet) as view:
            finished = drive(directory, board, address, view)
        return conclude(directory, board, finished, view.say)
    except NeverBegan:
        directory.remove()
        raise
    finally:
        directory.release()


def _empty_board(database: str) -> Leaderboard:
    board = Leaderboard(database, create=True)
    if board.count():
        raise RunError(f"The database {board.database.shown} already holds a tournament: name another --database.")
    return board


def resume_tournament(
    path: str | Path, *, minutes: float | None = None, address: str | None = None, quiet: bool = False
) -> Outcome:
    """Go on with a tournament that was interrupted, or whose process was killed.

    Args:
        path: its directory.
        minutes: another end; they count from the beginning.
        address: as for `run_tournament`.
        quiet: show nothing.
    """
    directory = TournamentDirectory.open(path)
    directory.claim()
    try:
        plan = directory.plan()
        if minutes is not None:
            plan = dataclasses.replace(plan, minutes=minutes)
            directory.change(plan)
        board = Leaderboard(plan.database)
        board.change(stopping=False, paused=False)
        with View(plan, board, quiet) as view:
            finished = drive(directory, board, address, view)
        return conclude(directory, board, finished, view.say)
    finally:
        directory.release()


def _checked(plan: Plan) -> Plan:
    """Refuse what cannot work, before anything is started."""
    if plan.train.env.startswith(INTERACTIVE):
        raise ValueError("Pods make their worlds themselves: the world must be a class in a file.")
    train = with_opponents(from_anywhere(plan.train))
    check_policies(groups_of(train.env, train), train.policies)
    plan = dataclasses.replace(plan, train=train)
    plan.check()
    return plan


def _check_place(plan: Plan, address: str | None) -> None:
    """Refuse an address that cannot be, and without one, pods that are too large for this machine."""
    if address is not None:
        if "://" in address:
            raise ValueError(f"--address must be auto or host:port of the head, on a machine of the cluster: {address}")
        return
    if plan.cpus_per_pod > usable_cores():
        raise ValueError(
            f"A pod needs {plan.cpus_per_pod:g} CPUs, and this machine has {usable_cores()}: give --cpus-per-pod, or "
            "the --address of a cluster."
        )


def drive(directory: TournamentDirectory, board: Leaderboard, address: str | None, view: View) -> bool:
    """Have a tournament driven until it is over, by one process after the other if need be.

    Returns:
        Whether it came to its end (and was not interrupted).
    """
    plan = directory.plan()
    interrupted, barren, submitted, worked = False, 0, board.count(), False
    driver: Driver | None = None
    with Interrupt() as interrupt:
        view.say(f"starting {plan.pods} pods of {plan.train.env} ...")
        try:
            driver = Driver(directory, address)
            while True:
                if interrupt.requested and not interrupted:
                    interrupted = True
                    insist(lambda: board.change(stopping=True), STOPPING)
                if (code := driver.code) == OVER:
                    return not interrupted
                if code is not None:
                    worked = worked or code != BAD_INPUT
                    if not worked:
                        raise NeverBegan(driver.last_words())
                    count = _count(board, submitted)
                    barren = barren + 1 if count == submitted else 1
                    submitted = count
                    if barren > RESTARTS or interrupted:
                        how = f"slipstream tournament --resume {shlex.quote(str(directory.path))}"
                        raise RunError(f"{driver.last_words()} (all of it: {directory.output}). Go on with: {how}")
                    directory.log(f"the driver has ended ({code}): another one takes over")
                    time.sleep(PAUSE * (barren - 1))
                    driver = Driver(directory, address)
                try:
                    view.look()
                except Unavailable as error:
                    view.say(str(error))
                time.sleep(GLANCE)
        finally:
            if driver is not None:
                driver.end()


def _count(board: Leaderboard, otherwise: int) -> int:
    try:
        return board.count()
    except Unavailable:
        return otherwise


class Driver:
    """The process that drives, seen from outside."""

    def __init__(self, directory: TournamentDirectory, address: str | None):
        self._output = directory.output
        with self._output.open("ab") as output:
            # In a session of its own, a Ctrl-C on the terminal reaches it only through us.
            self._process = subprocess.Popen(
                DRIVER,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        assert self._process.stdin is not None
        self._line = self._process.stdin
        self._line.write(json.dumps({"directory": str(directory.path), "address": address}).encode() + b"\n")
        self._line.flush()

    @property
    def code(self) -> int | None:
        """None while it is at work."""
        return self._process.poll()

    def last_words(self) -> str:
        lines = self._output.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "The process that drives the tournament has ended."

    def end(self) -> None:
        """Let it go; it ends by itself when the line closes."""
        try:
            self._line.close()
            self._process.wait(STOPPING)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()


# On a running tournament.


def board_of(path: str | Path) -> tuple[Plan, Leaderboard]:
    """The plan and the leaderboard of a tournament."""
    plan = TournamentDirectory.open(path).plan()
    return plan, Leaderboard(plan.database)
