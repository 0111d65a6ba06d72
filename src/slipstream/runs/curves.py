"""Learning curves from run directories."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstream.runs.directory import RunError, find_runs, write_atomically, writing
from slipstream.runs.families import Family, find_families

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
"""Told apart by colour-blind people too (Okabe and Ito)."""

POINTS = 200
"""At how many places a band is computed, beside those that were measured."""

MARKS = 25
"""At most so many marks on a line."""

UNITS = ((3 * 3600.0, 3600.0, "hours"), (300.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))
"""From how many seconds on, how long it is, and its name."""

WIDE = 60
"""Labels longer than this do not fit beside one another."""

SUFFIXES = (".png", ".svg")

TRAINING = dict(linewidth=1.8)
EVALUATION = dict(linewidth=1.4, linestyle=(0, (4, 2)), marker="o", markersize=4.5, markerfacecolor="white")

KINDS = {"return/": ("in training", TRAINING), "evaluation/": ("evaluated", EVALUATION)}
"""The metrics that are drawn when none is named, by the beginning of their names; a group's name follows."""


@dataclass(frozen=True)
class Series:
    """One metric of the runs of a family."""

    label: str
    color: str
    style: dict[str, Any]
    curves: dict[str, list[np.ndarray]]
    """Over `step` and over `seconds`: of each run that has any, `[2, points]`."""


def draw_curves(paths: Sequence[str], out: Path, metric: str | None = None) -> list[Path]:
    """Draw returns in training and in evaluations, against steps and against time, as PNG and SVG.

    Args:
        paths: run directories, or directories with runs in them. Those that differ only in their seed go together.
        out: where to, without suffix.
        metric: one metric instead of the returns of all groups.
    """
    families = find_families([run for path in paths for run in find_runs(path)])
    series = make_series(families, metric)
    if not series:
        available = sorted({name for f in families for columns in f.columns for name in columns})
        raise RunError(f"No run has values of {metric or 'any return'}; metrics are {', '.join(available) or 'none'}.")
    return save_figure(make_figure(series, metric or "mean episode return"), out)


def save_figure(figure: Figure, out: Path) -> list[Path]:
    """Write a picture in every format; `out` is its name, without a suffix or with one of them."""
    base = out.with_suffix("") if out.suffix in SUFFIXES else out
    with writing(base.parent, "create"):
        base.parent.mkdir(parents=True, exist_ok=True)
    files = [base.with_name(base.name + suffix) for suffix in SUFFIXES]
    for file in files:
        image = io.BytesIO()
        figure.savefig(image, format=file.suffix[1:], dpi=150)
        write_atomically(file, image.getvalue())
    return files


def make_series(families: Sequence[Family], metric: str | None = None) -> list[Series]:
    """What there is to draw. A colour stands for a group of a family, whether in training or evaluated."""
    series, colors = [], itertools.cycle(COLORS)
    for family in families:
        groups = [""] if metric else _groups(family)
        kinds = {metric: ("", TRAINING)} if metric else KINDS
        for group, color in zip(groups, colors):
            who = f"{family.label}: {group}" if len(groups) > 1 else family.label
            for kind, (what, style) in kinds.items():
                curves = {over: _points(family, over, kind + group) for over in ("step", "seconds")}
                if curves["step"]:
                    label = ", ".join(filter(None, (who, what, family.count)))
                    series.append(Series(label, color, style, curves))
    return series


def _groups(family: Family) -> list[str]:
    """The groups of agents whose returns are known."""
    names = {name for columns in family.columns for name in columns}
    return sorted({name.removeprefix(kind) for name in names for kind in KINDS if name.startswith(kind)})


def _points(family: Family, over: str, name: str) -> list[np.ndarray]:
    curves = []
    for columns in family.columns:
        if name in columns and over in columns:
            points = np.stack([columns[over], columns[name]])
            curves.append(points[:, np.isfinite(points).all(axis=0)])
    return [c for c in curves if c.size]


def make_figure(series: Sequence[Series], ylabel: str) -> Figure:
    """Two panels, and a legend beneath them."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    longest = max((c[0, -1] for s in series for c in s.curves["seconds"]), default=0.0)
    unit, unit_name = next((length, name) for least, length, name in UNITS if longest >= least)
    labels = [s.label for s in series]
    columns = 2 if max(map(len, labels)) < WIDE else 1
    figure = Figure(figsize=(11, 4.4 + 0.25 * len(labels) / columns), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, 2, sharey=True)
    for s in series:
        _draw(axes[0], s, s.curves["step"])
        _draw(axes[1], s, [c / [[unit], [1.0]] for c in s.curves["seconds"]])
    axes[0].set(xlabel="environment steps", ylabel=ylabel)
    axes[1].set(xlabel=f"{unit_name} of training")
    axes[0].xaxis.set_major_formatter(EngFormatter(sep=""))
    for axis in axes:
        axis.set_xlim(left=0)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    _add_legend(figure, series, columns)
    return figure


def _add_legend(figure: Figure, series: Sequence[Series], columns: int) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=s.label, **_style(s)) for s in series]
    if any(len(s.curves["step"]) > 1 for s in series):
        label = "one run, until it ends (thick: mean of those still running)"
        handles.append(Line2D([], [], label=label, color="grey", linewidth=0.8, marker=".", markevery=[1]))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False)


def _style(series: Series) -> dict[str, Any]:
    return {**series.style, "color": series.color, "markeredgecolor": series.color}


def _draw(axis: Any, series: Series, curves: Sequence[np.ndarray]) -> None:
    """One line for a single run; for several a thin one each, their mean, and a band of one standard deviation."""
    style = _style(series)
    if len(curves) == 1:
        axis.plot(*curves[0], label=series.label, markevery=_every(curves[0]), **style)
        return
    marked = "marker" in style
    for x, y in curves:
        # Marks of several runs on lines of their own would be a tangle.
        thin = {"linestyle": "none"} if marked else {"linewidth": 0.8}
        axis.plot(x, y, label="_run", alpha=0.5, markevery=_every(x), **style | thin)
        if not marked:
            axis.plot(x[-1:], y[-1:], label="_end", marker=".", color=series.color, linestyle="none")
    x, mean, spread = mean_of_running(curves)
    axis.plot(x, mean, label=series.label, **style | {"marker": None})
    axis.fill_between(x, mean - spread, mean + spread, color=series.color, alpha=0.15, linewidth=0)


def _every(x: np.ndarray) -> int:
    return 1 + x.shape[-1] // MARKS


def mean_of_running(curves: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mean and the standard deviation of curves, at every place over those that have begun and not yet ended.

    Args:
        curves: `[2, points]` each, of different lengths, with growing x.

    Returns:
        x, mean and deviation, `[points]` each. Where a curve begins or ends there is a NaN, so that a line is broken
        there instead of leaping.
    """
    edges = np.unique([c[0, [0, -1]] for c in curves])
    pieces = []
    for begin, end in itertools.pairwise(edges):
        running = [c for c in curves if c[0, 0] <= begin and c[0, -1] >= end]
        if not running:
            continue
        known = np.concatenate([c[0, (c[0] > begin) & (c[0] < end)] for c in running])
        x = np.unique(np.concatenate([known, np.linspace(begin, end, POINTS)]))
        values = np.stack([np.interp(x, *c) for c in running])
        pieces += [np.stack([x, values.mean(axis=0), values.std(axis=0)]), np.full((3, 1), np.nan)]
    return tuple(np.concatenate(pieces, axis=1)) if pieces else (np.empty(0),) * 3  # type: ignore[return-value]
