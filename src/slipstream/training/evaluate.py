"""How good policies are: whole episodes, one per world, without learning."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from slipstream.envs.worlds import Worlds
from slipstream.training.policies import Policies, States

DEFAULT_LIMIT = 10_000
"""Steps after which an episode of a world without a time limit is cut off."""


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


def evaluate(policies: Policies, states: States, worlds: Worlds, *, explore: bool = False, seed: int = 0) -> Evaluation:
    """Play one episode in every world.

    Every world contributes exactly one episode: the first one to end would otherwise count more often.

    Args:
        policies: who acts.
        states: with which weights.
        worlds: one for each episode.
        explore: sample actions instead of taking the best.
        seed: randomness of sampled actions.
    """
    worlds.reset()
    store = worlds.new_store(1)
    worlds.observe_into(store, 0)
    views = store.views
    playing = np.ones(worlds.num_worlds, bool)
    length = np.zeros(worlds.num_worlds, np.int64)
    returns = {g.name: np.zeros(worlds.num_worlds) for g in worlds.groups}
    reports = _Reports(worlds)
    key = jax.random.key(seed)
    for step in range(worlds.env.max_steps or DEFAULT_LIMIT):
        if explore:
            _, actions = policies.act(states, views, 0, {}, key=key, iteration=step)
        else:
            actions = policies.act_best(states, views)
        worlds.step_into(store, 0, jax.block_until_ready(actions))
        for g in worlds.groups:
            reward = np.asarray(store.views["reward"][g.name][0]).reshape(worlds.num_worlds, g.size).mean(axis=1)
            returns[g.name] += np.where(playing, reward, 0.0)
        length += playing
        ended = playing & np.asarray(store.views["done"][0])
        reports.note(ended)
        playing &= ~ended
        if not playing.any():
            break
    return Evaluation(
        episodes=worlds.num_worlds,
        length=float(length.mean()),
        length_standard_error=standard_error(length),
        groups={name: group_score(r) for name, r in returns.items()},
        report=reports.means(~playing),
    )


class _Reports:
    """What the worlds report of their first episode: how much their sums over episodes have grown when it ends."""

    def __init__(self, worlds: Worlds):
        self.worlds = worlds
        self.before = {n: a for n, a in worlds.engine.clock_arrays().items() if n.startswith("report_sum/")}
        self.first = {n: np.zeros(worlds.num_worlds) for n in self.before}

    def note(self, ended: np.ndarray) -> None:
        """Keep the reports of the worlds whose first episode has just ended."""
        if not ended.any() or not self.before:
            return
        for name, sums in self.worlds.engine.clock_arrays(*self.before).items():
            self.first[name][ended] = (sums - self.before[name])[ended]

    def means(self, which: np.ndarray) -> dict[str, float]:
        """By name, over the given worlds."""
        if not which.any():
            return {}
        return {n.partition("/")[2]: float(values[which].mean()) for n, values in self.first.items()}


def group_score(returns: np.ndarray) -> GroupScore:
    """Mean, error and range of the returns of some episodes, `[episodes]`."""
    return GroupScore(float(returns.mean()), standard_error(returns), float(returns.min()), float(returns.max()))


def standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
