"""What the control suite's tasks are worth after some minutes each, with their presets: a table for docs/dm_control.md.

    .venv/bin/python benchmarks/control_suite.py --minutes 10                     # all tasks, one after the other
    .venv/bin/python benchmarks/control_suite.py --minutes 2 --tasks dm-walker-walk dm-fish-swim

Every run is the plain command, stopped after so many minutes (compiling and evaluating included). Its best checkpoint
then plays 20 new episodes. Tasks that are already in the folder are not trained again. With `--write` the table in
docs/dm_control.md is replaced.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from slipstream.envs.registry import NAMES

ROOT = Path(__file__).resolve().parent.parent
SLIPSTREAM = [sys.executable, "-m", "slipstream.cli.main"]
PAGE = ROOT / "docs" / "dm_control.md"
BEGIN, END = "<!-- returns -->", "<!-- end of returns -->"
SUITE = [name for name in NAMES if name.startswith("dm-")]


def train(task: str, minutes: float, seed: int, run: Path) -> None:
    """Train a task, unless that was done before."""
    if (run / "done").exists():
        return
    command = [*SLIPSTREAM, "train", task, "--seconds", str(60 * minutes), "--seed", str(seed), "--run", str(run)]
    subprocess.run(command, check=True)
    (run / "done").touch()


def judged(run: Path) -> dict[str, Any]:
    """What the best checkpoint earns in new episodes, and for what."""
    command = [*SLIPSTREAM, "eval", str(run), "--episodes", "20", "--seed", "1000", "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def row(task: str, result: dict[str, Any]) -> str:
    (earned,) = result["groups"].values()
    terms = ", ".join(f"{name} {value:.2f}" for name, value in result["report"].items() if "left_out" not in name)
    return f"| `{task}` | {earned['mean']:.0f} ± {earned['standard_error']:.0f} | {terms} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="of each task")
    parser.add_argument("--tasks", nargs="+", default=SUITE, choices=SUITE, metavar="TASK")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("runs/dm_control"))
    parser.add_argument("--write", action="store_true", help="replace the table in docs/dm_control.md")
    options = parser.parse_args()
    lines = [f"| world | return after {options.minutes:g} minutes | terms, mean over an episode |", "|---|---|---|"]
    for task in options.tasks:
        run = options.folder / f"{task}-{options.seed}"
        train(task, options.minutes, options.seed, run)
        lines.append(row(task, judged(run)))
        print(lines[-1], flush=True)
    table = "\n".join(lines)
    print(f"\n{table}")
    if options.write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}")


if __name__ == "__main__":
    main()
