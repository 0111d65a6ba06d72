"""What a person sees of a run while it trains: a live panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table


class Display:
    """Shows rows of metrics. `total` is the number of steps of the whole run."""

    def __init__(self, title: str, total: int, quiet: bool = False, console: Console | None = None):
        self.console = console or Console(stderr=True)
        self.total, self.title, self.quiet = total, title, quiet
        self._live: Live | None = None
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
        )
        self._task = self._bar.add_task(title, total=total)

    def __enter__(self) -> Display:
        if not self.quiet and self.console.is_terminal:
            self._live = Live(self._bar, console=self.console, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def show(self, row: Mapping[str, float]) -> None:
        if self.quiet:
            return
        if self._live is None:
            self.console.print(plain_line(row), highlight=False, soft_wrap=True)
            return
        self._bar.update(self._task, completed=row["step"])
        self._live.update(Group(self._bar, panel(row)))


def plain_line(row: Mapping[str, float]) -> str:
    """One line for a log file."""
    shown = [(n, v) for n, v in row.items() if n.startswith(("return/", "evaluation/")) and math.isfinite(v)]
    returns = " ".join(f"{n}={v:.2f}" for n, v in shown)
    split = " ".join(f"{n.partition('/')[2]} {100 * v:.0f}%" for n, v in row.items() if n.startswith("time/"))
    return f"step {row['step']:,.0f}  {row['steps_per_second']:,.0f} steps/s  {returns}  ({split})"


def panel(row: Mapping[str, float]) -> Table:
    """Speed, returns and losses side by side."""
    table = Table.grid(padding=(0, 3))
    speed = [
        ("steps", f"{row['step']:,.0f}"),
        ("steps/s", f"{row['steps_per_second']:,.0f}"),
        *((n.partition("/")[2], f"{100 * v:.0f} %") for n, v in row.items() if n.startswith("time/")),
    ]
    play = [
        (name.replace("/", " "), number(v))
        for name, v in row.items()
        if name.startswith(("return/", "report/", "evaluation/")) or name == "episode_length"
    ]
    if row["broken_worlds"]:
        play.append(("broken worlds", f"{row['broken_worlds']:.0f}"))
    kinds = ("policy_loss", "value_loss", "entropy", "kl", "learning_rate")
    learn = [(name.replace("/", " "), number(v)) for name, v in row.items() if name.rpartition("/")[2] in kinds]
    columns = [speed, play, learn]
    for i in range(max(map(len, columns))):
        cells = []
        for column in columns:
            name, value = column[i] if i < len(column) else ("", "")
            cells += [f"[dim]{name}[/dim]", f"[bold]{value}[/bold]"]
        table.add_row(*cells)
    return table


def number(value: float) -> str:
    if not math.isfinite(value):
        return "-"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
