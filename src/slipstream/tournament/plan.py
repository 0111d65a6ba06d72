"""What a tournament is made of, as frozen data that survives a round trip through JSON."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slipstream.algos.settings import Settings
from slipstream.tournament.generator import Situation, find_generator
from slipstream.tournament.ranges import read_ranges
from slipstream.training import config_json
from slipstream.training.config import PipelineConfig, TrainConfig

TRAINING_SEEDS = 1 << 30
"""Agents are trained with seeds below this; those they are judged with are above."""

FINAL_SEEDS = 1 << 29
"""How far the seeds of the last judgement are from those that agents are ranked with."""


@dataclass(frozen=True)
class Plan:
    """A tournament."""

    train: TrainConfig
    """What a pod trains; its seed is that of the tournament, and `stop_at_return` ends it."""
    pods: int = 2
    minutes: float | None = 10.0
    agents: int | None = None
    """End after so many submissions."""
    generator: str = "softmax"
    quantum_seconds: float | None = 60.0
    """How long a pod trains an agent before it submits it."""
    quantum_steps: int | None = None
    """The same in environment steps; whichever comes first."""
    fresh: float = 0.1
    """The share of agents that start anew although there are leaders."""
    keep: int = 10
    """How many agents keep their weights, in every pool."""
    ensemble: int = 3
    """How many of the best act together in the end; 1: there is no ensemble."""
    episodes: int = 100
    """By how many episodes agents are ranked."""
    final_episodes: int = 400
    """By how many the best one and the ensemble are judged in the end."""
    opponents: int = 4
    """In a league: against how many of the others an agent trains and is judged."""
    cpus_per_pod: float = 1.0
    gpus_per_pod: float = 0.0
    patience: float = 300.0
    """Seconds beyond its quantum after which a pod that has not reported counts as dead."""
    ranges: str | None = None
    """A file with the ranges within which settings are varied."""
    database: str = ""
    storage: str = ""

    def __post_init__(self) -> None:
        for name in ("pods", "keep", "ensemble", "opponents"):
            _require(type(getattr(self, name)) is int and getattr(self, name) >= 1, self, name, "at least 1")
        for name in ("episodes", "final_episodes"):
            _require(type(getattr(self, name)) is int and getattr(self, name) >= 2, self, name, "at least 2")
        for name in ("minutes", "agents", "quantum_seconds", "quantum_steps"):
            value = getattr(self, name)
            _require(value is None or (value > 0 and math.isfinite(value)), self, name, "positive")
        for name in ("cpus_per_pod", "patience"):
            _require(getattr(self, name) > 0, self, name, "positive")
        _require(self.gpus_per_pod >= 0, self, "gpus_per_pod", "0 or more")
        _require(0 <= self.fresh <= 1, self, "fresh", "within 0 .. 1")
        if self.minutes is None and self.agents is None and self.train.stop_at_return is None:
            raise ValueError("A tournament needs an end: minutes, agents or stop_at_return.")
        if self.quantum_seconds is None and self.quantum_steps is None:
            raise ValueError("A quantum needs an end: quantum_seconds or quantum_steps.")
        if self.league and self.train.stop_at_return is not None:
            raise ValueError("In a league agents are rated by matches: stop_at_return has no meaning, give minutes.")
        if not self.pools:
            raise ValueError("No policy learns: leave --freeze out for at least one.")
        if isinstance(self.train.driver, PipelineConfig):
            return
        if self.train.driver.processes > 1:
            raise ValueError("A pod trains in one process: leave --processes out, and take more pods.")
        if self.train.driver.tune:
            raise ValueError("Pods share a machine, so that nothing can be measured on it: leave --tune out.")

    @property
    def pools(self) -> list[str]:
        """The policies that learn. Several make a league."""
        return [name for name, policy in self.train.policies.items() if not policy.frozen]

    @property
    def league(self) -> bool:
        return len(self.pools) > 1

    def group_of(self, pool: str) -> str:
        """Whose return counts."""
        return self.train.policies[pool].groups[0]

    @property
    def ranking_seed(self) -> int:
        """Of the episodes that agents are ranked by: the same for all, and of no training."""
        return TRAINING_SEEDS + self.train.seed % FINAL_SEEDS

    @property
    def final_seed(self) -> int:
        """Of the episodes that nobody was ranked by."""
        return self.ranking_seed + FINAL_SEEDS

    def situation(self, pool: str, pods: int) -> Situation:
        """What a generator may look at."""
        policy = self.train.policies[pool]
        ranges = read_ranges(policy.algo, policy.settings, self.ranges)
        settings = {name: float(getattr(policy.settings, name)) for name in ranges}
        return Situation(settings, ranges, pods, self.fresh)

    def settings_of(self, pool: str, changes: Mapping[str, Any]) -> Settings:
        """The settings of an agent."""
        policy = self.train.policies[pool]
        return config_json.make_settings(policy.algo, changes, policy.settings)

    def check(self) -> None:
        """Refuse a generator or ranges that do not exist, before any work starts."""
        find_generator(self.generator)
        for pool in self.pools:
            self.situation(pool, self.pods)

    def to_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "train": config_json.to_json(self.train)}

    @staticmethod
    def of(data: Mapping[str, Any]) -> Plan:
        """What `to_json` came from."""
        return Plan(**{**data, "train": config_json.from_json(data["train"])})


def _require(ok: bool, plan: Plan, name: str, must: str) -> None:
    if not ok:
        raise ValueError(f"{name} must be {must}, got {getattr(plan, name)!r}.")
