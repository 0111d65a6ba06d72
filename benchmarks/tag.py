"""Tag: Slipstream against a plain vectorised NumPy implementation of the same rules, in the same run.

    python benchmarks/tag.py [--quick] [--crowds] [--output docs/figures]

Measures agent steps per second with random actions (rewards, observations and resets included) on one thread
and on all, and on one thread how the cost grows with the number of agents and of worlds. Writes `tag.json`, and
`tag_scaling.png` and `.svg`.

With `--crowds` it measures only how agents in the plane find their neighbours, through cells and by looking at
everybody, on squares that grow with their number. Writes `tag_crowds.json`, `.png` and `.svg`.
"""

from __future__ import annotations

import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from reference_tag import Continuous, ContinuousRules, Gridworld, GridworldRules
from slipstream.arrays import set_threads
from slipstream.envs import make
from slipstream.envs.nearest import nearest
from slipstream.target import choose_target

AGENTS = (5, 20, 100, 500, 1000, 2000)
WORLDS = (16, 64, 256, 1024, 4096)
CROWDS = (50, 100, 150, 200, 300, 500, 1000, 2000, 5000, 10_000)
NUMPY_LANES = (2_000, 20_000, 200_000)


@dataclass(frozen=True)
class Options:
    """Measure Tag against plain NumPy, and how its cost grows."""

    quick: bool = False
    """Smaller sizes and fewer repetitions: to see that everything works."""
    crowds: bool = False
    """Measure only how the search for neighbours in the plane grows with the number of agents."""
    output: Path = Path(__file__).parents[1] / "docs" / "figures"
    """Where the figures and the JSON go."""


