"""What a person sees of several runs while they train: a live line each on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from contextlib import suppress

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column

from slipstream.training.config import TrainConfig
from slipstream.training.display import number, plain_line
from slipstream.training.loop import Row

EVERY = 10.0
"""Seconds between two plain lines of a run."""


class Board:
    """Shows the runs that are under way, and says how each one ended."""

    def __init__(self, count: int, quiet: bool = False, console: Console | None = None):
        """Args:
        count: how many runs there are.
        quiet: show nothing.
        console: where to; by default where errors go.
        """
        self.console, self.quiet = console or Console(stderr=True), quiet
        self._live = Progress(
            TimeRemainingColumn(compact=True, table_column=Column(width=5, no_wrap=True)),
            TextColumn("left", table_column=Column(width=4)),
            # One column, so that in a narrow terminal only what comes last is cut off.
            TextColumn(
                "{task.description}  {task.percentage:.0f} %  {task.fields[known]}",
                table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
            ),
            console=self.console,
            expand=True,
            disable=quiet or not self.console.is_terminal,
        )
        self._all = self._live.add_task(f"all {count} runs", total=count, known="", visible=count > 1)
        self._tasks: dict[str, tuple[TaskID, TrainConfig]] = {}
        self._known: dict[str, dict[str, float]] = {}
        self._said_at: dict[str, float] = {}

    def __enter__(self) -> Board:
        self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(OSError):  # a terminal that hung up cannot be written to
            self._live.stop()

    def begin(self, name: str, config: TrainConfig) -> None:
        total = (config.iterations or 0) * config.driver.steps_per_iteration or config.total_seconds
        self._tasks[name] = self._live.add_task(f"{escape(name)}: compiling", total=total, known=""), config
        self._known[name] = {}
        if self._live.disable:
            self.say(f"{name}: compiling ...")

    def report(self, name: str, row: Row) -> None:
        """Show a row of metrics of a run."""
        if self._live.disable:
            if time.monotonic() - self._said_at.get(name, -EVERY) >= EVERY:
                self._said_at[name] = time.monotonic()
                self.say(f"{name}: {plain_line(row)}")
            return
        known = self._known[name]
        known |= {n: v for n, v in row.items() if n.startswith(("return/", "evaluation/")) and math.isfinite(v)}
        returns = [f"{n.replace('/', ' ')} {number(v)}" for n, v in known.items()]
        words = [*returns, f"{number(row['steps_per_second'])} steps/s"]
        task, config = self._tasks[name]
        done = row["seconds"] if config.iterations is None else row["step"]
        self._live.update(task, description=escape(name), completed=done, known=escape("  ".join(words)))

    def end(self, name: str, how: str) -> None:
        if name in self._tasks:
            self._live.remove_task(self._tasks.pop(name)[0])
        self._live.advance(self._all)
        self.say(f"{name}: {how}")

    def warn(self, text: str) -> None:
        """Say something that must not be missed."""
        self.say(f"[bold yellow]Warning:[/] {escape(text)}", markup=True)

    def say(self, text: str, markup: bool = False) -> None:
        if not self.quiet:
            with suppress(OSError):
                self.console.print(text, highlight=False, soft_wrap=True, markup=markup)
