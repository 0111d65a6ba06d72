"""What a person sees of a tournament while it runs: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from slipstream.tournament.leaderboard import Control, Entry, Leaderboard
from slipstream.tournament.plan import Plan

SHOWN = 10
"""Agents of a pool that are shown at a time."""

EVERY = 10.0
"""Seconds between two plain lines."""


class View:
    """Looks at the leaderboard, and shows what is there."""

    def __init__(self, plan: Plan, board: Leaderboard, quiet: bool = False, console: Console | None = None):
        self.console, self.quiet = console or Console(stderr=True), quiet
        self._plan, self._board = plan, board
        self._live: Live | None = None
        self._said_at, self._seen = 0.0, -1

    def __enter__(self) -> View:
        if not self.quiet and self.console.is_terminal:
            self._live = Live(console=self.console, refresh_per_second=2)
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live is not None:
            with suppress(OSError):  # a terminal that hung up cannot be written to
                self._live.stop()
            self._live = None

    def look(self) -> None:
        if self.quiet:
            return
        if self._live is not None:
            leaders = {pool: self._board.top(pool, SHOWN, kept_only=self._plan.league) for pool in self._plan.pools}
            shown = picture(self._plan, self._board.control(), leaders, self._board.at_work(), self._board.count())
            with suppress(OSError):
                self._live.update(shown)
        elif time.monotonic() - self._said_at >= EVERY:
            self._said_at = time.monotonic()
            done = self._board.count()
            if done == self._seen and done:
                return
            self._seen = done
            best = [self._board.top(pool, 1, kept_only=self._plan.league) for pool in self._plan.pools]
            leads = ", ".join(f"{e.pool} {e.id} {score(e)}" for (e,) in best if e) if all(best) else "nobody yet"
            self.say(f"{self._board.control().elapsed:.0f} s  {self._board.count()} agents  leading: {leads}")

    def say(self, text: str) -> None:
        if not self.quiet:
            with suppress(OSError):
                self.console.print(text, highlight=False, soft_wrap=True, markup=False)


def score(entry: Entry) -> str:
    return f"{entry.score:.2f} +- {entry.standard_error:.2f}"


def picture(
    plan: Plan, control: Control, leaders: Mapping[str, Sequence[Entry]], at_work: Mapping[str, str], count: int
) -> Group:
    """The tables, and a line above them."""
    budget = "" if plan.minutes is None else f" of {60 * plan.minutes:.0f}"
    state = "stopping" if control.stopping else "paused" if control.paused else "running"
    head = f"{plan.train.env}: {state}, {control.elapsed:.0f}{budget} s, {count} agents submitted, {control.pods} pods"
    work = ", ".join(f"{pod} trains {agent}" for pod, agent in at_work.items()) or "no pod is at work yet"
    return Group(Text(head), Text(work, style="dim"), *(leaders_table(pool, some) for pool, some in leaders.items()))


def leaders_table(pool: str, leaders: Sequence[Entry]) -> Table:
    """The best of a pool."""
    table = Table("rank", "agent", "from", "score", "steps", "quantum", "settings", title=pool, title_justify="left")
    for column in ("rank", "score", "steps", "quantum"):
        next(c for c in table.columns if c.header == column).justify = "right"
    for rank, e in enumerate(leaders, 1):
        settings = " ".join(f"{name}={value:.3g}" for name, value in e.settings.items())
        table.add_row(str(rank), e.id, e.parent or "-", score(e), f"{e.age:,}", f"{e.seconds:.1f} s", settings or "-")
    return table


def league_table(found: Mapping[str, Any]) -> Table:
    """Who beats whom, of two pools: what the rows earned, and what the columns did."""
    rows, columns = found["rows"], found["columns"]
    title = f"what {rows['pool']} (rows) and {columns['pool']} (columns) return; * wins"
    table = Table("", *columns["agents"], title=title, title_justify="left")
    earned, conceded, shares = (found[k] for k in ("row_returns", "column_returns", "rows_win"))
    for i, agent in enumerate(rows["agents"]):
        cells = []
        for x, y, m in zip(earned[i], conceded[i], shares[i]):
            won, lost = (" *" if m > 0.5 else "", " *" if m < 0.5 else "") if m is not None else ("", "")
            cells.append("-" if x is None else f"{x:.2f}{won} / {y:.2f}{lost}")
        table.add_row(agent, *cells)
    return table
