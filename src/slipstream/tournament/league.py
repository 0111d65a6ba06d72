"""Ratings from matches, for worlds in which several policies play one another.

A match is several episodes in which one agent of every pool plays. Returns of different sides cannot be compared with
one another (in Tag one side's lie around 10 and the other's around -2), so each is first placed among all returns of
its own side: 0 is the worst that was ever seen, 1 the best. Who is placed higher than the others has won, all the more
the further apart they are. To these results Elo ratings are fitted (Bradley and Terry 1952), with the errors that come
with the fit. The ratings of those who have played little are drawn to the middle, so that one lucky match makes no
leader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.tournament.leaderboard import Entry, Match

MIDDLE, ELO = 1000.0, 400.0 / np.log(10.0)
"""The rating of somebody of whom nothing is known, and what a unit of log-odds is in Elo."""

PRIOR = 1.5
"""Deviation of ratings before anything was played, in log-odds."""

GAMES = 10.0
"""As how many games a match counts. Its episodes are many, but they are all against the same others."""

ROUNDS = 50
"""Steps of Newton's method, at most."""


@dataclass(frozen=True)
class Rating:
    """In Elo: 400 more wins ten games for each one that it loses."""

    mean: float
    standard_error: float
    matches: int


def rate(matches: Sequence[Match]) -> dict[str, Rating]:
    """The ratings of all who played, whatever their pool."""
    agents = sorted({m.agent for m in matches} | {a for m in matches for a in m.others.values()})
    if not agents:
        return {}
    column = {agent: i for i, agent in enumerate(agents)}
    design = np.zeros((len(matches), len(agents)))
    for row, m in enumerate(matches):
        design[row, column[m.agent]] += 1.0
        for other in m.others.values():
            design[row, column[other]] -= 1.0 / len(m.others)
    # Every player of a match has a row of its own that says the same from its side.
    games = np.array([GAMES / (1 + len(m.others)) for m in matches])
    found, covariance = _fit(design, results(matches), games)
    played = {agent: sum(m.agent == agent for m in matches) for agent in agents}
    return {
        agent: Rating(float(MIDDLE + ELO * found[i]), float(ELO * np.sqrt(covariance[i, i])), played[agent])
        for agent, i in column.items()
    }


def _fit(design: np.ndarray, won: np.ndarray, games: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The strengths that explain best which share of the games was won, and their covariance.

    Args:
        design: `[matches, agents]`, whose strength counts for and against.
        won: `[matches]`, from 0 to 1.
        games: `[matches]`
    """
    strength = np.zeros(design.shape[1])
    prior = np.eye(len(strength)) / PRIOR**2
    for _ in range(ROUNDS):
        expected = 1.0 / (1.0 + np.exp(-design @ strength))
        slope = design.T @ (games * (won - expected)) - prior @ strength
        curvature = (design * (games * expected * (1.0 - expected))[:, None]).T @ design + prior
        step = np.linalg.solve(curvature, slope)
        strength += step
        if np.abs(step).max() < 1e-9:
            break
    covariance = np.linalg.inv(curvature)
    if len(strength) > 1:
        # Games say nothing of the level that all have in common: an error is that of the distance from it.
        centre = np.eye(len(strength)) - 1.0 / len(strength)
        covariance = centre @ covariance @ centre
    return strength, covariance


def results(matches: Sequence[Match]) -> np.ndarray:
    """Which share of a match each agent has won, `[matches]`: a half if all are placed alike."""
    returns: dict[str, list[float]] = {}
    for m in matches:
        for pool, value in ((m.pool, m.score), *m.against.items()):
            returns.setdefault(pool, []).append(value)
    known = {pool: np.sort(values) for pool, values in returns.items()}

    def place(pool: str, value: float) -> float:
        """Between 0 and 1: the share of all returns of the same side that are lower."""
        values = known[pool]
        return float(np.searchsorted(values, value, "left") + np.searchsorted(values, value, "right")) / 2 / len(values)

    won = []
    for m in matches:
        others = [place(pool, value) for pool, value in m.against.items()]
        won.append(0.5 * (1.0 + place(m.pool, m.score) - (sum(others) / len(others) if others else 0.5)))
    return np.array(won)


def who_beats_whom(matches: Sequence[Match], pools: Mapping[str, Sequence[Entry]]) -> list[dict[str, Any]]:
    """For every two pools: what each earned against whom, and which share of it was won; None where two never met.

    Args:
        matches: played by anybody.
        pools: the leaders of each, the best one first.
    """
    won = results(matches)
    met: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for m, share in zip(matches, won):
        for pool, other in m.others.items():
            met.setdefault((m.agent, other), []).append((m.score, m.against[pool], float(share)))

    def mean(a: Entry, b: Entry, which: int) -> float | None:
        found = [values[which] for values in met.get((a.id, b.id), [])]
        return sum(found) / len(found) if found else None

    names, tables = list(pools), []
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            rows, columns = pools[one], pools[other]
            earned, conceded, shares = ([[mean(a, b, k) for b in columns] for a in rows] for k in range(3))
            tables.append(
                {
                    "rows": {"pool": one, "agents": [e.id for e in rows]},
                    "columns": {"pool": other, "agents": [e.id for e in columns]},
                    "row_returns": earned,
                    "column_returns": conceded,
                    "rows_win": shares,
                }
            )
    return tables
