"""Robots learn to run here, and still run in Gymnasium: what `slipstream train NAME` gives, seed by seed.

    .venv/bin/python benchmarks/robot_training.py                      # all of them, one after the other
    .venv/bin/python benchmarks/robot_training.py --robots humanoid    # three seeds of one
    .venv/bin/python benchmarks/robot_training.py --at-once 2          # two runs at a time, each on a core of its own

Every run is the plain command with its preset, timed from outside: starting, compiling, training, evaluating and
saving included. Its best checkpoint then plays 20 episodes in Gymnasium's own, unmodified environment. Runs that are
already in the folder are not trained again. Writes a table, the curves and the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from slipstream.runs.directory import RunDirectory
from slipstream.runs.metrics import read_metrics

ROOT = Path(__file__).resolve().parent.parent
SLIPSTREAM = Path(sys.executable).with_name("slipstream")
GOALS = {"humanoid": 7000, "ant": 5000, "half-cheetah": 6000, "hopper": 3000, "walker2d": 4000, "humanoid-run": 5000}
"""What a policy should earn: in Gymnasium, where it has the robot."""
SEEDS = {"humanoid": 3, "ant": 3}
"""How many seeds, if more than one."""
WITHOUT_GYMNASIUM = {"humanoid-run"}


def shares_of_cores(at_once: int) -> queue.Queue[set[int]]:
    """The machine's cores, dealt to so many runs."""
    cores, shares = sorted(os.sched_getaffinity(0)), queue.Queue()
    if not 1 <= at_once <= len(cores):
        raise SystemExit(f"--at-once must be 1 .. {len(cores)} on this machine, got {at_once}.")
    for i in range(at_once):
        shares.put(set(cores[i::at_once]))
    return shares


def train(robot: str, seed: int, folder: Path, shares: queue.Queue[set[int]]) -> None:
    """Train a robot with a seed, unless that was done before."""
    run, took = folder / f"{robot}-{seed}", folder / f"{robot}-{seed}.seconds"
    if took.exists():
        return
    cores = shares.get()
    start = time.time()
    command = [str(SLIPSTREAM), "train", robot, "--seed", str(seed), "--run", str(run)]
    subprocess.run(command, check=True, preexec_fn=lambda: os.sched_setaffinity(0, cores))
    took.write_text(f"{time.time() - start:.1f} s on {len(cores)} cores\n")
    shares.put(cores)


def judged(robot: str, run: Path) -> dict[str, Any]:
    """What the best checkpoint earns, here and in Gymnasium."""
    where = [] if robot in WITHOUT_GYMNASIUM else ["--in", "gymnasium"]
    command = [str(SLIPSTREAM), "eval", str(run), "--episodes", "20", "--seed", "1000", "--json", *where]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measured(robot: str, seed: int, folder: Path) -> dict[str, Any]:
    """Everything worth telling about one run."""
    run = folder / f"{robot}-{seed}"
    result, rows = judged(robot, run), read_metrics(RunDirectory.open(run))
    (here,) = result["groups"].values()
    there = result.get("gymnasium")
    curve = [(r["seconds"], r["step"], v) for r in rows for k, v in r.items() if k.startswith("evaluation/")]
    passed = {g: next((s for s, _, v in curve if v >= g), None) for g in sorted({GOALS[robot], 5000})}
    seconds, cores = run.with_suffix(".seconds").read_text().split(" s on ")
    shares = ("time/simulation", "time/inference", "time/update", "steps_per_second")
    return {
        "seed": seed,
        "command": f"slipstream train {robot} --seed {seed}",
        "seconds": float(seconds),
        "cores": int(cores.split()[0]),
        "steps": rows[-1]["step"],
        "here": here,
        "speed_here": result["report"].get("forward_speed"),
        "gymnasium": there and next(iter(there["groups"].values())),
        "gymnasium_length": there and there["length"],
        "gymnasium_speed": there and there["report"].get("forward_speed"),
        "seconds_to": passed,
        "split": {name: statistics.median(r[name] for r in rows[1:]) for name in shares},
        "curve": [[round(s, 1), step, round(v, 1)] for s, step, v in curve],
    }


def report(results: dict[str, list[dict[str, Any]]]) -> None:
    columns = (
        "robot",
        "seed",
        "whole command",
        "cores",
        "steps",
        "here",
        "in Gymnasium",
        "lowest",
        "ratio",
        "speed there",
    )
    table = Table(*columns, title="Best checkpoint, 20 episodes without exploration")
    for robot, runs in results.items():
        for r in runs:
            there = r["gymnasium"]
            cells = ["", "", "", ""]
            if there:
                speed = r["gymnasium_speed"]
                ratio = there["mean"] / r["here"]["mean"]
                cells = [
                    f"{there['mean']:,.0f}",
                    f"{there['minimum']:,.0f}",
                    f"{ratio:.0%}",
                    f"{speed:.2f} m/s" if speed is not None else "",
                ]
            took = f"{r['seconds'] / 60:.1f} min"
            table.add_row(
                robot, str(r["seed"]), took, str(r["cores"]), f"{r['steps']:,}", f"{r['here']['mean']:,.0f}", *cells
            )
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def draw(results: dict[str, list[dict[str, Any]]], out: Path) -> None:
    """Return against minutes, one panel for each robot."""
    columns = min(len(results), 3)
    rows = -(-len(results) // columns)
    figure = Figure(figsize=(4 * columns, 3.1 * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axis, (robot, runs) in zip(axes, results.items()):
        for r in runs:
            seconds, _, values = zip(*r["curve"])
            axis.plot([s / 60 for s in seconds], values, label=f"seed {r['seed']}")
        axis.axhline(GOALS[robot], color="0.6", linewidth=1, linestyle="--")
        axis.set(title=robot, xlabel="minutes", xlim=(0, None))
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, loc="lower right")
    for axis in axes[len(results) :]:
        axis.set_axis_off()
    figure.supylabel("return without exploration")
    for suffix in (".png", ".svg"):
        figure.savefig(out.with_suffix(suffix), dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="+", choices=list(GOALS), default=list(GOALS))
    parser.add_argument("--seeds", type=int, help="how many seeds of each; by default 3 of humanoid and ant, else 1")
    parser.add_argument("--at-once", type=int, default=1, help="how many runs at a time; they share the cores")
    parser.add_argument("--folder", default="runs/robots", help="where the runs go")
    parser.add_argument("--out", default="docs/figures/robots", help="where the figures go, without suffix")
    arguments = parser.parse_args()
    folder, out = Path(arguments.folder), ROOT / arguments.out
    folder.mkdir(parents=True, exist_ok=True)
    shares = shares_of_cores(arguments.at_once)
    seeds = {robot: range(arguments.seeds or SEEDS.get(robot, 1)) for robot in arguments.robots}
    with ThreadPoolExecutor(arguments.at_once) as pool:
        list(pool.map(lambda run: train(run[0], run[1], folder, shares), [(r, s) for r in seeds for s in seeds[r]]))
    results = {robot: [measured(robot, seed, folder) for seed in seeds[robot]] for robot in seeds}
    report(results)
    out.parent.mkdir(parents=True, exist_ok=True)
    draw(results, out)
    out.with_suffix(".json").write_text(json.dumps({"goals": GOALS, "runs": results}) + "\n")
    print(f"Wrote {arguments.out}.json, .png and .svg")


if __name__ == "__main__":
    main()
