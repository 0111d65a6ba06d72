"""`slipstream backtest`: how the policies of runs would have traded in days that nothing before has seen."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

if TYPE_CHECKING:
    from slipstream.training.backtest.report import Report

PERCENT = ("cumulative_return", "annual_return", "volatility", "max_drawdown", "costs")
"""Figures that are shown as percentages."""


@dataclass(frozen=True)
class Backtest:
    """Trade through the test period with the policies of one or more runs, and compare what comes out with equal
    weights bought and held, with minimum variance, and with the index.

    The test period is for this report alone: training and ranking never see it. A run keeps in `backtests.json` when
    it was looked at.
    """

    runs: tyro.conf.Positional[tuple[str, ...]]
    """Directories of runs (the seeds of one configuration, say), or directories with runs in them."""
    out: str | None = None
    """Where to draw the total assets over time, without suffix (a PNG and an SVG); by default `backtest` in the first
    directory."""
    period: Literal["test", "validation"] = "test"
    """Which days: those of the final report, or those that policies are ranked by."""
    checkpoint: str = "best"
    """Which weights: best (in the validation period), latest, or a checkpoint's name."""
    backend: str = "auto"
    """What compiles the worlds."""
    json: bool = False
    """Print JSON instead of a table."""


def run(options: Backtest) -> int:
    from slipstream.cli.values import warn
    from slipstream.runs.directory import find_runs
    from slipstream.training.backtest.picture import draw_wealth
    from slipstream.training.backtest.report import backtest

    if not options.runs:
        raise ValueError("Name at least one run directory.")
    runs = list({run.path.resolve(): run for path in options.runs for run in find_runs(path)}.values())
    report = backtest(runs, warn, options.period, options.checkpoint, options.backend)
    name = "backtest" if options.period == "test" else f"backtest-{options.period}"
    out = Path(options.out) if options.out else Path(options.runs[0]) / name
    files = draw_wealth(
        [ledger for ledger, _ in report.runs], [ledger for ledger, _ in report.others], _title(report), out
    )
    paths = [str(run.path) for run in runs]
    if options.json:
        _print_json(report, paths, [str(f) for f in files])
    else:
        _show(report, [str(f) for f in files])
    return 0


def _title(report: Report) -> str:
    from slipstream.envs.trading.prices import describe_day

    prices, window = report.market.market.prices, report.market.window
    first, last = (describe_day(prices.days[row]) for row in (window.first, window.last))
    return f"{len(prices.names)} stocks in the {report.market.period} period, {first} to {last}"


def _spreads(report: Report) -> dict[str, Any]:
    """Of every figure over the runs."""
    from slipstream.cli.outcomes import spread

    figures = [dataclasses.asdict(measures) for _, measures in report.runs]
    return {name: spread([f[name] for f in figures]) for name in figures[0]}


def _print_json(report: Report, paths: list[str], files: list[str]) -> None:
    from slipstream.cli.values import strict_json

    market = report.market
    prices, window = market.market.prices, market.window
    print(
        strict_json(
            {
                "prices": prices.source,
                "sha256": prices.sha256,
                "stocks": list(prices.names),
                "period": market.period,
                "first": str(prices.days[window.first]),
                "last": str(prices.days[window.last]),
                "cost": market.cost,
                "runs": [{"run": path, **dataclasses.asdict(m)} for path, (_, m) in zip(paths, report.runs)],
                "spread": {name: dataclasses.asdict(s) for name, s in _spreads(report).items()},
                "baselines": {ledger.name: dataclasses.asdict(m) for ledger, m in report.others},
                "files": files,
            }
        )
    )


def _show(report: Report, files: list[str]) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    columns = ("return", "a year", "volatility", "Sharpe", "Calmar", "drawdown", "turnover", "costs")
    table = Table("", *columns, title=_title(report), box=SIMPLE, padding=(0, 1, 0, 0), show_edge=False)
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.justify = "right"
    for ledger, measures in report.runs:
        table.add_row(ledger.name, *_cells(dataclasses.asdict(measures)))
    if len(report.runs) > 1:
        spreads = _spreads(report)
        table.add_row(f"mean of {len(report.runs)}", *_cells({n: s.mean for n, s in spreads.items()}), style="bold")
        table.add_row("deviation", *_cells({n: s.standard_deviation for n, s in spreads.items()}))
    table.add_section()
    for ledger, measures in report.others:
        table.add_row(ledger.name, *_cells(dataclasses.asdict(measures)))
    console = Console()
    console.print(table)
    for note in _notes(report):
        console.print(note, style="dim", highlight=False)
    for file in files:
        console.print(f"Wrote {file}", highlight=False, soft_wrap=True)


def _notes(report: Report) -> list[str]:
    from slipstream.training.backtest.baselines import EXPLAINED

    market = report.market
    prices = market.market.prices
    index = (
        f"{prices.index_name} is the index that comes with the prices, and pays none; it is without dividends unless "
        "they are in it."
        if prices.index is not None
        else "No index comes with these prices: the mean of the stocks' changes, which pays no costs, takes its place."
    )
    return [
        f"Trading costs {market.cost:.2%} of what is bought or sold. {EXPLAINED} {index} Volatility, Sharpe and "
        "turnover are as of a year, what is earned without risk counts as 0, and Calmar is the return a year over "
        "the largest drawdown. Costs are in percent of the money at the beginning.",
        *market.notes[1:],
    ]


def _cells(figures: Mapping[str, float]) -> list[str]:
    return [f"{100 * value:.1f}%" if name in PERCENT else f"{value:.2f}" for name, value in figures.items()]
