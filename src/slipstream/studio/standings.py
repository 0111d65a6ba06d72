"""The leaderboard of a tournament, if the directory that is watched has one.

It is read with SQLite's own library, and for reading only: the page needs neither Ray nor SQLAlchemy for it, and no pod
waits for the page. A leaderboard in another database is not shown.
"""

from __future__ import annotations

import contextlib
import html
import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DATABASE, TABLE = "leaderboard.sqlite", "slipstream_submissions"
"""As `slipstream tournament` names them."""
SHOWN = 10
"""Agents of a pool."""
COLUMNS = ("number", "id", "pool", "parent", "algo", "settings", "age", "score", "standard_error")


@dataclass(frozen=True)
class Agent:
    """One that was submitted."""

    number: int
    id: str
    pool: str
    parent: str | None
    algo: str
    settings: str
    age: int
    score: float
    standard_error: float


def read_agents(folder: Path) -> list[Agent] | None:
    """All agents of a tournament, in the order they were submitted; None if there is no tournament.

    Raises:
        OSError: if its leaderboard cannot be read.
    """
    file = folder / DATABASE
    if not file.exists():
        return None
    try:
        with contextlib.closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, timeout=1.0)) as c:
            rows = c.execute(f"SELECT {', '.join(COLUMNS)} FROM {TABLE} ORDER BY number").fetchall()
    except sqlite3.Error as error:
        raise OSError(f"The leaderboard {file} cannot be read: {error}.") from error
    return [Agent(*row) for row in rows]


def standings_text(agents: Sequence[Agent]) -> str:
    """The best of every pool as tables, with the line of descent of each winner."""
    if not agents:
        return "*Nobody has been submitted yet.*"
    pools = list(dict.fromkeys(agent.pool for agent in agents))
    return "\n\n".join(_pool_text(pool, [agent for agent in agents if agent.pool == pool]) for pool in pools)


def _pool_text(pool: str, agents: Sequence[Agent]) -> str:
    ranked = sorted(agents, key=lambda agent: (-agent.score, agent.number))
    rows = [
        f"| {rank} | {a.id} | {a.parent or '-'} | {_score(a)} | {a.age:,} |" for rank, a in enumerate(ranked[:SHOWN], 1)
    ]
    line = " → ".join(agent.id for agent in line_of(agents, ranked[0]))
    head = (
        f"**{html.escape(pool)}**: {len(agents)} agents. The first one's line: {line}. It has {_settings(ranked[0])}."
    )
    return "\n".join([head, "", "| | agent | from | score | steps |", "|---|---|---|---|---|", *rows])


def line_of(agents: Sequence[Agent], agent: Agent) -> list[Agent]:
    """An agent and those it came from, the first one first."""
    known = {other.id: other for other in agents}
    line = [agent]
    while (parent := known.get(line[0].parent or "")) is not None and parent not in line:
        line.insert(0, parent)
    return line


def _score(agent: Agent) -> str:
    return f"{agent.score:,.1f} ± {agent.standard_error:,.1f}"


def _word(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _settings(agent: Agent) -> str:
    try:
        chosen = json.loads(agent.settings)
        words = [
            f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}" for name, value in chosen.items()
        ]
    except (ValueError, AttributeError):
        words = [agent.settings]
    return html.escape(" ".join([agent.algo, *words])).replace("_", "\\_").replace("|", "\\|")


def best_so_far(agents: Sequence[Agent]) -> tuple[list[float], list[float], list[float]]:
    """Of each submission of the first pool: its number, its score, and the best score by then."""
    own = [agent for agent in agents if agent.pool == agents[0].pool]
    best: list[float] = []
    for agent in own:
        best.append(max(agent.score, best[-1] if best else agent.score))
    return [float(a.number) for a in own], [a.score for a in own], best