@dataclass(frozen=True)
class Case:
    """A world of a size: how ours and NumPy's are made."""

    name: str
    agents: int
    worlds: int

    @property
    def rules(self) -> GridworldRules | ContinuousRules:
        if self.name == "tag-gridworld":
            return GridworldRules(num_taggers=self.agents - 1)
        taggers = max(1, self.agents // 20)
        neighbours = min(10, self.agents - 1)
        return ContinuousRules(num_taggers=taggers, num_runners=self.agents - taggers, num_neighbors=neighbours)

    def ours(self) -> Callable[[int], Any]:
        return make(self.name, num_worlds=self.worlds, **asdict(self.rules)).rollout_random

    def numpys(self, num_worlds: int) -> Callable[[int], Any]:
        rules = self.rules
        make_peer: Any = Gridworld if isinstance(rules, GridworldRules) else Continuous
        peer = make_peer(num_worlds, rules)
        draw = np.random.default_rng(0)

        def run(steps: int) -> None:
            for _ in range(steps):
                peer.random_step(draw)

        return run


def seconds_per_step(
    run: Callable[[int], Any],
    budget: float,
    repetitions: int = 10,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """The best of several measurements that take about `budget` seconds together."""
    run(2)
    start = clock()
    run(1)
    once = clock() - start
    steps = max(1, int(budget / repetitions / max(once, 1e-6)))
    best = float("inf")
    for _ in range(repetitions):
        start = clock()
        run(steps)
        best = min(best, (clock() - start) / steps)
    return best


def rate(case: Case, budget: float) -> float:
    """Agent steps per second of ours."""
    return case.agents * case.worlds / seconds_per_step(case.ours(), budget)


def peer_rate(case: Case, budget: float) -> float:
    """Agent steps per second of NumPy, at the number of worlds that suits it best (caches are small)."""
    counts = sorted({max(1, n // case.agents) for n in NUMPY_LANES})
    return max(n * case.agents / seconds_per_step(case.numpys(n), budget / len(counts)) for n in counts)


def headline(cases: list[Case], threads: list[int], budget: float, progress: Progress) -> list[dict[str, Any]]:
    """Both worlds at their size, on each number of threads, with NumPy beside them."""
    rows = []
    task = progress.add_task("against NumPy", total=len(cases) * (len(threads) + 1))
    for case in cases:
        peer = peer_rate(case, budget)
        progress.advance(task)
        row: dict[str, Any] = {"env": case.name, "agents": case.agents, "worlds": case.worlds, "numpy": peer}
        for count in threads:
            set_threads(count)
            row[f"threads_{count}"] = rate(case, budget)
            progress.advance(task)
        rows.append(row)
    return rows


def scaling(agents: tuple[int, ...], worlds: tuple[int, ...], budget: float, progress: Progress) -> list[dict]:
    """Agent steps per second over agents (lanes about constant) and over worlds of 100 agents, on one thread."""
    points = []
    set_threads(1)  # what grows is seen best where nothing is shared
    for name, lanes in (("tag-gridworld", 200_000), ("tag-continuous", 20_000)):
        cases = [("agents", Case(name, n, max(1, lanes // n))) for n in agents]
        cases += [("worlds", Case(name, 100, n)) for n in worlds]
        task = progress.add_task(f"scaling of {name}", total=len(cases))
        for axis, case in cases:
            got = rate(case, budget)
            points.append({"env": name, "over": axis, "agents": case.agents, "worlds": case.worlds, "rate": got})
            progress.advance(task)
    return points


def crowds(agents: tuple[int, ...], budget: float, progress: Progress) -> list[dict[str, Any]]:
    """Agent steps per second of processor time in the plane, by how neighbours are searched for, on one thread.

    The square grows with their number, so that they are always as far apart: on one that does not, nearly everybody is
    tagged within a few steps. Lanes are about constant.
    """
    set_threads(1)
    module: Any = sys.modules[nearest.__module__]
    threshold = module.CELLS_FROM
    points = []
    task = progress.add_task("crowds", total=2 * len(agents))
    for count in agents:
        case = Case("tag-continuous", count, max(1, 20_000 // count))
        side = math.sqrt(count)
        rules: dict[str, Any] = asdict(case.rules) | {"grid_length": side, "tagging_distance": 0.1 / side}
        point: dict[str, Any] = {"agents": count, "worlds": case.worlds, "chosen": "cells"}
        if count < threshold:
            point["chosen"] = "everybody"
        for name, least in (("cells", 1), ("everybody", 10**9)):
            module.CELLS_FROM = least
            run = make(case.name, num_worlds=case.worlds, **rules).rollout_random
            point[name] = count * case.worlds / seconds_per_step(run, budget, clock=time.process_time)
            progress.advance(task)
        points.append(point)
    module.CELLS_FROM = threshold
    return points


def show_crowds(points: list[dict[str, Any]], console: Console) -> None:
    table = Table(title="agent steps per second of processor time in the plane (* is what is chosen)")
    for column in ("agents", "worlds", "through cells", "everybody"):
        table.add_column(column, justify="right")
    for p in points:
        rates = [f"{p[n] / 1e6:.2f} M{'*' if p['chosen'] == n else ' '}" for n in ("cells", "everybody")]
        table.add_row(f"{p['agents']:,}", f"{p['worlds']:,}", *rates)
    console.print(table)


def plot_crowds(points: list[dict[str, Any]], path: Path) -> None:
    """The rate over the number of agents, both ways."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
    agents = [p["agents"] for p in points]
    for name, label, colour in (
        ("everybody", "everybody looks at everybody", "#8a8f98"),
        ("cells", "through the cells around", "#d1682a"),
    ):
        axes.plot(agents, [p[name] for p in points], "o-", color=colour, label=label)
    axes.set(xscale="log", yscale="log", xlabel="agents per world (lanes constant)")
    axes.set_ylabel("agent steps per second of a core")
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    _save(figure, path)


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    return plt


def _save(figure: Any, path: Path) -> None:
    for suffix in (".png", ".svg"):
        figure.savefig(path.with_suffix(suffix), dpi=150)
    _pyplot().close(figure)


def plot(points: list[dict], path: Path) -> None:
    """Rate over agents and over worlds, one panel each."""
    plt = _pyplot()
    figure, panels = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    titles = {"agents": "agents per world (lanes constant)", "worlds": "worlds of 100 agents"}
    for panel, axis in zip(panels, titles):
        for name, colour in (("tag-gridworld", "#1b7f9c"), ("tag-continuous", "#d1682a")):
            chosen = [p for p in points if p["over"] == axis and p["env"] == name]
            panel.plot([p[axis] for p in chosen], [p["rate"] for p in chosen], "o-", color=colour, label=name)
        panel.set(xscale="log", yscale="log", xlabel=titles[axis])
        panel.grid(alpha=0.3, which="both")
    panels[0].set_ylabel("agent steps per second, one thread")
    panels[0].legend()
    _save(figure, path)


def show(rows: list[dict], threads: list[int], console: Console) -> None:
    table = Table(title="agent steps per second, random actions")
    for column in ("world", "agents", "worlds", "NumPy", *(f"{n} thread{'s' * (n > 1)}" for n in threads)):
        table.add_column(column, justify="left" if column == "world" else "right")
    for row in rows:
        ours = [f"{row[f'threads_{n}'] / 1e6:.1f} M (x{row[f'threads_{n}'] / row['numpy']:.1f})" for n in threads]
        table.add_row(row["env"], str(row["agents"]), str(row["worlds"]), f"{row['numpy'] / 1e6:.2f} M", *ours)
    console.print(table)


def main(options: Options) -> None:
    cores = os.cpu_count() or 1
    threads = [1, cores] if cores > 1 else [1]
    budget = 0.3 if options.quick else 4.0
    shrink = 20 if options.quick else 1
    cases = [
        Case("tag-gridworld", 1000, 2000 // shrink),
        Case("tag-continuous", 100, 1000 // shrink),
    ]
    console = Console()
    machine = {"processor": platform.processor() or platform.machine(), "cores": cores, **asdict(choose_target())}
    options.output.mkdir(parents=True, exist_ok=True)
    if options.crowds:
        with Progress(console=console) as progress:
            crowd = crowds(CROWDS[::3] if options.quick else CROWDS, budget / 2, progress)
        show_crowds(crowd, console)
        result = {"machine": machine, "quick": options.quick, "crowds": crowd}
        (options.output / "tag_crowds.json").write_text(json.dumps(result, indent=1) + "\n")
        plot_crowds(crowd, options.output / "tag_crowds")
        console.print(f"written to {options.output}")
        return
    with Progress(console=console) as progress:
        rows = headline(cases, threads, budget, progress)
        agents, worlds = (AGENTS[::3], WORLDS[::2]) if options.quick else (AGENTS, WORLDS)
        points = scaling(agents, worlds, budget / 3, progress)
    show(rows, threads, console)
    console.print(f"Gathers by {choose_target().gather}, chosen by {choose_target().chosen_by}.")
    result = {"machine": machine, "quick": options.quick, "headline": rows, "scaling": points}
    (options.output / "tag.json").write_text(json.dumps(result, indent=1) + "\n")
    plot(points, options.output / "tag_scaling")
    console.print(f"written to {options.output}")


if __name__ == "__main__":
    main(tyro.cli(Options))
