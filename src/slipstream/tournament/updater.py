"""Whether and where a submission enters the leaderboard: pure functions of the leaders and a score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Placement:
    """What becomes of a submission."""

    rank: int
    """Among those who are kept, from 1."""
    enters: bool
    """Whether its weights are kept; its row always is."""


def place(leaders: Sequence[float], score: float, keep: int) -> Placement:
    """A submission enters if it is among the best; of equal ones those who came first are better.

    Args:
        leaders: the scores of those who are kept.
        score: of the submission.
        keep: how many are kept.
    """
    rank = 1 + sum(other >= score for other in leaders)
    return Placement(rank, rank <= keep)
