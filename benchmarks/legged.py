"""Robots on legs learn to walk as they are told, and still do in MuJoCo's own engine.

    .venv/bin/python benchmarks/legged.py                                       # our own two, three seeds each
    .venv/bin/python benchmarks/legged.py --robots path/to/go2.xml --seeds 1    # somebody else's
    .venv/bin/python benchmarks/legged.py --minutes 10 --at-once 2              # two runs at a time, a core each

Every run is the plain command, timed from outside. Its best checkpoint then plays 20 episodes of random commands in
MuJoCo's engine, with all contacts of the file: how far off its velocity and turn are in the mean. What is already in
the folder is neither trained nor judged again. Writes a table and the curves of both errors while it learned.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from robot_training import ROOT, SLIPSTREAM, shares_of_cores
from slipstream.runs.directory import RunDirectory
from slipstream.runs.metrics import read_metrics

GOAL = 0.2
"""How far off a robot may be, in m/s and in rad/s."""
ERRORS = {"velocity_error": "m/s", "turn_error": "rad/s"}


def name_of(robot: str, ground: str) -> str:
    stem = Path(robot).stem
    return stem if ground == "flat" else f"{stem}-{ground}"


def train(run_of: tuple[str, int], arguments: argparse.Namespace, shares: queue.Queue[set[int]]) -> None:
    """Train a robot with a seed, unless that was done before."""
    robot, seed = run_of
    run = Path(arguments.folder) / f"{name_of(robot, arguments.ground)}-{seed}"
    took = run.with_suffix(".seconds")
    if took.exists():
        return
    options = [f"model={robot}", f"ground={arguments.ground}"]
    command = [str(SLIPSTREAM), "train", "legged", "--seed", str(seed), "--run", str(run)]
    command += ["--seconds", str(60 * arguments.minutes)] + [part for o in options for part in ("--option", o)]
    cores = shares.get()
    start = time.time()
    subprocess.run(command, check=True, preexec_fn=lambda: os.sched_setaffinity(0, cores))
    took.write_text(f"{time.time() - start:.1f} s on {len(cores)} cores\n")
    shares.put(cores)


def measured(robot: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Everything worth telling about one run."""
    run = Path(arguments.folder) / f"{name_of(robot, arguments.ground)}-{seed}"
    verdict = run.with_suffix(".json")
    if not verdict.exists():
        command = [str(SLIPSTREAM), "eval", str(run), "--in", "mujoco", "--seed", "1000", "--json"]
        verdict.write_text(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    result = json.loads(verdict.read_text())
    there, rows = result["mujoco"], read_metrics(RunDirectory.open(run))
    (here,), (elsewhere,) = result["groups"].values(), there["groups"].values()
    known = [row for row in rows if all(f"report/{name}" in row for name in ERRORS)]
    return {
        "robot": name_of(robot, arguments.ground),
        "seed": seed,
        "took": run.with_suffix(".seconds").read_text().strip(),
        "steps": rows[-1]["step"],
        "return_here": here["mean"],
        "return_in_mujoco": elsewhere["mean"],
        "length_in_mujoco": there["length"],
        "errors_in_mujoco": {name: there["report"][name] for name in ERRORS},
        "curve": [[round(r["seconds"], 1), *(round(r[f"report/{name}"], 4) for name in ERRORS)] for r in known],
    }


def report(results: list[dict[str, Any]]) -> None:
    table = Table("robot", "seed", "whole command", "steps", "in MuJoCo", "episode", "velocity error", "turn error")
    for r in results:
        share = r["return_in_mujoco"] / r["return_here"]
        errors = (f"{r['errors_in_mujoco'][name]:.3f} {unit}" for name, unit in ERRORS.items())
        length = f"{r['length_in_mujoco']:.0f} steps"
        table.add_row(r["robot"], str(r["seed"]), r["took"], f"{r['steps']:,}", f"{share:.0%}", length, *errors)
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def draw(results: list[dict[str, Any]], out: Path) -> None:
    """Both errors against minutes, one column for each robot."""
    robots = list(dict.fromkeys(r["robot"] for r in results))
    figure = Figure(figsize=(3.2 * len(robots), 4.8), layout="constrained")
    axes = figure.subplots(len(ERRORS), len(robots), squeeze=False, sharey="row")
    for r in results:
        for k, (name, unit) in enumerate(ERRORS.items(), 1):
            axis = axes[k - 1, robots.index(r["robot"])]
            seconds = [row[0] / 60 for row in r["curve"]]
            axis.plot(seconds, [row[k] for row in r["curve"]], linewidth=1, label=f"seed {r['seed']}")
            axis.set(ylim=(0, None), xlim=(0, None), xlabel="minutes" if k == len(ERRORS) else None)
            axis.set_ylabel(f"{name.replace('_', ' ')}, {unit}" if r["robot"] == robots[0] else None)
            axis.set_title(r["robot"] if k == 1 else None)
            axis.grid(alpha=0.3)
            axis.spines[["top", "right"]].set_visible(False)
    for axis in axes.flat:
        axis.axhline(GOAL, color="0.6", linewidth=1, linestyle="--")
    for suffix in (".png", ".svg"):
        figure.savefig(out.with_suffix(suffix), dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="+", default=["quadruped", "biped"], help="ours, or paths of MJCF files")
    parser.add_argument("--ground", choices=["flat", "rough", "stairs"], default="flat")
    parser.add_argument("--minutes", type=float, default=10.0, help="of training")
    parser.add_argument("--seeds", type=int, default=3, help="how many of each")
    parser.add_argument("--at-once", type=int, default=1, help="how many runs at a time; they share the cores")
    parser.add_argument("--folder", default="runs/legged", help="where the runs go")
    parser.add_argument("--out", default="docs/figures/legged", help="where the figures go, without suffix")
    arguments = parser.parse_args()
    Path(arguments.folder).mkdir(parents=True, exist_ok=True)
    shares = shares_of_cores(arguments.at_once)
    runs = [(robot, seed) for robot in arguments.robots for seed in range(arguments.seeds)]
    with ThreadPoolExecutor(arguments.at_once) as pool:
        list(pool.map(lambda run: train(run, arguments, shares), runs))
    results = [measured(robot, seed, arguments) for robot, seed in runs]
    report(results)
    out = ROOT / arguments.out
    out.parent.mkdir(parents=True, exist_ok=True)
    draw(results, out)
    out.with_suffix(".json").write_text(json.dumps(results) + "\n")
    print(f"Wrote {arguments.out}.json, .png and .svg")


if __name__ == "__main__":
    main()
