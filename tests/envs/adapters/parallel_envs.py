"""Parallel environments that processes of their own can make by name: agents who leave, and environments that fail."""

import time
from pathlib import Path

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Countdown(ParallelEnv):
    """Each agent leaves when it has said 1 often enough; after 6 steps everybody is cut off."""

    metadata = {"name": "countdown"}
    possible_agents = ["cat_0", "cat_1", "dog"]

    def observation_space(self, agent):
        return spaces.Box(-np.inf, np.inf, (2,) if agent == "dog" else (1,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def _seen(self, agents):
        dog = np.array([self.steps, self.offset], np.float32)
        return {a: dog if a == "dog" else np.array([self.said[a]], np.float32) for a in agents}

    def reset(self, seed=None, options=None):
        self.offset = np.random.default_rng(seed).random()
        self.agents, self.steps = list(self.possible_agents), 0
        self.said = dict.fromkeys(self.agents, 0)
        return self._seen(self.agents), {a: {} for a in self.agents}

    def step(self, actions):
        self.steps += 1
        before = self.agents
        assert set(actions) == set(before)
        for agent, action in actions.items():
            self.said[agent] += int(action)
        terminated = {a: self.said[a] >= 3 for a in before}
        truncated = {a: self.steps >= 6 for a in before}
        self.agents = [a for a in before if not (terminated[a] or truncated[a])]
        return (
            self._seen(before),
            {a: float(actions[a]) for a in before},
            terminated,
            truncated,
            {a: {} for a in before},
        )


class Faulty(Countdown):
    """Goes wrong in step 3; with `where`, only if that file is there. Where it gets stuck, there is another one."""

    def __init__(self, how="raise", where=""):
        self.how, self.where = how, where

    def step(self, actions):
        if self.steps == 2 and (not self.where or Path(self.where).exists()):
            self._fail()
        return super().step(actions)

    def _fail(self):
        if self.how == "raise":
            raise RuntimeError("the gripper is stuck")
        Path(f"{self.where}.stuck").touch()
        while self.how == "hang" or Path(self.where).exists():
            if self.how == "wait":
                time.sleep(0.01)
