"""Worlds as a `VecEnv` of Stable-Baselines3, whose algorithms train on them as they are.

The interface is that of `stable_baselines3.common.vec_env.VecEnv` (2.x). Where Stable-Baselines3 is installed this is a
subclass of it, which its algorithms insist on; without it everything works but them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from slipstream.envs.adapters.vector_env import lanes_first, lanes_last, only_group
from slipstream.envs.worlds import Worlds
from slipstream.gymnasium_spaces import gymnasium_space

VecEnv: Any = object
with contextlib.suppress(ModuleNotFoundError):
    from stable_baselines3.common.vec_env import VecEnv  # pyright: ignore[reportMissingImports]


class StableBaselines3Worlds(VecEnv):
    """Worlds with a single group: every agent of every world is an environment of its own.

    A world begins its next episode in the step that ends one; the last observation is then in the lane's
    `info["terminal_observation"]`, and `info["TimeLimit.truncated"]` says whether it was the time limit.
    """

    def __init__(self, worlds: Worlds):
        self.worlds = worlds
        self._group = only_group(worlds)
        self.render_mode = None
        self.num_envs = worlds.lanes(self._group.name)
        self.observation_space = gymnasium_space(self._group.observation)
        self.action_space = gymnasium_space(self._group.action)
        self._seed: int | None = None
        self._actions: Any = None
        self.reset_infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if VecEnv is not object:
            super().__init__(self.num_envs, self.observation_space, self.action_space)

    def reset(self) -> np.ndarray:
        """Begin a new episode everywhere, with the seed of the last call of `seed` if there was one since."""
        seed, self._seed = self._seed, None
        self.reset_infos = [{} for _ in range(self.num_envs)]
        return lanes_first(self.worlds.reset(seed))

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """The seed of the next `reset`: one for all, from which each lane has its own."""
        self._seed = seed
        return [seed] * self.num_envs

    def step_async(self, actions: np.ndarray) -> None:
        """Take the actions of the next `step_wait`, `[lanes]` of choices or `[lanes, components]`."""
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Step all worlds: observations `[lanes, features]`, rewards and ends `[lanes]`, and an info for each lane."""
        step = self.worlds.step(lanes_last(self._group, self._actions))
        terminated, truncated = np.array(step.terminated), np.array(step.truncated)
        done = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if done.any():
            final = lanes_first(step.final_observation)
            for lane in np.flatnonzero(done):
                cut = bool(truncated[lane] and not terminated[lane])
                infos[lane] = {"terminal_observation": final[lane], "TimeLimit.truncated": cut}
        return lanes_first(step.observation), np.array(step.reward), done, infos

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        self.step_async(actions)
        return self.step_wait()

    def close(self) -> None:
        """Nothing is left to do."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute of the whole, once for each lane that is asked about."""
        return [getattr(self, attr_name)] * len(self._lanes(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise ValueError(f"{attr_name} cannot be set in single lanes: worlds of one kind run as one.")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        raise ValueError(f"{method_name} cannot be called in single lanes: worlds of one kind run as one.")

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """No lane is in a wrapper."""
        return [False] * len(self._lanes(indices))

    def get_images(self) -> list[None]:
        """There are no pictures of single lanes."""
        return [None] * self.num_envs

    def _lanes(self, indices: Any) -> list[int]:
        if indices is None:
            return list(range(self.num_envs))
        return [indices] if isinstance(indices, int) else list(indices)
