"""Wealth over time as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstream.runs.curves import save_figure
from slipstream.training.backtest.ledger import Ledger

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEARNED = "#1b7f9c"
OTHERS = ("#d1682a", "#6a4c93", "#7d7d7d", "#4f9d69")


def draw_wealth(learned: Sequence[Ledger], others: Sequence[Ledger], title: str, out: Path) -> list[Path]:
    """Write a PNG and an SVG.

    Args:
        learned: of the policies, one for each run.
        others: what they are compared with.
        title: says what is shown.
        out: where to, without suffix.
    """
    return save_figure(make_figure(learned, others, title), out)


def make_figure(learned: Sequence[Ledger], others: Sequence[Ledger], title: str) -> Figure:
    """Wealth above, and how far below its peak it is beneath. Several runs are their mean, in the band from the worst
    to the best of them on each day."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    figure = Figure(figsize=(10, 6.4), layout="constrained")
    FigureCanvasAgg(figure)
    wealth, drawdown = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    for ledger, colour in zip(others, OTHERS):
        wealth.plot(ledger.days, ledger.wealth, color=colour, linewidth=1.2, label=ledger.name)
        drawdown.plot(ledger.days, _below_peak(ledger.wealth), color=colour, linewidth=0.8)
    _draw_learned(wealth, drawdown, learned)
    wealth.set(title=title, ylabel="total assets, 1 at the beginning")
    drawdown.set(ylabel="below the peak")
    drawdown.yaxis.set_major_formatter(PercentFormatter(1.0))
    for axis in (wealth, drawdown):
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    wealth.legend(frameon=False, loc="upper left")
    return figure


def _draw_learned(wealth: Any, drawdown: Any, learned: Sequence[Ledger]) -> None:
    days, all_wealth = learned[0].days, np.stack([ledger.wealth for ledger in learned])
    mean = all_wealth.mean(axis=0)
    if len(learned) == 1:
        label = learned[0].name
    else:
        label = f"mean of {len(learned)} runs, and from the worst to the best"
        wealth.fill_between(
            days, all_wealth.min(axis=0), all_wealth.max(axis=0), color=LEARNED, alpha=0.18, linewidth=0
        )
        for one in all_wealth:
            wealth.plot(days, one, color=LEARNED, linewidth=0.6, alpha=0.6)
    wealth.plot(days, mean, color=LEARNED, linewidth=2.0, label=label)
    drawdown.plot(days, np.mean([_below_peak(one) for one in all_wealth], axis=0), color=LEARNED, linewidth=1.4)


def _below_peak(wealth: np.ndarray) -> np.ndarray:
    return wealth / np.maximum.accumulate(wealth) - 1.0
