"""Learning from replay beside learning from rollouts, in compiled worlds: SAC and PPO by the clock.

    .venv/bin/python benchmarks/off_policy.py                                    # three robots, 3 minutes, 3 seeds
    .venv/bin/python benchmarks/off_policy.py --robots half-cheetah --algos sac --minutes 2 8
    .venv/bin/python benchmarks/off_policy.py --at-once 2                        # two runs at a time, each on one core

Every run is `slipstream train NAME --algo ALGO --seconds N` with nothing but the world's preset: compiling, evaluating
and saving included in its time. Its best checkpoint then plays 20 episodes in Gymnasium's own, unmodified environment.
Runs that are already in the folder are not trained again. Writes a table, the curves and the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import statistics
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from robot_training import ROOT, SLIPSTREAM, shares_of_cores
from slipstream.runs.directory import RunDirectory
from slipstream.runs.metrics import read_metrics


def run(folder: Path, robot: str, algo: str, minutes: float, seed: int, shares: queue.Queue[set[int]]) -> None:
    """Train and evaluate, unless that was done before."""
    path = folder / f"{robot}-{algo}-{minutes:g}-{seed}"
    score = path.with_suffix(".json")
    if score.exists():
        return
    cores = shares.get()

    def command(*arguments: str) -> str:
        done = subprocess.run(
            [str(SLIPSTREAM), *arguments],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        return done.stdout

    seconds = f"{minutes * 60:g}"
    command("train", robot, "--algo", algo, "--seconds", seconds, "--seed", str(seed), "--run", str(path), "--quiet")
    score.write_text(command("eval", str(path), "--in", "gymnasium", "--episodes", "20", "--json"))
    shares.put(cores)


def curve(path: Path) -> tuple[list[float], list[float]]:
    """Minutes, and returns without exploration."""
    rows = [r for r in read_metrics(RunDirectory(path)) if any(n.startswith("evaluation/") for n in r)]
    scores = [next(v for n, v in row.items() if n.startswith("evaluation/")) for row in rows]
    return [row["seconds"] / 60 for row in rows], scores


def found(folder: Path, robot: str, algo: str, minutes: float, seed: int) -> dict[str, Any]:
    path = folder / f"{robot}-{algo}-{minutes:g}-{seed}"
    (score,) = json.loads(path.with_suffix(".json").read_text())["gymnasium"]["groups"].values()
    steps = max(row["step"] for row in read_metrics(RunDirectory(path)))
    return {"curve": curve(path), "in_gymnasium": score["mean"], "lowest": score["minimum"], "steps": steps}


def draw(results: dict[str, Any], out: Path) -> None:
    robots = list(dict.fromkeys(r["robot"] for r in results["runs"]))
    figure = Figure(figsize=(4.2 * len(robots), 3.2), layout="constrained")
    for axes, robot in zip(figure.subplots(1, len(robots), squeeze=False)[0], robots):
        for algo, colour in (("sac", "tab:orange"), ("ppo", "tab:blue")):
            for i, r in enumerate(r for r in results["runs"] if (r["robot"], r["algo"]) == (robot, algo)):
                axes.plot(*r["curve"], color=colour, lw=1.2, alpha=0.8, label=algo if i == 0 else None)
        axes.set(title=robot, xlabel="minutes, on one core", ylabel="return without exploration")
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(out, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="+", default=["half-cheetah", "ant", "humanoid"])
    parser.add_argument("--algos", nargs="+", default=["sac", "ppo"])
    parser.add_argument("--minutes", nargs="+", type=float, default=[3.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "off-policy")
    parser.add_argument("--figures", type=Path, default=ROOT / "docs" / "figures")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    plan = [(r, a, m, s) for m in args.minutes for r in args.robots for a in args.algos for s in range(args.seeds)]
    shares = shares_of_cores(args.at_once)
    with ThreadPoolExecutor(args.at_once) as pool:
        list(pool.map(lambda which: run(args.folder, *which, shares), plan))
    runs = [{"robot": r, "algo": a, "minutes": m, "seed": s, **found(args.folder, r, a, m, s)} for r, a, m, s in plan]
    results = {"cores_per_run": len(os.sched_getaffinity(0)) // args.at_once, "runs": runs}
    table = Table("world", "algo", "minutes", "in Gymnasium, by seed", "mean", "lowest episode", "steps")
    for key in dict.fromkeys((r["robot"], r["algo"], r["minutes"]) for r in runs):
        mine = [r for r in runs if (r["robot"], r["algo"], r["minutes"]) == key]
        scores = [r["in_gymnasium"] for r in mine]
        table.add_row(
            *(f"{k}" for k in key),
            ", ".join(f"{s:,.0f}" for s in scores),
            f"{statistics.mean(scores):,.0f}",
            f"{min(r['lowest'] for r in mine):,.0f}",
            f"{statistics.mean(r['steps'] for r in mine) / 1e6:.1f} M",
        )
    Console(width=140).print(table)
    (args.figures / "off_policy.json").write_text(json.dumps(results, indent=1) + "\n")
    draw(results, args.figures / "off_policy.png")


if __name__ == "__main__":
    main()
