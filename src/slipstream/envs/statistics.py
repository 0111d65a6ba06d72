"""How the episodes went that have ended: totals that only grow, and means over those between two moments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class EpisodeStatistics:
    """Means over the episodes that ended."""

    episodes: int
    length: float
    """Mean number of steps; NaN without an episode, like the means below."""
    returns: dict[str, float]
    """By group: the mean over episodes of the return, averaged over the agents of the group."""
    return_std: dict[str, float]
    report: dict[str, float]
    """What the world itself reports at the end of an episode (`Env.report`)."""
    broken: int
    """How many worlds were reset because their state was not finite."""
    unpaid: dict[str, int]
    """By group: in how many steps of worlds a reward was not finite."""


@dataclass(frozen=True)
class EpisodeTotals:
    """Sums over all episodes that have ended since the worlds were made (or got a new seed).

    Looking at them changes nothing. Two of them tell how the episodes went that ended in between.
    """

    episodes: int
    length: int
    returns: dict[str, float]
    """By group."""
    return_squares: dict[str, float]
    report: dict[str, float]
    broken: int
    unpaid: dict[str, int]

    @staticmethod
    def of(clock: Mapping[str, np.ndarray]) -> EpisodeTotals:
        """The totals of all worlds, from each world's own (`Clock.flat`, `[worlds]` each)."""
        sums = {name: values.sum(dtype=np.float64).item() for name, values in clock.items()}

        def each(kind: str) -> dict[str, float]:
            return {n.partition("/")[2]: v for n, v in sums.items() if n.startswith(kind + "/")}

        return EpisodeTotals(
            episodes=int(sums["episodes"]),
            length=int(sums["length_sum"]),
            returns=each("return_sum"),
            return_squares=each("return_square_sum"),
            report=each("report_sum"),
            broken=int(sums["broken"]),
            unpaid={name: int(count) for name, count in each("unpaid").items()},
        )

    @staticmethod
    def together(parts: Sequence[EpisodeTotals]) -> EpisodeTotals:
        """Of worlds whose totals were taken in parts."""

        def added(kind: str) -> dict[str, float]:
            return {name: sum(getattr(part, kind)[name] for part in parts) for name in getattr(parts[0], kind)}

        return EpisodeTotals(
            episodes=sum(part.episodes for part in parts),
            length=sum(part.length for part in parts),
            returns=added("returns"),
            return_squares=added("return_squares"),
            report=added("report"),
            broken=sum(part.broken for part in parts),
            unpaid={name: int(count) for name, count in added("unpaid").items()},
        )

    def since(self, earlier: EpisodeTotals | None) -> EpisodeStatistics:
        """Of the episodes that have ended since `earlier` (None: of all of them)."""
        count = self.episodes - (earlier.episodes if earlier else 0)

        def mean(total: float, before: float) -> float:
            return (total - before) / count if count else math.nan

        def means(kind: str) -> dict[str, float]:
            before = getattr(earlier, kind) if earlier else {}
            return {name: mean(total, before.get(name, 0.0)) for name, total in getattr(self, kind).items()}

        returns, squares = means("returns"), means("return_squares")
        return EpisodeStatistics(
            episodes=count,
            length=mean(self.length, earlier.length if earlier else 0),
            returns=returns,
            return_std={n: math.sqrt(max(squares[n] - r * r, 0.0)) if count else math.nan for n, r in returns.items()},
            report=means("report"),
            broken=self.broken - (earlier.broken if earlier else 0),
            unpaid={n: count - (earlier.unpaid.get(n, 0) if earlier else 0) for n, count in self.unpaid.items()},
        )
