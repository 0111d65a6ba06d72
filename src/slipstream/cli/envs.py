"""`slipstream envs`: the worlds there are."""

from __future__ import annotations

import inspect
import re
import textwrap
from dataclasses import dataclass
from typing import Any

import tyro


@dataclass(frozen=True)
class Envs:
    """List the worlds that come with Slipstream, or show one of them with its options.

    A world of your own needs no registration: `slipstream train my_world.py:MyWorld`.
    """

    name: tyro.conf.Positional[str | None] = None
    """A world to show in detail."""
    json: bool = False
    """Print JSON instead of text."""


def run(options: Envs) -> int:
    from slipstream.cli.values import strict_json
    from slipstream.envs.registry import NAMES

    rows = [describe(options.name)] if options.name else [_describe_if_possible(name) for name in NAMES]
    if options.json:
        print(strict_json(rows))
    elif options.name:
        _show_one(rows[0])
    else:
        _show_all(rows)
    return 0


def _describe_if_possible(name: str) -> dict[str, Any]:
    from slipstream.envs.extras import ExtraMissing

    try:
        return describe(name)
    except ExtraMissing as missing:
        return {"name": name, "summary": str(missing), "max_steps": None, "groups": [], "options": {}, "meanings": {}}


def describe(name: str) -> dict[str, Any]:
    from slipstream.envs.env import describe_env
    from slipstream.envs.registry import env_class, env_options, make_env
    from slipstream.spaces import describe as describe_space

    env, options, meanings = make_env(name), env_options(name), option_meanings(env_class(name))
    return {
        "name": name,
        "summary": describe_env(env_class(name)),
        "max_steps": env.max_steps,
        "groups": [
            {
                "name": g.name,
                "agents": g.size,
                "observation": describe_space(g.observation),
                "action": describe_space(g.action),
            }
            for g in env.groups
        ],
        "options": {n: None if p.default is p.empty else p.default for n, p in options.items()},
        "meanings": {n: meanings[n] for n in options if n in meanings},
    }


def option_meanings(env_class: type) -> dict[str, str]:
    """What the docstrings of `__init__`, of the class and of those it derives from, say of its parameters."""
    found: dict[str, str] = {}
    for base in env_class.__mro__:
        init = vars(base).get("__init__")
        _, _, listed = (inspect.getdoc(init) or "").partition("Args:")
        # `name: meaning`, which may go on in lines that are further to the right.
        for entry in re.finditer(r"^( *)(\w+): (.*(?:\n\1 +.*)*)", listed, re.MULTILINE):
            found.setdefault(entry[2], " ".join(entry[3].split()))
    return found


def _show_all(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    widest = max(len(row["name"]) for row in rows)
    for row in rows:
        _show_heading(console, row, widest)
    console.print("\n[dim]slipstream envs NAME shows the options of one of them.[/dim]")


def _show_heading(console: Any, row: dict[str, Any], width: int = 0) -> None:
    """Two lines, if the terminal is wide enough: the name and who plays for how long, and what it is."""
    from rich.markup import escape

    agents = ", ".join(f"{g['agents']} {g['name']}{'s' if g['agents'] > 1 else ''}" for g in row["groups"])
    steps = f"{row['max_steps']} steps" if row["max_steps"] else "no limit of steps"
    who = f"{agents}; {steps}" if row["groups"] else ""
    name = escape(row["name"])
    padding = " " * (width - len(row["name"])) if width + len(who) + 2 <= console.width else ""
    console.print(f"[bold]{name}[/bold]{padding}  [dim]{who}[/dim]", soft_wrap=True)
    _show_text(console, row["summary"], "  ")


def _show_one(row: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False)
    _show_heading(console, row)
    widest = max(len(g["name"]) for g in row["groups"])
    console.print()
    for g in row["groups"]:
        _show_text(console, f"{g['name']:<{widest}}  sees {g['observation']}, does {g['action']}", "  ", "    ")
    console.print()
    if not row["options"]:
        console.print("It has no options.")
        return
    console.print("options, given as [bold]--option name=value[/bold]:")
    for name, default in row["options"].items():
        console.print(f"  [bold]{name}[/bold] [dim]= {escape(_as_text(default))}[/dim]", soft_wrap=True)
        _show_text(console, row["meanings"].get(name, ""), "      ")


def _show_text(console: Any, text: str, indent: str, hanging: str | None = None) -> None:
    from rich.markup import escape

    lines = textwrap.wrap(text, console.width, initial_indent=indent, subsequent_indent=hanging or indent)
    for line in lines:
        console.print(escape(line), soft_wrap=True)


def _as_text(default: Any) -> str:
    if isinstance(default, float):
        return repr(float(f"{default:.6g}"))
    if isinstance(default, list | tuple):
        return f"[{', '.join(map(_as_text, default))}]"
    return str(default)
