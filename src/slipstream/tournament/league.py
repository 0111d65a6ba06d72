"""Ratings from matches, for worlds in which several policies play one another.

What an agent earns depends on who else plays. Its rating is what it would earn among average others: matches are fitted
by `return = rating of the agent - toughness of each of the others`, weighted by how exact each mean is, by least
squares. A little of every pool's spread pulls ratings of few matches to the middle, so that one lucky match makes no
leader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.tournament.leaderboard import Entry, Match

PRIOR = 1.0
"""Deviation of ratings and toughness before anything was played, in units of the spread of returns."""


@dataclass(frozen=True)
class Rating:
    """What an agent would earn among average others."""

    mean: float
    standard_error: float
    matches: int


def rate(matches: Sequence[Match], pool: str) -> dict[str, Rating]:
    """The ratings of the agents of a pool, from what they earned.

    Args:
        matches: played by anybody.
        pool: whose.
    """
    own = [m for m in matches if m.pool == pool]
    if not own:
        return {}
    agents = sorted({m.agent for m in own})
    others = sorted({(p, a) for m in own for p, a in m.others.items()})
    column = {("", a): i for i, a in enumerate(agents)} | {o: len(agents) + i for i, o in enumerate(others)}
    scores = np.array([m.score for m in own])
    middle, spread = scores.mean(), max(float(scores.std()), 1e-9)
    design = np.zeros((len(own), len(column)))
    for row, m in enumerate(own):
        design[row, column["", m.agent]] = 1.0
        for other in m.others.items():
            design[row, column[other]] = -1.0
    # A mean over a few episodes can look exact by chance; no match counts more than a hundredth of the spread allows.
    errors = np.array([max(m.standard_error, 0.01 * spread) for m in own])
    weighted = design / errors[:, None]
    prior = np.eye(len(column)) / (PRIOR * spread) ** 2
    covariance = np.linalg.inv(weighted.T @ weighted + prior)
    found = covariance @ (weighted.T @ ((scores - middle) / errors))
    played = {a: sum(m.agent == a for m in own) for a in agents}
    return {
        a: Rating(float(middle + found[i]), float(np.sqrt(covariance[i, i])), played[a]) for i, a in enumerate(agents)
    }


def matrix(matches: Sequence[Match], rows: Sequence[Entry], columns: Sequence[Entry]) -> list[list[float | None]]:
    """What those in the rows earned with those in the columns around, `[rows][columns]`; None where they never met.

    Args:
        matches: played by anybody.
        rows: agents of one pool.
        columns: agents of another.
    """
    met: dict[tuple[str, str], list[Match]] = {}
    for m in matches:
        for other in m.others.values():
            met.setdefault((m.agent, other), []).append(m)

    def mean(found: list[Match]) -> float | None:
        episodes = sum(m.episodes for m in found)
        return sum(m.score * m.episodes for m in found) / episodes if episodes else None

    return [[mean(met.get((row.id, column.id), [])) for column in columns] for row in rows]


def who_beats_whom(matches: Sequence[Match], pools: Mapping[str, Sequence[Entry]]) -> list[dict[str, Any]]:
    """For every two pools: who played whom, what each earned, and who beat whom.

    One beats the other if both together say so: it earned more above its pool's mean than the other above its own.

    Args:
        matches: played by anybody.
        pools: the leaders of each, the best one first.
    """
    names, tables = list(pools), []
    level = {pool: _level([m for m in matches if m.pool == pool]) for pool in names}
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            earned = matrix(matches, pools[a], pools[b])
            conceded = matrix(matches, pools[b], pools[a])
            margin = [
                [_margin(x, conceded[c][r], level[a], level[b]) for c, x in enumerate(row)]
                for r, row in enumerate(earned)
            ]
            tables.append(
                {
                    "rows": {"pool": a, "agents": [e.id for e in pools[a]]},
                    "columns": {"pool": b, "agents": [e.id for e in pools[b]]},
                    "row_returns": earned,
                    "column_returns": [list(column) for column in zip(*conceded)] if conceded else [],
                    "margin": margin,
                }
            )
    return tables


def _level(matches: Sequence[Match]) -> tuple[float, float]:
    scores = np.array([m.score for m in matches]) if matches else np.zeros(1)
    return float(scores.mean()), max(float(scores.std()), 1e-9)


def _margin(
    own: float | None, other: float | None, level: tuple[float, float], other_level: tuple[float, float]
) -> float | None:
    """By how much one beat the other, in deviations: positive if it did, negative if it was beaten."""
    if own is None or other is None:
        return None
    return ((own - level[0]) / level[1] - (other - other_level[0]) / other_level[1]) / 2
