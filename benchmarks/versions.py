"""Training throughput of this checkout beside another one, say of the commit before: in turns, on the same machine.

    git worktree add ../before HEAD~1
    .venv/bin/python benchmarks/versions.py --other ../before --envs cartpole humanoid

The other checkout needs no environment of its own: both run in this one, with their own source in front. What is
compared are the median steps per second of each run, without the first report (which includes compiling).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Versions:
    other: Path
    """Root of the other checkout."""
    envs: tuple[str, ...] = ("cartpole", "humanoid")
    """Worlds to train in, each with its preset."""
    steps: tuple[int, ...] = (500_000, 700_000)
    """How many steps, for each world."""
    turns: int = 3
    """How often each is trained, one after the other."""
    json: bool = False
    """Print JSON instead of a table."""


def throughput(source: Path, env: str, steps: int) -> dict[str, float]:
    """Of one run, in a process of its own: steps per second, and seconds of the whole command."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "slipstream.cli.main", "train", env, "--steps", str(steps)]
        command += ["--run", f"{folder}/run", "--quiet", "--json"]
        surroundings = {**os.environ, "PYTHONPATH": str(source / "src")}
        subprocess.run(command, env=surroundings, check=True, capture_output=True)
        lines = Path(folder, "run", "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return {
        "steps_per_second": statistics.median(r["steps_per_second"] for r in rows[1:]),
        "seconds": rows[-1]["seconds"],
    }


def main(options: Versions) -> None:
    results = []
    for env, steps in zip(options.envs, options.steps):
        found: dict[str, list[float]] = {"here": [], "other": []}
        for turn in range(options.turns):
            # Whoever begins changes from turn to turn: a machine gets warmer, or busier.
            for name in sorted(found, reverse=turn % 2 == 1):
                source = HERE if name == "here" else options.other
                found[name].append(throughput(source, env, steps)["steps_per_second"])
        best = {name: max(values) for name, values in found.items()}
        results.append({"env": env, **found, "ratio": best["here"] / best["other"]})
    if options.json:
        print(json.dumps(results, indent=2))
        return
    table = Table("world", "here, steps/s", "other, steps/s", "ratio of the best")
    for r in results:
        shown = (", ".join(f"{v:,.0f}" for v in r[name]) for name in ("here", "other"))
        table.add_row(r["env"], *shown, f"{r['ratio']:.2f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main(tyro.cli(Versions))
