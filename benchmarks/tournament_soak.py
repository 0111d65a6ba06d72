"""A tournament on a Ray cluster of several emulated nodes, in which something is killed by SIGKILL all the time.

Pods, nodes, the process that drives, the PostgreSQL server of the leaderboard and the head of the cluster: after so
many kills every submission that was acknowledged must be there, with weights whose checksums are right. Kills come at
random moments, several at once now and then, half of them without waiting for what was killed before to recover.

    python benchmarks/tournament_soak.py --kills 1000 --out soak.json

Agents are a few numbers, so that a submission takes milliseconds and the kills hit them at every moment; all the
rest (Ray, processes, files, transactions) is real. With --train they are trained, on cartpole. The result is printed
as JSON, and written every few kills if --out is given. Ctrl-C ends it early, with all its checks. The exit code is 0
if all kills were done, nothing was lost, and enough was acknowledged meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "tournament"))

from quick_driver import TRAINING
from soaking import soak

WEIGHTS = {"pod": 58.0, "leaderboard": 24.0, "driver": 8.0, "node": 6.0, "head": 4.0}
"""How often each is killed, relative to the others: a head takes the whole cluster with it, which takes a while."""


def main() -> int:
    options = parse()
    weights = {name: w for name, w in WEIGHTS.items() if name in (options.only or WEIGHTS)}
    if options.sqlite:
        weights.pop("leaderboard", None)
    if options.train:
        os.environ[TRAINING] = "1"
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="slipstream-soak-") as folder, Progress(console=console) as progress:
        task = progress.add_task("kills", total=options.kills)
        shown = 0

        def note(found: dict[str, Any]) -> None:
            nonlocal shown
            progress.update(task, completed=found["kills"])
            if found["kills"] - shown >= 20:
                shown = found["kills"]
                write(options.out, {**found, "finished": False})
                if not console.is_terminal:
                    print(json.dumps(found), file=sys.stderr, flush=True)

        result = soak(Path(folder), options.kills, options.pods, options.nodes, weights, options.seed, note)
    passed = result["enough"] and result["kills"] >= options.kills
    result |= {"finished": True, "passed": passed, "settings": {**vars(options), "out": None, "weights": weights}}
    write(options.out, result)
    print(json.dumps(result, indent=2))
    return 0 if passed else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", choices=list(WEIGHTS), help="kill nothing but these")
    parser.add_argument("--train", action="store_true", help="pods train on cartpole, which takes its time")
    parser.add_argument(
        "--sqlite", action="store_true", help="SQLite, which has no process to kill, for the leaderboard"
    )
    parser.add_argument("--out", type=Path, help="a JSON file for the result")
    return parser.parse_args()


def write(out: Path | None, result: dict[str, Any]) -> None:
    if out:
        out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
