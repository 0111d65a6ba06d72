"""simple-tag with 4 agents and random actions, beside JaxMARL, VMAS and PettingZoo, in turns, each on one core.

    .venv/bin/python benchmarks/particles.py [--worlds 1024 4096] [--seconds 5] [--turns 2]

Prints env steps/s of each (the best of its turns and numbers of worlds) and writes docs/figures/particles.json. The
peers have a virtual environment of their own, .venv-peers, which is made on first use.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from peer_environment import ROOT, peer_python

OURS = """
import sys, time
from slipstream.arrays import set_threads
from slipstream.envs import make
set_threads(1)
worlds = make("simple-tag", num_worlds=int(sys.argv[1]))
worlds.rollout_random(25)
steps, start = 0, time.perf_counter()
while time.perf_counter() - start < float(sys.argv[2]):
    worlds.rollout_random(100)
    steps += 100 * worlds.num_worlds
print(steps / (time.perf_counter() - start))
"""
PEERS = ("jaxmarl", "vmas", "pettingzoo")


def number(*command: str) -> float:
    """What a command prints last, on one core."""
    core = {min(os.sched_getaffinity(0))}
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, core)
    )
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, nargs="+", default=[1024, 4096])
    parser.add_argument("--seconds", type=float, default=5.0, help="for each measurement")
    parser.add_argument("--turns", type=int, default=2)
    given = parser.parse_args()
    python = str(peer_python("stable-baselines3", "jaxmarl", "vmas", "mpe2"))
    script = str(Path(__file__).parent / "peers" / "particles.py")
    seconds = str(given.seconds)
    rates: dict[str, dict[str, list[float]]] = {name: {} for name in ("slipstream", *PEERS)}
    for _ in track(range(given.turns), "Measuring", console=Console(stderr=True)):
        for worlds in map(str, given.worlds):
            rates["slipstream"].setdefault(worlds, []).append(number(sys.executable, "-c", OURS, worlds, seconds))
            for name in PEERS:
                if name == "pettingzoo" and worlds != str(given.worlds[0]):
                    continue  # it has one world
                rate = number(python, script, name, "--worlds", worlds, "--seconds", seconds)
                rates[name].setdefault(worlds, []).append(rate)
    best = {name: max(max(values) for values in found.values()) for name, found in rates.items()}
    table = Table("system", "env steps/s on one core", "ours to theirs")
    for name, rate in best.items():
        table.add_row(name, f"{rate:,.0f}", f"{best['slipstream'] / rate:.1f}")
    Console().print(table)
    out = ROOT / "docs" / "figures" / "particles.json"
    out.write_text(json.dumps({"world": "simple-tag", "agents": 4, "rates": rates}, indent=2) + "\n")


if __name__ == "__main__":
    main()
