"""CartPole: from the typed command to a mean return of 475 over 100 episodes, against Stable-Baselines3 PPO.

    .venv/bin/python benchmarks/cartpole.py

Both systems are started as commands, in turn, seed by seed, on the same machine. Slipstream runs twice: with empty
caches (the first time ever) and with what it compiled before (every time after). Its clock includes all evaluations,
that of Stable-Baselines3 only the last one. A second part compares training throughput.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from peer_environment import ROOT, peer_python

GOAL = 475.0
EPOCHS = (10, 4)
"""How often each rollout is learned from where throughput is measured: as the preset says, and as is usual for PPO."""
SLIPSTREAM = Path(sys.executable).with_name("slipstream")


def slipstream(seed: int, folder: Path, home: Path, *options: str) -> dict[str, Any]:
    """One run as a user would start it, timed from outside."""
    environment = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    run = folder / f"cartpole-{seed}-{time.time_ns()}"
    command = [str(SLIPSTREAM), "train", "cartpole", "--seed", str(seed), "--run", str(run), "--quiet", "--json"]
    start = time.time()
    done = subprocess.run([*command, *options], env=environment, capture_output=True, text=True, check=True)
    total = time.time() - start
    result = json.loads(done.stdout)
    evaluation = result["evaluation"]
    score = evaluation["groups"]["cart"]["mean"] if evaluation else None
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    rates = sorted(row["steps_per_second"] for row in rows[1:])
    return {
        "reached": score is not None and score >= GOAL,
        "score": score,
        "total_seconds": total,
        "training_seconds": result["seconds"],
        "steps": result["step"],
        "steps_per_second": rates[len(rates) // 2] if rates else None,
    }


def stable_baselines(python: Path, seed: int) -> dict[str, Any]:
    script = ROOT / "benchmarks" / "peers" / "sb3_ppo.py"
    command = [str(python), str(script), "--seed", str(seed), "--goal", str(GOAL), "--launched", str(time.time())]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds")
    parser.add_argument("--out", default="docs/figures/cartpole.json", help="where to write the figures")
    arguments = parser.parse_args()
    console = Console(stderr=True)
    python = peer_python("stable-baselines3", "gymnasium")
    goal = ("--stop-at-return", str(GOAL))
    results: dict[str, list[dict[str, Any]]] = {"slipstream, first run": [], "slipstream": [], "stable-baselines3": []}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for seed in track(range(arguments.seeds), "seeds", console=console):
            home = folder / f"home-{seed}"
            home.mkdir()
            results["slipstream, first run"].append(slipstream(seed, folder, home, *goal))
            results["slipstream"].append(slipstream(seed, folder, home, *goal))
            results["stable-baselines3"].append(stable_baselines(python, seed))
        wide = ("--steps", "4000000", "--worlds", "2048", "--evaluate-every", "61")
        throughput = {n: slipstream(0, folder, folder / "home-0", *wide, "--set", f"epochs={n}") for n in EPOCHS}
    report(results, throughput, console)
    out = ROOT / arguments.out
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"goal": GOAL, "runs": results, "throughput": throughput}, indent=2) + "\n")
    print(f"Wrote {arguments.out}")


def report(results: dict[str, list[dict[str, Any]]], throughput: dict[int, dict[str, Any]], console: Console) -> None:
    def mean(name: str, field: str) -> float:
        return sum(r[field] for r in results[name]) / len(results[name])

    table = Table("system", "reached 475", "command to goal", "environment steps", "ratio", title="CartPole")
    peer = mean("stable-baselines3", "total_seconds")
    for name, runs in results.items():
        reached = f"{sum(r['reached'] for r in runs)} of {len(runs)} seeds"
        took = mean(name, "total_seconds")
        table.add_row(name, reached, f"{took:.1f} s", f"{mean(name, 'steps'):,.0f}", f"{took / peer:.2f}")
    Console().print(table)
    theirs = mean("stable-baselines3", "steps_per_second")
    for epochs, run in throughput.items():
        print(
            f"Training throughput: {run['steps_per_second']:,.0f} steps/s with 2,048 worlds and {epochs} epochs (in "
            f"the end a mean return of {run['score']:.0f}), {run['steps_per_second'] / theirs:.0f} times "
            f"the {theirs:,.0f} of Stable-Baselines3"
        )


if __name__ == "__main__":
    main()
