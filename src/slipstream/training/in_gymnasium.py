"""The proof in another engine: a policy trained here, in Gymnasium's own environment."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from slipstream.envs.env import Env, Group
from slipstream.envs.extras import ExtraMissing
from slipstream.spaces import Discrete
from slipstream.training.evaluate import Evaluation, evaluate
from slipstream.training.play import DEFAULT_LIMIT
from slipstream.training.policies import ByPolicy, Policies


@dataclass(frozen=True)
class Match:
    """Which of Gymnasium's environments is the same task as a world of ours."""

    id: str
    kwargs: dict[str, Any]
    ignored: tuple[str, ...]
    """Options of our world that Gymnasium's environment does not have."""


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
    known = _parameters(env.gymnasium_id)
    shared = {name: value for name, value in options.items() if name in known}
    ignored = tuple(name for name in options if name not in known)
    return Match(env.gymnasium_id, {**env.gymnasium_kwargs, **shared}, ignored)


def _gymnasium() -> Any:
    try:
        import gymnasium
    except ModuleNotFoundError as error:
        raise ExtraMissing("gymnasium") from error
    return gymnasium


def _parameters(env_id: str) -> set[str]:
    """The arguments that an environment of Gymnasium takes."""
    _gymnasium()
    from gymnasium.envs.registration import load_env_creator

    creator = _spec(env_id).entry_point
    made_by: Any = load_env_creator(creator) if isinstance(creator, str) else creator
    return set(inspect.signature(made_by).parameters)


def _spec(env_id: str) -> Any:
    return _gymnasium().spec(env_id)


class GymnasiumArena:
    """Unmodified environments of Gymnasium, side by side; each plays one episode."""

    def __init__(self, chosen: Match, group: Group, episodes: int, seed: int = 0):
        """Args:
        chosen: which environment.
        group: whose part is played.
        episodes: how many environments.
        seed: of the first one; the next ones count on.
        """
        self._envs = [_make(chosen) for _ in range(episodes)]
        self._seed = seed
        self.groups, self.num_worlds = (group,), episodes
        self.limit = DEFAULT_LIMIT
        _check_fit(group, self._envs[0], chosen)

    def begin(self) -> None:
        self._observations = [env.reset(seed=self._seed + i)[0] for i, env in enumerate(self._envs)]
        self._done = np.zeros(self.num_worlds, bool)
        self._reward, self._steps, self._distance = np.zeros((3, self.num_worlds))
        self._knows_speed = True

    @property
    def views(self) -> dict[str, Any]:
        # All environments every time, also those that are over: one shape, one compilation.
        observation = jnp.asarray(np.stack(self._observations, -1)[None], jnp.float32)
        name = self.groups[0].name
        done = jnp.asarray(self._done[None])
        return {"observation": {name: observation}, "action_mask": {}, "active": {}, "done": done}

    def step(self, actions: dict[str, jax.Array]) -> None:
        chosen = np.asarray(actions[self.groups[0].name])
        self._reward[:] = 0.0
        for i in np.flatnonzero(~self._done):
            self._observations[i], reward, terminated, truncated, info = self._envs[i].step(self._action(chosen[:, i]))
            self._reward[i] = reward
            self._done[i] = terminated or truncated
            self._steps[i] += 1
            self._knows_speed &= "x_velocity" in info
            self._distance[i] += info.get("x_velocity", 0.0)

    def _action(self, components: np.ndarray) -> Any:
        """An action as Gymnasium wants it: a number for a choice, else an array."""
        return int(components[0]) if isinstance(self.groups[0].action, Discrete) else components

    def rewards(self) -> dict[str, np.ndarray]:
        return {self.groups[0].name: self._reward.copy()}

    def done(self) -> np.ndarray:
        return self._done.copy()

    def reports(self) -> dict[str, np.ndarray]:
        """The mean of `info["x_velocity"]` so far, if the environment has it."""
        return {"forward_speed": self._distance / self._steps} if self._knows_speed else {}

    def close(self) -> None:
        for env in self._envs:
            env.close()


def evaluate_in_gymnasium(
    policies: Policies, actors: ByPolicy, chosen: Match, episodes: int, *, seed: int = 0, explore: bool = False
) -> Evaluation:
    """Play episodes in unmodified environments of Gymnasium.

    Args:
        policies: who acts: a single policy of a single agent.
        actors: with which weights.
        chosen: in which environment.
        episodes: how many.
        seed: of the first episode; the next ones count on.
        explore: sample actions instead of taking the best.
    """
    groups = [g for members in policies.groups.values() for g in members]
    if len(groups) != 1 or groups[0].size != 1:
        raise ValueError("Gymnasium's environments have a single agent; this run has several.")
    arena = GymnasiumArena(chosen, groups[0], episodes, seed)
    try:
        return evaluate(policies, actors, arena, explore=explore, seed=seed)
    finally:
        arena.close()


def _make(chosen: Match) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Gymnasium has to say about versions
        return _gymnasium().make(chosen.id, **chosen.kwargs)


def _check_fit(group: Group, env: Any, chosen: Match) -> None:
    expected = (group.observation.size,)
    if env.observation_space.shape != expected:
        raise ValueError(
            f"The policy looks at {expected[0]} numbers, but observations of {chosen.id} have the shape "
            f"{list(env.observation_space.shape)}."
        )
