"""Worlds as environments of Gymnasium: many at once (`gymnasium.vector.VectorEnv`), or a single one."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from slipstream.envs.env import Group
from slipstream.envs.registry import make
from slipstream.envs.worlds import Worlds
from slipstream.gymnasium_spaces import gymnasium_space
from slipstream.spaces import Discrete


class GymnasiumWorlds(VectorEnv):
    """Worlds with a single group, as a vector environment: every agent of every world is one of its environments.

    Observations are `[lanes, features]`, as everywhere but in Slipstream. An episode that ends is followed by the next
    one within the same step: `infos["final_obs"]` has its last observation, `infos["_final_obs"]` says whose it is.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}

    def __init__(self, worlds: Worlds):
        self.worlds = worlds
        self._group = only_group(worlds)
        self.num_envs = worlds.lanes(self._group.name)
        self.single_observation_space = gymnasium_space(self._group.observation)
        self.single_action_space = gymnasium_space(self._group.action)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin a new episode everywhere.

        Args:
            seed: the whole history starts anew; without one, the next episodes follow from the last seed.
            options: none are known.
        """
        if options and "reset_mask" in options:
            raise ValueError("Worlds reset themselves when an episode ends: options['reset_mask'] cannot be given.")
        super().reset(seed=seed)
        observation = lanes_first(self.worlds.reset(seed))
        return observation, self._state_of_the_game()

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step every world once.

        Args:
            actions: `[lanes]` of choices, or `[lanes, components]`.
        """
        step = self.worlds.step(lanes_last(self._group, actions))
        terminated, truncated = np.array(step.terminated), np.array(step.truncated)
        infos = self._state_of_the_game()
        ended = terminated | truncated
        if ended.any():
            final = lanes_first(step.final_observation)
            each = np.full(self.num_envs, None, object)
            for lane in np.flatnonzero(ended):
                each[lane] = final[lane]
            infos |= {"final_obs": each, "_final_obs": ended, "final_info": {}, "_final_info": ended.copy()}
        return lanes_first(step.observation), np.array(step.reward), terminated, truncated, infos

    def _state_of_the_game(self) -> dict[str, Any]:
        """Who is in the game and what is allowed, of the worlds that say so."""
        everybody = np.ones(self.num_envs, bool)
        found: dict[str, Any] = {}
        for kind, by_group in (("action_mask", self.worlds.action_mask()), ("active", self._active())):
            if by_group:
                found |= {kind: np.array(by_group[self._group.name]).T, f"_{kind}": everybody.copy()}
        return found

    def _active(self) -> dict[str, Any]:
        return self.worlds.active() if self.worlds.engine.layouts[0].has_active else {}


class GymnasiumWorld(gymnasium.Env):
    """A single world with a single agent, as an environment that is reset by hand."""

    metadata = {"render_modes": []}

    def __init__(self, worlds: Worlds):
        self.worlds = worlds
        self._group = only_group(worlds)
        if worlds.lanes(self._group.name) != 1:
            raise ValueError(
                f"A gymnasium.Env has one agent, and these are {worlds.num_worlds} worlds of {self._group.size}: take "
                "as_gymnasium() for all of them at once."
            )
        self.observation_space = gymnasium_space(self._group.observation)
        self.action_space = gymnasium_space(self._group.action)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return np.array(self.worlds.reset(seed))[:, 0], {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        step = self.worlds.step(lanes_last(self._group, np.asarray(action)[None]))
        flags = bool(step.terminated[0]), bool(step.truncated[0])
        return np.array(step.final_observation)[:, 0], float(step.reward[0]), *flags, {}


def vector_env(
    env: str, num_envs: int = 1, seed: int = 0, backend: str = "auto", render_mode: None = None, **options: Any
) -> GymnasiumWorlds:
    """What `gymnasium.make_vec` calls: so many worlds, whose options are given beside."""
    return GymnasiumWorlds(make(env, num_envs, seed, backend, **options))


def single_env(
    env: str, seed: int = 0, backend: str = "auto", render_mode: None = None, **options: Any
) -> GymnasiumWorld:
    """What `gymnasium.make` calls."""
    return GymnasiumWorld(make(env, 1, seed, backend, **options))


def only_group(worlds: Worlds) -> Group:
    group, *others = worlds.groups
    if others:
        names = ", ".join(g.name for g in worlds.groups)
        raise ValueError(
            f"An environment of Gymnasium has agents of one kind, and {type(worlds.env).__name__} has {names}: "
            "as_pettingzoo() has room for all of them."
        )
    return group


def lanes_first(array: Any) -> np.ndarray:
    """`[features, lanes]` to `[lanes, features]`, in memory of its own."""
    return np.ascontiguousarray(np.asarray(array).T)


def lanes_last(group: Group, actions: Any) -> np.ndarray:
    """What Gymnasium calls an action, `[lanes, ...]`, as ours: `[lanes]` of choices, or `[components, lanes]`."""
    given = np.asarray(actions)
    return given if isinstance(group.action, Discrete) else np.ascontiguousarray(given.T)
