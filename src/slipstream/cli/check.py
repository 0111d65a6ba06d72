"""`slipstream check`: does a world do what a world must?"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from slipstream.cli.values import parse_assignments
from slipstream.envs.check import Result, check
from slipstream.envs.registry import make_env


@dataclass(frozen=True)
class Check:
    """Test the rules of a world, one of Slipstream's or one of your own (my_world.py:MyWorld).

    The compiled worlds are compared step by step with the same rules in plain Python, over random actions.
    The other tests: the same seed gives the same bits; worlds do not influence each other; states,
    observations and rewards stay finite; observations and actions fit their spaces; agents are in the game;
    resets differ; extreme actions do no harm.

    What fails is shown in a table, and the exit code is 1 (2 if the world could not be made at all).
    """

    name: tyro.conf.Positional[str]
    """A name that `slipstream envs` lists, or path/to/file.py:Class."""
    worlds: int = 16
    """How many copies run side by side."""
    steps: int = 100
    """How many steps each test takes."""
    seed: int = 0
    """Of the worlds and of the random actions."""
    option: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An option of the world, as name=value; may be repeated."""
    json: bool = False
    """Print the results for a program to read."""


def run(options: Check) -> int:
    """Run the command and return its exit code."""
    chosen = parse_assignments("--option", options.option)
    make_env(options.name, **chosen)  # a world that cannot be made at all is bad input, not a failed test
    results = check(options.name, options.worlds, options.steps, options.seed, **chosen)
    if options.json:
        print(json.dumps(as_json(options.name, results), indent=2))
    else:
        show(options.name, results, Console())
    return 0 if all(r.passed for r in results) else 1


def as_json(name: str, results: list[Result]) -> dict[str, Any]:
    return {
        "env": name,
        "passed": all(r.passed for r in results),
        "results": [{**dataclasses.asdict(r), "passed": r.passed} for r in results],
    }


def show(name: str, results: list[Result], console: Console) -> None:
    """Print a line for each property, and a table of what failed."""
    for result in results:
        mark = "[green]pass[/]" if result.passed else "[red]FAIL[/]"
        console.print(f"{mark}  {result.name}" + (f"  [dim]{escape(result.note)}[/]" if result.note else ""))
    failed = [r for r in results if not r.passed]
    if not failed:
        console.print(f"[green]{escape(name)} passes all {len(results)} tests.[/]")
        return
    table = Table(title=f"{escape(name)}: what failed")
    for column in ("test", "world", "step", "field", "expected", "got"):
        table.add_column(column, overflow="fold")
    for result in failed:
        for p in result.problems:
            cells = (result.name, p.world, p.step, p.field, p.expected, p.got)
            table.add_row(*("-" if c is None else escape(str(c)) for c in cells))
        table.add_section()
    console.print(table)
