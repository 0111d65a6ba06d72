"""What a person sees of a run while it trains: a live panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from slipstream.training.config import TrainConfig

Cells = list[tuple[str, str]]


class Display:
    """A sink that shows rows of metrics, from before the first kernel is compiled."""

    def __init__(self, config: TrainConfig, quiet: bool = False, console: Console | None = None):
        self.console = console or Console(stderr=True)
        self.config, self.quiet = config, quiet
        self._by_steps = config.iterations is not None
        total = (config.iterations or 0) * config.driver.steps_per_iteration or config.total_seconds
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
        self._task = self._bar.add_task(f"{escape(config.env)}: compiling", total=total)
        self._known: dict[str, float] = {}
        """The last finite value of everything: evaluations and returns do not come with every row."""
        self._height = 0
        self._compiling = True

    def __enter__(self) -> Display:
        if self.quiet:
            return self
        if note := rounding(self.config):
            self._print(note)
        if self.console.is_terminal:
            self._live = Live(self._bar, console=self.console, refresh_per_second=4)
            self._live.start()
        else:
            self._print(f"compiling {self.config.env} ...")
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        if self._live is not None:
            with suppress(OSError):
                self._live.stop()
            self._live = None

    def report(self, row: Mapping[str, float]) -> None:
        if self.quiet:
            return
        self._known |= {name: value for name, value in row.items() if math.isfinite(value)}
        if self._live is None:
            self._print(plain_line(row))
            return
        if self._compiling:
            self._compiling = False
            self._bar.update(self._task, description=escape(self.config.env))
        self._bar.update(self._task, completed=row["step"] if self._by_steps else row["seconds"])
        columns = panel_columns({**row, **self._known})
        self._height = max(self._height, *map(len, columns))
        with suppress(OSError):  # a terminal that hung up must not end the run before it is saved
            self._live.update(Group(self._bar, panel(columns, self._height)))

    def warn(self, text: str) -> None:
        """Say something that must not be missed."""
        if not self.quiet:
            self._print(f"[bold yellow]Warning:[/] {escape(text)}", markup=True)

    def _print(self, text: str, markup: bool = False) -> None:
        with suppress(OSError):
            self.console.print(text, highlight=False, soft_wrap=True, markup=markup)


def rounding(config: TrainConfig) -> str | None:
    """What to say when the steps that were asked for are not a whole number of iterations."""
    if config.total_steps is None or config.iterations is None:
        return None
    size = config.driver.steps_per_iteration
    if config.total_steps % size == 0:
        return None
    return (
        f"{config.total_steps:,} steps are rounded up to {config.iterations * size:,}: "
        f"{config.iterations} iterations of {size:,}."
    )


def plain_line(row: Mapping[str, float]) -> str:
    """One line for a log file."""
    shown = [(n, v) for n, v in row.items() if n.startswith(("return/", "evaluation/")) and math.isfinite(v)]
    returns = " ".join(f"{n}={v:.2f}" for n, v in shown)
    split = " ".join(f"{n.partition('/')[2]} {100 * v:.0f}%" for n, v in row.items() if n.startswith("time/"))
    return f"step {row['step']:,.0f}  {row['steps_per_second']:,.0f} steps/s  {returns}  ({split})"


def panel_columns(row: Mapping[str, float]) -> tuple[Cells, Cells, Cells]:
    """Speed, returns and losses: names and values."""
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
    return speed, play, learn


def panel(columns: tuple[Cells, Cells, Cells], height: int) -> Table:
    """The columns side by side, as high as they have ever been: what is below does not jump."""
    table = Table.grid(padding=(0, 3))
    for i in range(height):
        cells = []
        for column in columns:
            name, value = column[i] if i < len(column) else ("", "")
            cells += [f"[dim]{escape(name)}[/dim]", f"[bold]{value}[/bold]"]
        table.add_row(*cells)
    return table


def number(value: float) -> str:
    if not math.isfinite(value):
        return "-"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
