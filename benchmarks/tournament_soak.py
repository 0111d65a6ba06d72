"""A tournament on a Ray cluster of several emulated nodes, in which something is killed by SIGKILL all the time.

Pods, nodes, the process that drives, the PostgreSQL server of the leaderboard and the head of the cluster: after so
many kills every submission that was acknowledged must be there, with weights whose checksums are right. Kills come at
random moments, several at once now and then, most of them without waiting for what was killed before to recover.

    python benchmarks/tournament_soak.py --kills 1000 --out soak.json

Agents are a few numbers, so that a submission takes milliseconds and the kills hit them at every moment; all the
rest (Ray, processes, files, transactions) is real. With --train they are trained, on cartpole. Ctrl-C ends it early,
with all its checks; the same command with the same --out goes on with another tournament until all kills are done. The
result of every tournament is in that file, and their sum. The exit code is 0 if all kills were done, nothing was lost,
and enough was acknowledged meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "tournament"))

from quick_driver import TRAINING
from soaking import enough, soak

WEIGHTS = {"pod": 58.0, "leaderboard": 22.0, "driver": 7.0, "node": 7.0, "head": 6.0}
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
    legs = json.loads(options.out.read_text())["legs"] if options.out and options.out.exists() else []
    while (left := options.kills - together(legs)["kills"]) > 0:
        wanted = min(left, options.each)
        legs.append(one_leg(options, wanted, weights, options.seed + len(legs)))
        write(options.out, together(legs))
        if legs[-1]["kills"] < wanted:  # it was interrupted
            break
    result = together(legs)
    print(json.dumps(result, indent=2))
    return 0 if result["enough"] and result["kills"] >= options.kills else 1


def one_leg(options: argparse.Namespace, kills: int, weights: dict[str, float], seed: int) -> dict[str, Any]:
    """A tournament with so many kills; fewer if it is interrupted."""
    console, shown = Console(stderr=True), 0
    with tempfile.TemporaryDirectory(prefix="slipstream-soak-") as folder, Progress(console=console) as progress:
        task = progress.add_task("kills", total=kills)

        def note(found: dict[str, Any]) -> None:
            nonlocal shown
            progress.update(task, completed=found["kills"])
            if not console.is_terminal and found["kills"] - shown >= 20:
                shown = found["kills"]
                print(json.dumps(found), file=sys.stderr, flush=True)

        found = soak(Path(folder), kills, options.pods, options.nodes, weights, seed, note)
    settings = {name: getattr(options, name) for name in ("pods", "nodes", "train", "sqlite")}
    return found | {"settings": {**settings, "seed": seed, "weights": weights}}


def together(legs: list[dict[str, Any]]) -> dict[str, Any]:
    """The sum of what happened in several tournaments."""
    counted = ("kills", "moments", "acknowledged", "submissions", "moments_with_an_acknowledgement_before", "resumed",
               "lost", "corrupt", "orphans", "seconds")  # fmt: skip
    killed = sum((Counter(leg["killed"]) for leg in legs), Counter())
    total = {name: sum(leg[name] for leg in legs) for name in counted}
    return {**total, "killed": dict(killed), "enough": bool(legs) and enough(total), "legs": legs}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--each", type=int, default=250, help="kills of a tournament, after which another one begins")
    parser.add_argument("--pods", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", choices=list(WEIGHTS), help="kill nothing but these")
    parser.add_argument("--train", action="store_true", help="pods train on cartpole, which takes its time")
    parser.add_argument(
        "--sqlite", action="store_true", help="SQLite, which has no process to kill, for the leaderboard"
    )
    parser.add_argument("--out", type=Path, help="a JSON file for the result, and what it goes on from")
    return parser.parse_args()


def write(out: Path | None, result: dict[str, Any]) -> None:
    if out:
        out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
