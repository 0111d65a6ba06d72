"""`slipstream envs`: the worlds there are."""

from __future__ import annotations

import json as json_module
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
    """Print JSON instead of a table."""


def run(options: Envs) -> int:
    from slipstream.envs.registry import NAMES

    rows = [describe(options.name)] if options.name else [_describe_if_possible(name) for name in NAMES]
    if options.json:
        print(json_module.dumps(rows, indent=2))
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
        return {"name": name, "summary": str(missing), "max_steps": None, "groups": [], "options": {}}


def describe(name: str) -> dict[str, Any]:
    from slipstream.envs.env import describe_env
    from slipstream.envs.registry import env_class, env_options, make_env
    from slipstream.spaces import describe as describe_space

    env = make_env(name)
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
        "options": {n: _default(p) for n, p in env_options(name).items()},
    }


def _default(parameter: Any) -> Any:
    return None if parameter.default is parameter.empty else parameter.default


def _show_all(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Column, Table

    table = Table(Column("world", no_wrap=True), Column("agents", no_wrap=True), "steps", "what it is")
    for row in rows:
        agents = ", ".join(f"{g['agents']} {g['name']}" for g in row["groups"])
        table.add_row(row["name"], agents, str(row["max_steps"] or "no limit"), row["summary"])
    Console().print(table)


def _show_one(row: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    _show_all([row])
    groups = Table("group", "agents", "observation", "action")
    for g in row["groups"]:
        groups.add_row(g["name"], str(g["agents"]), g["observation"], g["action"])
    console.print(groups)
    options = Table("option", "default")
    for name, default in row["options"].items():
        options.add_row(name, str(default))
    console.print(options if row["options"] else "It has no options.")
