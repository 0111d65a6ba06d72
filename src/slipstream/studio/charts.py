"""The metrics of runs as charts beside the scene."""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.runs.curves import COLORS

POINTS = 160
"""At how many places a curve is drawn at most: there are not many more pixels."""

LEARNING = (
    "policy_loss",
    "value_loss",
    "critic_loss",
    "loss",
    "entropy",
    "kl",
    "clip_fraction",
    "temperature",
    "value",
    "learning_rate",
)
"""What is shown of how policies learn, by the ends of the metrics' names."""

PART = "report/reward_"
"""How the metrics begin that a return is the sum of: worlds report them by these names."""

HEIGHT, TALL = 150, 210
"""Of charts, in pixels."""
LAG = 5.0
"""Seconds that a slow browser may be behind."""

Columns = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Plan:
    """What a chart shows.

    Attributes:
        section: where it is.
        title: its own.
        metrics: names of metrics, in the order of their colours.
        scale: by which they are multiplied.
    """

    section: str
    title: str
    metrics: tuple[str, ...]
    scale: float = 1.0


RETURNS, TERMS, LEARNS, SPEED = "Returns", "Reports of the world", "Learning", "Throughput"
SECTIONS = (RETURNS, TERMS, LEARNS, SPEED)


def plan_charts(columns: Columns) -> list[Plan]:
    """The charts of a run, by what it has reported."""
    known = [name for name, values in columns.items() if np.isfinite(values).any()]

    def beginning(*prefixes: str) -> tuple[str, ...]:
        return tuple(name for prefix in prefixes for name in known if name.startswith(prefix))

    parts = beginning(PART)
    plans = [Plan(RETURNS, "mean return of an episode", beginning("return/", "evaluation/"))]
    plans.append(Plan(RETURNS, "what the return is made of", parts))
    plans += [Plan(TERMS, name.partition("/")[2], (name,)) for name in beginning("report/") if name not in parts]
    for kind in LEARNING:
        found = tuple(n for n in known if "/" in n and n.rpartition("/")[2] == kind)
        plans.append(Plan(LEARNS, kind.replace("_", " "), found))
    plans.append(Plan(SPEED, "steps per second", tuple(n for n in known if n == "steps_per_second")))
    plans.append(Plan(SPEED, "updates per second", beginning("pipeline/updates_per_second")))
    plans.append(Plan(SPEED, "what the time goes to, %", beginning("time/"), 100.0))
    return [plan for plan in plans if plan.metrics]


@dataclass(frozen=True)
class Curve:
    label: str
    points: np.ndarray
    """`[2, points]`, with growing x and finite values."""
    color: str
    is_compared: bool = False


def curves_of(plan: Plan, over: str, shown: Columns, compared: Mapping[str, Columns]) -> list[Curve]:
    """The curves of a chart.

    Args:
        plan: of the chart.
        over: `step` or `seconds`.
        shown: metrics of the run that is watched.
        compared: those of others, by their names.
    """
    curves = []
    sources: list[tuple[str, Columns]] = [("", shown), *compared.items()]
    for who, columns in sources:
        for metric in plan.metrics:
            points = points_of(columns, over, metric, plan.scale)
            if points is not None:
                label = f"{who}: {_short(metric)}" if who else _short(metric)
                curves.append(Curve(label, points, COLORS[len(curves) % len(COLORS)], bool(who)))
    return curves


def _short(metric: str) -> str:
    kind, slash, rest = metric.partition("/")
    if kind == "evaluation":
        return f"{rest}, evaluated"
    if metric.startswith(PART):
        return metric.removeprefix(PART).replace("_", " ")
    return rest if slash and kind in ("return", "report", "time") else metric.replace("_", " ").replace("/", " ")


def points_of(columns: Columns, over: str, metric: str, scale: float = 1.0) -> np.ndarray | None:
    """A metric as points that can be drawn, `[2, points]`; None if it has no values."""
    if metric not in columns or over not in columns:
        return None
    points = np.stack([columns[over], scale * columns[metric]])
    points = points[:, np.isfinite(points).all(axis=0)]
    if not points.size:
        return None
    later = np.concatenate([[True], np.diff(points[0]) > 0])
    return thinned(points[:, later], POINTS)


def thinned(points: np.ndarray, most: int) -> np.ndarray:
    """At most so many points: means of neighbours, and the last one as it is."""
    count = points.shape[1]
    if count <= most:
        return points
    edges = np.linspace(0, count, most).astype(int)
    means = np.stack([points[:, a:b].mean(axis=1) for a, b in itertools.pairwise(edges)], 1)
    return np.concatenate([means, points[:, -1:]], axis=1)


def aligned(curves: Sequence[Curve]) -> tuple[np.ndarray, ...]:
    """Curves as a chart takes them: x, and a y for each; not a number where a curve has not begun or has ended."""
    x = np.unique(np.concatenate([curve.points[0] for curve in curves]))
    if len(x) > 2 * POINTS:
        x = np.linspace(x[0], x[-1], POINTS)
    return (x, *(np.interp(x, *curve.points, left=np.nan, right=np.nan) for curve in curves))


