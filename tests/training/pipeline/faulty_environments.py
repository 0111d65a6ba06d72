"""Environments that keep a record of what happens in them, and environments that fail."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium import spaces


class Recorded(gymnasium.Env):
    """Shows random numbers, ends in either way at random, and writes down every step in a file of its own."""

    def __init__(self, folder: str = ""):
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Box(-2.0, 2.0, (2,), np.float32)
        self.file = os.fdopen(tempfile.mkstemp(".jsonl", dir=folder)[0], "w", buffering=1) if folder else None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.shown = self._draw()
        return np.array(self.shown, np.float32), {}

    def step(self, action):
        before, self.shown = self.shown, self._draw()
        reward = float(np.float32(self.np_random.normal()))
        chance = self.np_random.random()
        terminated, truncated = bool(chance < 0.15), bool(0.1 < chance < 0.25)
        if self.file is not None:
            record = [before, np.asarray(action, float).tolist(), reward, self.shown, terminated, truncated]
            self.file.write(json.dumps(record) + "\n")
        return np.array(self.shown, np.float32), reward, terminated, truncated, {}

    def _draw(self):
        return self.np_random.standard_normal(3).astype(np.float32).tolist()


class Faulty(gymnasium.Env):
    """Goes wrong at a step: every time, or with `once` (a file) only until that exists."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 25}

    def __init__(self, how: str = "", at: int = 20, once: str = "", draws: bool = False, render_mode=None):
        if render_mode is not None and not draws:
            raise TypeError("unexpected keyword argument 'render_mode'")
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.how, self.at, self.once = how, at, once
        self.time = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        self.time += 1
        if self.time == self.at and self.how and not (self.once and Path(self.once).exists()):
            if self.once:
                Path(self.once).touch()
            self.fail()
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), 1.0, False, self.time % 10 == 0, {}

    def render(self):
        return np.full((20, 30, 3), 25 * (self.time % 10), np.uint8)

    def fail(self):
        if self.how == "raise":
            raise RuntimeError("the gripper is stuck")
        if self.how == "hang":
            time.sleep(1000)
        if self.how == "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.how == "exit":
            sys.exit(3)


class Consistent(gymnasium.Env):
    """Every part of a transition follows from the others, so that a row made of two is found out."""

    def __init__(self):
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.show(), {}

    def step(self, action):
        before = self.x
        self.time += 1
        return self.show(), float(5 * before + self.x), False, self.time == 50, {}

    def show(self):
        self.x = float(self.np_random.integers(-1000, 1000))
        return np.array([self.x, 2 * self.x, -self.x], np.float32)
