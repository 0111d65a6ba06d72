"""Who is trained next: pure functions of the leaderboard and a random generator.

A generator is given those who lead (the first one first) and says from whom a new agent starts and with which settings:
one of `GENERATORS`, or a function of the user's own, `path/to/file.py:function` or `module:function`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slipstream.names import named_object, nearest_names
from slipstream.tournament.leaderboard import Entry
from slipstream.tournament.ranges import Range

RESAMPLED = 0.25
"""How often population-based training draws a setting anew instead of perturbing it."""

LEADING = 0.25
"""The share of those kept from which population-based training takes parents."""


@dataclass(frozen=True)
class Situation:
    """What a generator may look at beside the leaders."""

    settings: Mapping[str, float]
    """Those of the tournament that may be varied."""
    ranges: Mapping[str, Range]
    pods: int
    """How many agents are trained at a time."""
    fresh: float
    """The share of agents that start anew although there are leaders."""


@dataclass(frozen=True)
class Proposal:
    """Whom to train next."""

    parent: Entry | None
    """Whose weights and optimiser to go on with; None: start anew."""
    settings: dict[str, float] = field(default_factory=dict)
    """What differs from the tournament's settings."""


Generator = Callable[[Sequence[Entry], Situation, np.random.Generator], Proposal]


def softmax(leaders: Sequence[Entry], situation: Situation, rng: np.random.Generator) -> Proposal:
    """A leader by chance: the better, the likelier (a softmax over z-scored scores; Liu et al. 2021)."""
    if _starts_anew(leaders, situation, rng):
        return Proposal(None)
    parent = leaders[int(rng.choice(len(leaders), p=chances([e.score for e in leaders])))]
    return Proposal(parent, dict(parent.settings))


def chances(scores: Sequence[float]) -> np.ndarray:
    """A softmax over z-scored scores; all alike if the scores are."""
    values = np.asarray(scores, np.float64)
    spread = values.std()
    if not spread > 1e-9 * max(np.abs(values).max(), 1e-12):
        return np.full(len(values), 1.0 / len(values))
    weights = np.exp((values - values.mean()) / spread)
    return weights / weights.sum()


def top_k(leaders: Sequence[Entry], situation: Situation, rng: np.random.Generator) -> Proposal:
    """Any of those kept, with equal chances."""
    if _starts_anew(leaders, situation, rng):
        return Proposal(None)
    parent = leaders[int(rng.integers(len(leaders)))]
    return Proposal(parent, dict(parent.settings))


def pbt(leaders: Sequence[Entry], situation: Situation, rng: np.random.Generator) -> Proposal:
    """Population-based training (Jaderberg et al. 2017): one of the best, with settings perturbed or drawn anew."""
    if _starts_anew(leaders, situation, rng):
        return Proposal(None, {name: r.sample(rng) for name, r in situation.ranges.items()})
    best = leaders[: max(1, round(LEADING * len(leaders)))]
    parent = best[int(rng.integers(len(best)))]
    settings = dict(parent.settings)
    for name, found in situation.ranges.items():
        if rng.random() < RESAMPLED:
            settings[name] = found.sample(rng)
        else:
            settings[name] = found.perturb(settings.get(name, situation.settings[name]), rng)
    return Proposal(parent, settings)


def fresh(leaders: Sequence[Entry], situation: Situation, rng: np.random.Generator) -> Proposal:
    """Always a new start."""
    return Proposal(None)


def _starts_anew(leaders: Sequence[Entry], situation: Situation, rng: np.random.Generator) -> bool:
    return len(leaders) < situation.pods or rng.random() < situation.fresh


GENERATORS: dict[str, Generator] = {"softmax": softmax, "top-k": top_k, "pbt": pbt, "fresh": fresh}


def find_generator(name: str) -> Generator:
    if name in GENERATORS:
        return GENERATORS[name]
    if ":" in name:
        found: Any = named_object(name)
        if callable(found):
            made: Any = found
            return made
        raise ValueError(f"{name} is no function: a generator takes leaders, a situation and a random generator.")
    raise ValueError(f"Unknown generator {name!r}: {nearest_names(name, list(GENERATORS))}")
