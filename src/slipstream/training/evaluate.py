"""How good policies are: whole episodes, one per world, without learning."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.envs.registry import AnyEnv, make, make_env
from slipstream.envs.worlds import Worlds
from slipstream.training.config import TrainConfig
from slipstream.training.play import Arena, WorldsArena, play
from slipstream.training.policies import ByPolicy, Policies

EVALUATION_SEED = 1_000_003
"""Added to a run's seed for the worlds it is evaluated in."""

GOAL_CHECK = 4
"""Iterations between two evaluations of a run that has a goal and no other plan."""


@dataclass(frozen=True)
class GroupScore:
    """Returns of a group's agents (an episode's return is the mean over the agents of the group)."""

    mean: float
    standard_error: float
    minimum: float
    maximum: float


@dataclass(frozen=True)
class Evaluation:
    episodes: int
    length: float
    length_standard_error: float
    groups: dict[str, GroupScore]
    report: dict[str, float]
    """Means of what the world itself reports at the end of an episode (`Env.report`)."""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def of(data: Mapping[str, Any]) -> Evaluation:
        """What `to_json` came from."""
        return Evaluation(**{**data, "groups": {name: GroupScore(**score) for name, score in data["groups"].items()}})


def evaluation_worlds(env: AnyEnv, episodes: int, seed: int, backend: str = "auto", **options: Any) -> Worlds:
    """Worlds to judge policies in, one for each episode: those that `Env.for_evaluation` says."""
    return make(make_env(env, **options).for_evaluation(), episodes, seed, backend)


def evaluate(policies: Policies, actors: ByPolicy, arena: Arena, *, explore: bool = False, seed: int = 0) -> Evaluation:
    """Play one episode in every world.

    Every world contributes exactly one episode: the first one to end would otherwise count more often.

    Args:
        policies: who acts.
        actors: with which weights.
        arena: one world for each episode.
        explore: act as in training instead of as well as can be.
        seed: randomness of exploring.
    """
    playing = np.ones(arena.num_worlds, bool)
    length = np.zeros(arena.num_worlds, np.int64)
    returns = {g.name: np.zeros(arena.num_worlds) for g in arena.groups}
    reports: dict[str, np.ndarray] = {}
    arena.begin()
    for moment in play(policies, actors, arena, explore=explore, seed=seed):
        for name, reward in moment.reward.items():
            returns[name] += np.where(playing, reward, 0.0)
        length += playing
        ended = playing & moment.done
        if ended.any():
            for name, values in arena.reports().items():
                reports.setdefault(name, np.zeros(arena.num_worlds))[ended] = values[ended]
        playing &= ~ended
        if not playing.any():
            break
    over = ~playing
    return Evaluation(
        episodes=arena.num_worlds,
        length=float(length.mean()),
        length_standard_error=standard_error(length),
        groups={name: group_score(r) for name, r in returns.items()},
        report={name: float(values[over].mean()) for name, values in reports.items()} if over.any() else {},
    )


@dataclass(frozen=True)
class Verdict:
    """How good somebody was found to be."""

    evaluation: Evaluation
    score: float
    """The mean return of the first policy that learns."""
    actor: Mapping[str, np.ndarray] | None = None
    """Who was judged, as the arrays of a checkpoint's part; None: those who act right now."""


class Judge:
    """Evaluates the policies of a run, always on the same episodes: scores can be compared, and a resumed run judges as
    it would have."""

    def __init__(self, config: TrainConfig, policies: Policies, env: AnyEnv | None = None, *, seed: int | None = None):
        """Args:
        config: of the run.
        policies: who acts.
        env: the world itself, where it cannot be made from its name.
        seed: of the episodes; by default that of the run and `EVALUATION_SEED`.
        """
        self._seed = config.seed + EVALUATION_SEED if seed is None else seed
        self._config, self._policies, self._env = config, policies, env
        self._arena: WorldsArena | None = None
        self._start: dict[str, np.ndarray] = {}
        named = policies.learning or list(policies.groups)
        self.group = policies.groups[named[0]][0].name
        """Whose mean return is the score of a run: of the first policy that learns."""

    def verdict(self, iteration: int, actors: ByPolicy) -> Verdict | None:
        """Evaluate if it is time to: a matter of the iteration alone, so that the same seed ends in the same place."""
        every = self._config.evaluate_every
        if every is None and self._config.stop_at_return is not None:
            every = GOAL_CHECK
        if every is None or iteration % every != 0:
            return None
        evaluation = self(actors)
        return Verdict(evaluation, evaluation.groups[self.group].mean)

    def __call__(self, actors: ByPolicy) -> Evaluation:
        if self._arena is None:
            c = self._config
            seed = self._seed
            self._arena = WorldsArena(
                evaluation_worlds(self._env or c.env, c.evaluate_episodes, seed, c.backend, **dict(c.env_options))
            )
            self._start = self._arena.worlds.save()
        self._arena.worlds.restore(self._start)
        return evaluate(self._policies, actors, self._arena)


def group_score(returns: np.ndarray) -> GroupScore:
    """Mean, error and range of the returns of some episodes, `[episodes]`."""
    return GroupScore(float(returns.mean()), standard_error(returns), float(returns.min()), float(returns.max()))


def standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
