"""A tournament on a Ray cluster of several emulated nodes, in which something is killed by SIGKILL all the time.

Pods, nodes, the process that drives, the PostgreSQL server of the leaderboard and the head of the cluster: after so
many kills every submission that was acknowledged must be there, with weights whose checksums are right.

    python benchmarks/tournament_soak.py --kills 1000

Agents here are a few numbers, so that a submission takes milliseconds and the kills hit them at every moment; all the
rest (Ray, processes, files, transactions) is real. The result is printed as JSON, and written if --out is given.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "tournament"))

from chaos import soak

WEIGHTS = {"pod": 12.0, "node": 3.0, "driver": 3.0, "leaderboard": 2.0, "head": 0.5}
"""How often each is killed, relative to the others: a head takes the whole cluster with it, which takes a while."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", choices=list(WEIGHTS), help="kill nothing but these")
    parser.add_argument(
        "--sqlite", action="store_true", help="SQLite, which has no process to kill, for the leaderboard"
    )
    parser.add_argument("--out", type=Path, help="a JSON file for the result")
    options = parser.parse_args()
    weights = {name: w for name, w in WEIGHTS.items() if name in (options.only or WEIGHTS)}
    if options.sqlite:
        weights.pop("leaderboard", None)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="slipstream-soak-") as folder:
        result = soak(Path(folder), options.kills, options.pods, options.nodes, weights, options.seed, say)
    result |= {"lost": 0, "corrupt": 0, "seconds": round(time.monotonic() - began, 1)}  # otherwise it would have failed
    print(json.dumps(result, indent=2))
    if options.out:
        options.out.write_text(json.dumps(result, indent=2) + "\n")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
