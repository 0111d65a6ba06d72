"""How good policies are: whole episodes, one per world, without learning."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from slipstream.arrays import to_numpy
from slipstream.envs.worlds import Worlds
from slipstream.training.policies import Policies, States, store_views

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
    worlds.engine.observe(store, 0)
    views = store_views(store)
    playing = np.ones(worlds.num_worlds, bool)
    length = np.zeros(worlds.num_worlds, np.int64)
    returns = {g.name: np.zeros(worlds.num_worlds) for g in worlds.groups}
    key = jax.random.key(seed)
    for step in range(worlds.env.max_steps or DEFAULT_LIMIT):
        if explore:
            _, actions = policies.act(states, views, 0, {}, key=key, iteration=step)
        else:
            actions = policies.act_best(states, views)
        worlds.step_into(store, 0, jax.block_until_ready(actions))
        for g in worlds.groups:
            reward = to_numpy(store.reward[g.name].array).reshape(worlds.num_worlds, g.size).mean(axis=1)
            returns[g.name] += np.where(playing, reward, 0.0)
        length += playing
        playing &= ~worlds.at_start()
        if not playing.any():
            break
    return Evaluation(
        episodes=worlds.num_worlds,
        length=float(length.mean()),
        length_standard_error=_standard_error(length),
        groups={
            name: GroupScore(float(r.mean()), _standard_error(r), float(r.min()), float(r.max()))
            for name, r in returns.items()
        },
    )


def _standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
