"""A world as a `pettingzoo.ParallelEnv`: all its agents, of all groups."""

from __future__ import annotations

from typing import Any

import numpy as np
from pettingzoo import ParallelEnv

from slipstream.envs.env import Group
from slipstream.envs.worlds import Worlds
from slipstream.gymnasium_spaces import gymnasium_space
from slipstream.spaces import Box, Discrete


class PettingZooWorld(ParallelEnv):
    """One world. Agents are named `GROUP_NUMBER`; who has left the game is no longer among `agents`.

    Where a world says which choices are allowed, `infos[agent]["action_mask"]` has them.
    """

    def __init__(self, worlds: Worlds):
        if worlds.num_worlds != 1:
            raise ValueError(
                f"A ParallelEnv is a single world, and there are {worlds.num_worlds}: make them with num_worlds=1."
            )
        self.worlds = worlds
        self._place = {f"{g.name}_{i}": (g, i) for g in worlds.groups for i in range(g.size)}
        self.possible_agents = list(self._place)
        self.agents: list[str] = []
        # One object for each agent: PettingZoo wants the same one every time, and each is seeded by itself.
        self.observation_spaces = {a: gymnasium_space(g.observation) for a, (g, _) in self._place.items()}
        self.action_spaces = {a: gymnasium_space(g.action) for a, (g, _) in self._place.items()}
        self.metadata = {"name": type(worlds.env).__name__, "render_modes": [], "is_parallelizable": True}
        self.render_mode = None

    def observation_space(self, agent: str) -> Any:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]]]:
        """Begin an episode with all agents; `options` has nothing that is known."""
        observation = self._by_group(self.worlds.reset(seed))
        self.agents = list(self.possible_agents)
        return self._of_agents(observation), self._infos()

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        """Step the world; `actions` has one for each of `agents`."""
        if missing := [agent for agent in self.agents if agent not in actions]:
            raise ValueError(f"There is no action for {', '.join(missing)}.")
        step = self.worlds.step({g.name: self._action(g, actions) for g in self.worlds.groups})
        # Where the episode has ended, the world is in the next one already: this is what the last step led to.
        observation = self._of_agents(self._by_group(step.final_observation))
        reward = {a: float(r) for a, r in self._of_agents(self._by_group(step.reward)).items()}
        terminated = {a: bool(t) for a, t in self._of_agents(self._by_group(step.terminated)).items()}
        truncated = {a: bool(t) for a, t in self._of_agents(self._by_group(step.truncated)).items()}
        infos = self._infos()
        self.agents = [a for a in self.agents if not (terminated[a] or truncated[a])]
        return observation, reward, terminated, truncated, infos

    def render(self) -> None:
        """There is no picture: `slipstream video` draws a run."""

    def close(self) -> None:
        """Nothing is left to do."""

    def _by_group(self, found: Any) -> dict[str, np.ndarray]:
        several = len(self.worlds.groups) > 1
        return {g.name: np.array(found[g.name] if several else found) for g in self.worlds.groups}

    def _of_agents(self, by_group: dict[str, np.ndarray]) -> dict[str, Any]:
        """What belongs to each agent that is in the game, of arrays `[..., lanes]`."""
        return {a: by_group[g.name][..., i] for a, (g, i) in self._place.items() if a in self.agents}

    def _infos(self) -> dict[str, dict[str, Any]]:
        masks = {name: np.array(mask, np.int8) for name, mask in self.worlds.action_mask().items()}
        of_agents = {a: (g, i) for a, (g, i) in self._place.items() if a in self.agents}
        return {a: {"action_mask": masks[g.name][:, i]} if g.name in masks else {} for a, (g, i) in of_agents.items()}

    def _action(self, group: Group, actions: dict[str, Any]) -> np.ndarray:
        """The actions of a group; who has left it does nothing in particular."""
        real = isinstance(group.action, Box)
        array = np.zeros((group.action.size, group.size), np.float32 if real else np.int32)
        for number in range(group.size):
            agent = f"{group.name}_{number}"
            if agent in self.agents:
                array[:, number] = np.asarray(actions[agent])
        return array[0] if isinstance(group.action, Discrete) else array