def value_range(curves: Sequence[Curve]) -> tuple[float, float]:
    """What the y axis of a chart spans: a little more than the values, to numbers that do not change all the time."""
    values = np.concatenate([curve.points[1] for curve in curves])
    low, high = float(values.min()), float(values.max())
    span = max(high - low, 1e-9, 0.02 * max(abs(low), abs(high)))
    grain = 10.0 ** math.floor(math.log10(span)) / 2.0
    return math.floor((low - 0.02 * span) / grain) * grain, math.ceil((high + 0.02 * span) / grain) * grain


class Leaving:
    """Charts on their way out: hidden at once, removed later.

    A browser removes what it is told to before it changes what it was told to change earlier, if both have come since
    its last frame; it then complains of changes to charts that are gone.
    """

    def __init__(self) -> None:
        self._charts: deque[tuple[float, Any]] = deque()

    def add(self, chart: Any) -> None:
        chart.visible = False
        self._charts.append((time.monotonic() + LAG, chart))

    def sweep(self) -> None:
        """Remove those that no browser is still busy with."""
        while self._charts and self._charts[0][0] <= time.monotonic():
            self._charts.popleft()[1].remove()


class Chart:
    """A chart on the page."""

    def __init__(self, gui: Any, plan: Plan, curves: Sequence[Curve], over: str, order: float | None = None):
        self.plan, self._look, self._scales = plan, _look(curves, over), _scales(curves)
        self.handle = gui.add_uplot(
            data=aligned(curves),
            series=_series(curves, over),
            title=plan.title,
            scales=_scales(curves),
            axes=_axes(),
            height=TALL if plan.section == RETURNS else HEIGHT,
            padding=(6, 16, 0, 0),
            order=order,
        )

    def looks_like(self, curves: Sequence[Curve], over: str) -> bool:
        """Whether it can go on with these curves, and needs no other names."""
        return _look(curves, over) == self._look

    def update(self, curves: Sequence[Curve]) -> None:
        self.handle.data = aligned(curves)
        if _scales(curves) != self._scales:
            self._scales = self.handle.scales = _scales(curves)


def _look(curves: Sequence[Curve], over: str) -> tuple:
    return over, *(dataclasses.astuple(c)[0] for c in curves)


def _scales(curves: Sequence[Curve]) -> dict[str, Any]:
    # The range is given: what is not a number would keep uPlot from finding it.
    return {"x": {"time": False}, "y": {"range": value_range(curves)}}


def _series(curves: Sequence[Curve], over: str) -> tuple[dict[str, Any], ...]:
    x = {"label": "steps" if over == "step" else "seconds"}
    lines = (
        {
            "label": curve.label,
            "stroke": curve.color,
            "width": 1.2 if curve.is_compared else 2.0,
            "spanGaps": True,
            **({"dash": (6, 4)} if curve.is_compared else {}),
        }
        for curve in curves
    )
    return (x, *lines)


def _axes() -> tuple[dict[str, Any], ...]:
    return ({"size": 34, "space": 70}, {"size": 58, "space": 30})


class ChartBoard:
    """All charts of a run, in folders of the page's panel.

    Args:
        gui: of the page.
        container: what they are put into, a tab of the page.
        leaving: takes those that are no longer wanted.
    """

    def __init__(self, gui: Any, container: Any, leaving: Leaving):
        self.gui, self.leaving = gui, leaving
        with container:
            self.note = gui.add_markdown("*No metrics yet.*")
            self.folders = {
                section: gui.add_folder(section, expand_by_default=section in (RETURNS, SPEED)) for section in SECTIONS
            }
        for folder in self.folders.values():
            folder.visible = False
        self.charts: dict[tuple[str, str], Chart] = {}

    def show(self, over: str, shown: Columns, compared: Mapping[str, Columns]) -> None:
        """Show the metrics of a run, and those of others beside them."""
        plans = plan_charts(shown)
        wanted = {(plan.section, plan.title): plan for plan in plans}
        for key in [key for key in self.charts if key not in wanted]:
            self.leaving.add(self.charts.pop(key).handle)
        for key, plan in wanted.items():
            self._show_one(key, plan, curves_of(plan, over, shown, compared), over)
        for section, folder in self.folders.items():
            folder.visible = any(key[0] == section for key in self.charts)
        self.note.visible = not self.charts

    def _show_one(self, key: tuple[str, str], plan: Plan, curves: Sequence[Curve], over: str) -> None:
        old = self.charts.get(key)
        if old is not None and old.looks_like(curves, over):
            old.update(curves)
        elif curves:
            # uPlot does not take other names and other numbers at once: another chart takes the place of this one.
            with self.folders[plan.section]:
                self.charts[key] = Chart(self.gui, plan, curves, over, None if old is None else old.handle.order)
            if old is not None:
                self.leaving.add(old.handle)
