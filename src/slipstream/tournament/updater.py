"""Whether and where a submission enters the leaderboard: pure functions of the leaders and a score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slipstream.tournament.leaderboard import Entry


@dataclass(frozen=True)
class Placement:
    """What becomes of a submission."""

    rank: int
    """Among those who are kept, from 1."""
    enters: bool
    """Whether its weights are kept; its row always is."""


def place(leaders: Sequence[Entry], score: float, keep: int) -> Placement:
    """A submission enters if it is among the best; of equal ones those who came first are better.

    Args:
        leaders: those who are kept, the best one first.
        score: of the submission.
        keep: how many are kept.
    """
    rank = 1 + sum(entry.score >= score for entry in leaders)
    return Placement(rank, rank <= keep)
