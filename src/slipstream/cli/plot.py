"""`slipstream plot`: learning curves."""

from __future__ import annotations

import json as json_module
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro


@dataclass(frozen=True)
class Plot:
    """Draw the learning curves of one or more runs: returns in training, and in evaluations where a run has them,
    against steps and against wall-clock time.

    Runs that differ only in their seed are drawn together: each as a thin line to where it ends, and the mean of those
    still running with a band of one standard deviation. Other runs are labelled with what differs.
    """

    runs: tyro.conf.Positional[tuple[str, ...]]
    """Directories of runs, or directories with runs in them."""
    out: str | None = None
    """Where to write, without suffix (a PNG and an SVG); by default `curves` in the first directory."""
    metric: str | None = None
    """Which metric; by default the returns of every group, in training and evaluated."""
    lineage: tyro.conf.FlagCreatePairsOff[bool] = False
    """Draw who came from whom in a tournament, whose directory is given instead of runs'."""
    json: bool = False
    """Print which files were written as JSON."""


def run(options: Plot) -> int:
    from slipstream.runs.curves import draw_curves

    if not options.runs:
        raise ValueError("Name at least one run directory.")
    if options.lineage:
        return _draw_lineage(options)
    out = Path(options.out) if options.out else Path(options.runs[0]) / "curves"
    return _tell(draw_curves(list(options.runs), out, options.metric), options)


def _draw_lineage(options: Plot) -> int:
    if len(options.runs) > 1 or options.metric is not None:
        raise ValueError("--lineage draws one tournament: name its directory alone, and no --metric.")
    from slipstream.tournament.lineage import draw_lineage
    from slipstream.tournament.tournament import board_of

    (where,) = tuple(options.runs)
    plan, board = board_of(where)
    out = Path(options.out) if options.out else Path(where) / "lineage"
    history = board.history()
    title = f"{plan.train.env}: {len(history)} agents by {plan.generator}"
    return _tell(draw_lineage(history, title, out), options)


def _tell(written: list[Path], options: Plot) -> int:
    files = [str(f) for f in written]
    result: dict[str, Any] = {"files": files}
    print(json_module.dumps(result) if options.json else "\n".join(f"Wrote {f}" for f in files))
    return 0
