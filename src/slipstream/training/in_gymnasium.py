"""Policies in environments of Gymnasium: where they were trained, or as the proof in another engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from slipstream.envs.env import Env, Group
from slipstream.names import GYM
from slipstream.spaces import describe
from slipstream.training.evaluate import Evaluation, evaluate
from slipstream.training.pipeline.simulators import Simulator, simulator_options
from slipstream.training.play import DEFAULT_LIMIT
from slipstream.training.policies import ByPolicy, Policies


@dataclass(frozen=True)
class Match:
    """Which of Gymnasium's environments is the same task as a world of ours."""

    id: str
    kwargs: dict[str, Any]
    ignored: tuple[str, ...]
    """Options of our world that Gymnasium's environment does not have."""

    @property
    def name(self) -> str:
        return f"{GYM}{self.id}"


def match(env: Env, options: Mapping[str, Any]) -> Match:
    """The environment of Gymnasium that a world stands for.

    Args:
        env: a world.
        options: what it was made with; those that Gymnasium's environment has too are handed on.
    """
    if env.gymnasium_id is None:
        raise ValueError(
            f"{type(env).__name__} has no counterpart in Gymnasium. A world of your own can name one: "
            "set its gymnasium_id (and gymnasium_kwargs)."
        )
    known = simulator_options(f"{GYM}{env.gymnasium_id}")
    shared = {name: value for name, value in options.items() if name in known}
    ignored = tuple(name for name in options if name not in known)
    return Match(env.gymnasium_id, {**env.gymnasium_kwargs, **shared}, ignored)


class GymnasiumArena:
    """Unmodified environments of Gymnasium, side by side; each plays one episode."""

    def __init__(self, env: str, options: Mapping[str, Any], group: Group, episodes: int, seed: int = 0):
        """Args:
        env: the name of the environment.
        options: its keyword arguments.
        group: whose part is played.
        episodes: how many environments.
        seed: of the first one; the next ones count on.
        """
        first = Simulator(env, options, seed)
        _check_fit(group, first)
        self._simulators = [first, *(Simulator(env, options, seed + i) for i in range(1, episodes))]
        self._seed = seed
        self.groups, self.num_worlds = (group,), episodes
        self.limit = first.limit or DEFAULT_LIMIT

    def begin(self) -> None:
        self._observations = [s.reset(self._seed + i) for i, s in enumerate(self._simulators)]
        self._done = np.zeros(self.num_worlds, bool)
        self._reward, self._steps, self._distance = np.zeros((3, self.num_worlds))
        self._knows_speed = True

    @property
    def views(self) -> dict[str, Any]:
        # All environments every time, also those that are over: one shape, one compilation.
        observation = jnp.asarray(np.stack(self._observations, -1)[None])
        name = self.groups[0].name
        done = jnp.asarray(self._done[None])
        return {"observation": {name: observation}, "action_mask": {}, "active": {}, "done": done}

    def step(self, actions: dict[str, jax.Array]) -> None:
        chosen = np.asarray(actions[self.groups[0].name])
        self._reward[:] = 0.0
        for i in np.flatnonzero(~self._done):
            simulator = self._simulators[i]
            self._observations[i], self._reward[i], terminated, truncated = simulator.step(chosen[:, i])
            self._done[i] = terminated or truncated
            self._steps[i] += 1
            self._knows_speed &= "x_velocity" in simulator.info
            self._distance[i] += simulator.info.get("x_velocity", 0.0)

    def rewards(self) -> dict[str, np.ndarray]:
        return {self.groups[0].name: self._reward.copy()}

    def done(self) -> np.ndarray:
        return self._done.copy()

    def reports(self) -> dict[str, np.ndarray]:
        """The mean of `info["x_velocity"]` so far, if the environment has it."""
        return {"forward_speed": self._distance / self._steps} if self._knows_speed else {}

    @property
    def oddities(self) -> dict[str, int]:
        """What should not have happened in all environments, and how often."""
        total: Counter[str] = Counter()
        for simulator in self._simulators:
            total.update(simulator.oddities)
        return dict(total)

    def close(self) -> None:
        for simulator in self._simulators:
            simulator.close()


def evaluate_in_gymnasium(
    policies: Policies,
    actors: ByPolicy,
    env: str,
    options: Mapping[str, Any],
    episodes: int,
    *,
    seed: int = 0,
    explore: bool = False,
    warn: Callable[[str], None] = lambda text: None,
) -> Evaluation:
    """Play episodes in unmodified environments of Gymnasium.

    Args:
        policies: who acts: a single policy of a single agent.
        actors: with which weights.
        env: the name of the environment.
        options: its keyword arguments.
        episodes: how many.
        seed: of the first episode; the next ones count on.
        explore: sample actions instead of taking the best.
        warn: is told what is odd about the environments.
    """
    groups = [g for members in policies.groups.values() for g in members]
    if len(groups) != 1 or groups[0].size != 1:
        raise ValueError("Gymnasium's environments have a single agent; this run has several.")
    arena = GymnasiumArena(env, options, groups[0], episodes, seed)
    try:
        return evaluate(policies, actors, arena, explore=explore, seed=seed)
    finally:
        for what, count in arena.oddities.items():
            warn(f"{env} had {count:,} {what}.")
        arena.close()


def _check_fit(group: Group, simulator: Simulator) -> None:
    pairs = ((group.observation, simulator.observation, "looks at"), (group.action, simulator.action, "chooses in"))
    for expected, found, does in pairs:
        same = getattr(expected, "choices", expected.size) == getattr(found, "choices", found.size)
        if not same or getattr(expected, "image", None) != getattr(found, "image", None):
            raise ValueError(f"The policy {does} {describe(expected)}, but {simulator.name} has {describe(found)}.")
