"""Who came from whom, as a list and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from slipstream.runs.curves import COLORS, save_figure
from slipstream.runs.directory import RunError
from slipstream.tournament.leaderboard import Entry

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def ancestors(history: Sequence[Entry], id: str) -> list[Entry]:
    """An agent and all it came from, the first one first."""
    known = {entry.id: entry for entry in history}
    line = []
    while (entry := known.get(id)) is not None:
        line.append(entry)
        if entry.parent is None:
            break
        id = entry.parent
    return line[::-1]


def draw_lineage(history: Sequence[Entry], title: str, out: Path) -> list[Path]:
    """Draw every agent at its time and score, with a line to its parent; the best one's line stands out.

    Args:
        history: of the leaderboard.
        title: above it.
        out: where to, without suffix: a PNG and an SVG.
    """
    if not history:
        raise RunError("The leaderboard is empty: there is no lineage to draw yet.")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    pools = list(dict.fromkeys(entry.pool for entry in history))
    figure = Figure(figsize=(11, 1.0 + 4.0 * len(pools)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(pools), 1, squeeze=False, sharex=True)[:, 0]
    start = min(entry.submitted - entry.seconds for entry in history)
    longest = max(entry.submitted for entry in history) - start
    unit, name = (60.0, "minutes") if longest > 300 else (1.0, "seconds")
    for pool, axis, color in zip(pools, axes, COLORS * len(pools)):
        _draw_pool([entry for entry in history if entry.pool == pool], axis, color, start, unit)
        axis.set_ylabel(f"score of {pool}" if len(pools) > 1 else "score")
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel(f"{name} since the beginning")
    figure.suptitle(title)
    return save_figure(figure, out)


def _draw_pool(history: Sequence[Entry], axis: Axes, color: str, start: float, unit: float) -> None:
    place = {entry.id: ((entry.submitted - start) / unit, entry.score) for entry in history}
    best = max(history, key=lambda entry: (entry.score, -entry.number))
    line = {entry.id for entry in ancestors(history, best.id)}
    for entry in history:
        x, y = place[entry.id]
        leads = entry.id in line
        if entry.parent in place:
            # Out of the parent sideways and into the child: lines of siblings stay apart.
            (x0, y0), middle = place[entry.parent], 0.5 * (place[entry.parent][0] + x)
            axis.plot(
                *_bend((x0, y0), (middle, y0), (middle, y), (x, y)),
                color=color if leads else "#9a9a9a",
                linewidth=2.2 if leads else 0.8,
                alpha=1.0 if leads else 0.6,
                zorder=3 if leads else 1,
            )
        born = entry.parent is None
        axis.plot(
            x,
            y,
            marker="s" if born else "o",
            markersize=7 if leads else 5,
            color=color if leads else "#9a9a9a",
            markerfacecolor="white" if born else None,
            linestyle="none",
            zorder=4 if leads else 2,
        )
    axis.annotate(
        f"{best.id}: {best.score:.1f}", place[best.id], xytext=(6, 6), textcoords="offset points", color=color
    )
    axis.plot([], [], "s", color="#9a9a9a", markerfacecolor="white", label="started anew")
    axis.plot([], [], "o", color="#9a9a9a", label="went on from another")
    axis.plot([], [], "-", color=color, linewidth=2.2, label="the best one's line")
    axis.legend(frameon=False, loc="lower right")


def _bend(*points: tuple[float, float]) -> tuple[list[float], list[float]]:
    """A cubic Bezier curve through its first and last point, as x and y."""
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = points
    xs, ys = [], []
    for i in range(21):
        t = i / 20
        a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3
        xs.append(a * x0 + b * x1 + c * x2 + d * x3)
        ys.append(a * y0 + b * y1 + c * y2 + d * y3)
    return xs, ys
