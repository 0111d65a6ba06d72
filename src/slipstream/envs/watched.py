"""A world with somebody who watches it, for `check`."""

from __future__ import annotations

from typing import Any

from slipstream.envs.env import Env


class Watched(Env):
    """A world that remembers the rewards its rules gave, and whether a reset asked for random numbers."""

    def __init__(self, env: Env):
        self._env = env
        self.groups, self.max_steps = env.groups, env.max_steps
        self.active, self.action_mask = env.active, env.action_mask
        self.report, self.left_out = env.report, env.left_out
        self.next_episode, self.tables = env.next_episode, env.tables
        self.rewards: list[dict[str, Any]] = []
        self.drew = False

    def reset(self, rng: Any) -> Any:
        watched: Any = WatchedRng(rng, self)
        return self._env.reset(watched)

    def step(self, state: Any, action: Any, rng: Any) -> tuple[Any, Any, Any]:
        state, reward, terminated = self._env.step(state, action, rng)
        self.rewards.append(dict(reward) if isinstance(reward, dict) else {self.groups[0].name: reward})
        return state, reward, terminated

    def observe(self, state: Any) -> Any:
        return self._env.observe(state)


class WatchedRng:
    def __init__(self, rng: Any, watched: Watched):
        self._rng, self._watched = rng, watched

    def __getattr__(self, name: str) -> Any:
        self._watched.drew = True
        return getattr(self._rng, name)
