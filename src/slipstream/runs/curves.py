"""Learning curves from run directories."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.runs.directory import RunDirectory, RunError
from slipstream.runs.metrics import read_metrics

POINTS = 200
"""Where curves of several seeds are compared."""


def draw_curves(paths: Sequence[str], out: Path, metric: str | None = None) -> list[Path]:
    """Draw return against steps and against time, as PNG and SVG.

    Args:
        paths: run directories; runs that differ only in their seed are drawn as one band.
        out: where to, without suffix.
        metric: one metric instead of the returns of all groups.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    families = _families(paths)
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, 2, sharey=True)
    drawn = 0
    for label, runs in families.items():
        names = [metric] if metric else _return_names(runs)
        for name in names:
            text = label if len(names) == 1 else f"{label}: {name.partition('/')[2]}"
            if len(runs) > 1:
                text += f" ({len(runs)} seeds)"
            for axis, over in zip(axes, ("step", "seconds")):
                drawn += _draw(axis, runs, over, name, text)
    if not drawn:
        available = sorted({k for rows in families.values() for r in rows for row in r for k in row})
        raise RunError(f"No run has values of {metric or 'any return'}; metrics are {', '.join(available) or 'none'}.")
    axes[0].set(xlabel="environment steps", ylabel=metric or "mean episode return")
    axes[1].set(xlabel="seconds")
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False)
    out.parent.mkdir(parents=True, exist_ok=True)
    files = [out.with_name(out.name + suffix) for suffix in (".png", ".svg")]
    for file in files:
        figure.savefig(file, dpi=150)
    return files


def _families(paths: Sequence[str]) -> dict[str, list[list[dict[str, Any]]]]:
    """Rows of metrics by family of runs that differ only in their seed, under a readable name."""
    families: dict[str, tuple[str, list]] = {}
    for path in paths:
        run = RunDirectory.open(path)
        config = {k: v for k, v in run.config().items() if k != "seed"}
        name, rows = families.setdefault(json.dumps(config, sort_keys=True), (config["env"], []))
        rows.append(read_metrics(run))
    labels: dict[str, list] = {}
    for name, rows in families.values():
        label = name
        while label in labels:
            label += "'"
        labels[label] = rows
    return labels


def _return_names(runs: list[list[dict[str, Any]]]) -> list[str]:
    return sorted({k for rows in runs for row in rows for k in row if k.startswith("return/")})


def _draw(axis: Any, runs: list[list[dict[str, Any]]], over: str, name: str, label: str) -> int:
    curves = []
    for rows in runs:
        points = [(row[over], row[name]) for row in rows if row.get(name) is not None]
        if points:
            curves.append(np.array(points, float).T)
    if not curves:
        return 0
    if len(curves) == 1:
        axis.plot(*curves[0], label=label)
        return 1
    grid = np.linspace(max(c[0][0] for c in curves), min(c[0][-1] for c in curves), POINTS)
    values = np.stack([np.interp(grid, *c) for c in curves])
    mean, spread = values.mean(axis=0), values.std(axis=0)
    (line,) = axis.plot(grid, mean, label=label)
    axis.fill_between(grid, mean - spread, mean + spread, alpha=0.25, color=line.get_color(), linewidth=0)
    return 1
