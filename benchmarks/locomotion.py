"""Robots that learn to run: time to the same return, against Stable-Baselines3 PPO and Brax PPO.

    .venv/bin/python benchmarks/locomotion.py
    .venv/bin/python benchmarks/locomotion.py --minutes 10 --brax

One after the other, on the same machine and cores. Stable-Baselines3 trains on 8 Gymnasium environments for the
minutes allowed, and is judged by episodes without exploration every 30 seconds (their time is not counted). Slipstream
is started as a command with its preset, told to stop at the best return that Stable-Baselines3 reached, and judged in
unmodified Gymnasium as well; its clock counts everything. Brax trains its own robots of the same names on a physics of
its own: their rewards differ, so what is told of it is only how far it gets.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from peer_environment import ROOT, peer_python
from slipstream.envs.registry import make_env
from slipstream.runs.directory import RunDirectory
from slipstream.runs.metrics import read_metrics

SLIPSTREAM = Path(sys.executable).with_name("slipstream")
ROBOTS = {"ant": "ant", "half-cheetah": "halfcheetah", "humanoid": "humanoid"}
"""Our names, and Brax's."""
SPLIT = ("time/simulation", "time/inference", "time/update")


def stable_baselines(python: Path, robot: str, seed: int, seconds: float) -> dict[str, Any]:
    """Train for so many seconds; the best evaluation counts, at the time it was made."""
    env = make_env(robot)
    script = ROOT / "benchmarks" / "peers" / "sb3_ppo.py"
    arguments = {
        "--env": env.gymnasium_id,
        "--env-options": json.dumps(dict(env.gymnasium_kwargs)),
        "--seed": seed,
        "--steps": 100_000_000,
        "--seconds": seconds,
        "--evaluate-every": 30,
        "--episodes": 10,
        "--launched": time.time(),
    }
    command = [str(python), str(script), *(str(a) for pair in arguments.items() for a in pair)]
    result = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    best = max(result["curve"], key=lambda point: point[2])
    return {**result, "best": best[2], "seconds_to_best": best[0]}


def slipstream(robot: str, seed: int, goal: float, folder: Path) -> dict[str, Any]:
    """The plain command, stopped at the goal."""
    run = folder / f"{robot}-{seed}"
    options = ["--seed", seed, "--stop-at-return", goal, "--evaluate-every", 10, "--run", run, "--quiet", "--json"]
    start = time.time()
    done = subprocess.run(
        [str(SLIPSTREAM), "train", robot, *map(str, options)], capture_output=True, text=True, check=True
    )
    total = time.time() - start
    judge = [str(SLIPSTREAM), "eval", str(run), "--in", "gymnasium", "--episodes", "10", "--json"]
    judged = json.loads(subprocess.run(judge, capture_output=True, text=True, check=True).stdout)
    rows = read_metrics(RunDirectory.open(run))[1:]
    (score,) = json.loads(done.stdout)["evaluation"]["groups"].values()
    return {
        "reached": score["mean"] >= goal,
        "score": score["mean"],
        "gymnasium": next(iter(judged["gymnasium"]["groups"].values()))["mean"],
        "total_seconds": total,
        "steps": rows[-1]["step"],
        "steps_per_second": statistics.median(r["steps_per_second"] for r in rows if not _evaluates(r)),
        "split": {name: statistics.median(r[name] for r in rows) for name in SPLIT},
    }


def _evaluates(row: dict[str, Any]) -> bool:
    return any(name.startswith("evaluation/") for name in row)


def brax(python: Path, robot: str, seed: int, seconds: float) -> dict[str, Any]:
    """As far as it gets in the time."""
    script = ROOT / "benchmarks" / "peers" / "brax_ppo.py"
    command = [str(python), str(script), "--env", ROBOTS[robot], "--seed", str(seed), "--launched", str(time.time())]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
        if done.returncode:
            return {"error": done.stderr.strip().splitlines()[-1]}
        output = done.stdout
    except subprocess.TimeoutExpired as expired:
        output = (expired.stdout or b"").decode()
    points = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return {"seconds": seconds, "evaluations": points, "steps": points[-1]["steps"] if points else 0}


def report(results: list[dict[str, Any]]) -> None:
    table = Table(title="To the best return of Stable-Baselines3 PPO in the time allowed")
    for column in (
        "robot",
        "return",
        "Stable-Baselines3",
        "Slipstream",
        "ratio",
        "in Gymnasium",
        "env steps/s",
        "ratio",
    ):
        table.add_column(column, justify="left" if column == "robot" else "right")
    for r in results:
        ours, theirs = r["slipstream"], r["stable-baselines3"]
        rates = ours["steps_per_second"], theirs["steps_per_second"]
        table.add_row(
            r["robot"],
            f"{theirs['best']:,.0f}",
            f"{theirs['seconds_to_best']:.0f} s",
            f"{ours['total_seconds']:.0f} s",
            f"{theirs['seconds_to_best'] / ours['total_seconds']:.1f}",
            f"{ours['gymnasium']:,.0f}",
            f"{rates[0]:,.0f} / {rates[1]:,.0f}",
            f"{rates[0] / rates[1]:.0f}",
        )
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    for r in results:
        split = ", ".join(f"{100 * r['slipstream']['split'][n]:.0f} % {n.partition('/')[2]}" for n in SPLIT)
        print(f"{r['robot']}: {split}")
        if found := r.get("brax"):
            best = max((p["score"] for p in found.get("evaluations", [])), default=None)
            told = found.get("error") or f"{found['steps']:,} steps, best return {best}"
            print(f"{r['robot']} of Brax: {told}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", nargs="+", choices=list(ROBOTS), default=list(ROBOTS))
    parser.add_argument("--minutes", type=float, default=5.0, help="how long each peer may train")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--brax", action="store_true", help="Brax PPO as well")
    parser.add_argument("--out", default="docs/figures/locomotion.json", help="where to write the figures")
    arguments = parser.parse_args()
    seconds = 60 * arguments.minutes
    # Brax 0.14 uses functions that later versions of JAX no longer have.
    brax_too = ["brax", "jax<0.9"] if arguments.brax else []
    python = peer_python("stable-baselines3", "gymnasium[mujoco]", *brax_too)
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        for robot in arguments.robots:
            theirs = stable_baselines(python, robot, arguments.seed, seconds)
            row = {"robot": robot, "stable-baselines3": theirs}
            row["slipstream"] = slipstream(robot, arguments.seed, theirs["best"], Path(scratch))
            if arguments.brax:
                row["brax"] = brax(python, robot, arguments.seed, seconds)
            results.append(row)
            print(json.dumps({**row, "stable-baselines3": {**theirs, "curve": None}}), file=sys.stderr)
    report(results)
    out = ROOT / arguments.out
    out.write_text(json.dumps({"minutes": arguments.minutes, "robots": results}, indent=1) + "\n")
    print(f"Wrote {arguments.out}")


if __name__ == "__main__":
    main()
