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

from slipstream.training.config import FusedConfig, TrainConfig

Cells = list[tuple[str, str]]

PIPELINE = {
    "updates_per_second": "updates/s",
    "update_frames_per_second": "update frames/s",
    "updates_per_sample": "updates/sample",
    "policy_lag": "policy lag (updates)",
    "replay_size": "replay",
    "replay_age": "replay age (samples)",
    "processes_replaced": "processes replaced",
}
"""What is shown of how the processes of the pipeline get along."""


class Display:
    """A sink that shows rows of metrics, from before the first kernel is compiled."""

    def __init__(self, config: TrainConfig, quiet: bool = False, console: Console | None = None):
        self.console = console or Console(stderr=True)
        self.config, self.quiet = config, quiet
        self._by_steps = config.budget is not None
        total = config.budget or config.total_seconds
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

    def say(self, text: str) -> None:
        """Say something in passing."""
        if not self.quiet:
            self._print(text)

    def _print(self, text: str, markup: bool = False) -> None:
        with suppress(OSError):
            self.console.print(text, highlight=False, soft_wrap=True, markup=markup)


def rounding(config: TrainConfig) -> str | None:
    """What to say when the steps that were asked for are not a whole number of iterations."""
    steps, driver = config.budget, config.driver
    if steps is None or steps == config.total_steps or not isinstance(driver, FusedConfig):
        return None
    size = driver.steps_per_iteration
    return f"{config.total_steps:,} steps are rounded up to {steps:,}: {steps // size} iterations of {size:,}."


def plain_line(row: Mapping[str, float]) -> str:
    """One line for a log file."""
    shown = [(n, v) for n, v in row.items() if n.startswith(("return/", "evaluation/")) and math.isfinite(v)]
    returns = " ".join(f"{n}={v:.2f}" for n, v in shown)
    split = " ".join(f"{n.partition('/')[2]} {100 * v:.0f}%" for n, v in row.items() if n.startswith("time/"))
    speed = f"{row['steps_per_second']:,.0f} steps/s"
    if "pipeline/updates_per_second" in row:
        speed += f"  {row['pipeline/updates_per_second']:,.0f} updates/s"
    return f"step {row['step']:,.0f}  {speed}  {returns}  ({split})"


def panel_columns(row: Mapping[str, float]) -> tuple[Cells, Cells, Cells]:
    """Speed, returns and losses: names and values."""
    speed = [
        ("steps", f"{row['step']:,.0f}"),
        ("steps/s", f"{row['steps_per_second']:,.0f}"),
        *((label, number(row[f"pipeline/{name}"])) for name, label in PIPELINE.items() if f"pipeline/{name}" in row),
        *((n.partition("/")[2], f"{100 * v:.0f} %") for n, v in row.items() if n.startswith("time/")),
        *processes(row),
    ]
    play = [
        (name.replace("/", " "), number(v))
        for name, v in row.items()
        if name.startswith(("return/", "report/", "evaluation/")) or name == "episode_length"
    ]
    if row["broken_worlds"]:
        play.append(("broken worlds", f"{row['broken_worlds']:.0f}"))
    kinds = ("policy_loss", "value_loss", "critic_loss", "value", "temperature", "entropy", "kl", "learning_rate")
    learn = [(name.replace("/", " "), number(v)) for name, v in row.items() if name.rpartition("/")[2] in kinds]
    return speed, play, learn


def processes(row: Mapping[str, float]) -> Cells:
    """Of each process: how much of a core it uses, and how much memory; the same of a GPU, if it is on one."""

    def share(kind: str, memory: str, name: str) -> str:
        return f"{100 * row[f'{kind}/{name}']:.0f} % {row.get(f'{memory}/{name}', math.nan):,.0f} MB"

    names = [name.partition("/")[2] for name in row if name.startswith("cpu/")]
    on_gpu = {n: f", GPU {share('gpu', 'gpu_memory', n)}" for n in names if f"gpu/{n}" in row}
    return [(n, share("cpu", "memory", n) + on_gpu.get(n, "")) for n in names]


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
