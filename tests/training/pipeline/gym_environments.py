"""Small environments of Gymnasium for tests; sampler processes can import them by the file's name."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Countdown(gymnasium.Env):
    """Says how many steps are left, and keeps a record of all that was done. The last step terminates.

    With `odd` something strange happens at step `when`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}

    def __init__(self, steps: int = 5, odd: str = "", when: int = 3, render_mode: str | None = None):
        self.observation_space = spaces.Box(0.0, 10.0, (2,), np.float32)
        self.action_space = spaces.Box(-2.0, 2.0, (1,), np.float32)
        self.steps, self.odd, self.when, self.render_mode = steps, odd, when, render_mode

    def reset(self, *, seed: int | None = None, options: Any = None):
        super().reset(seed=seed)
        self.time, self.number = 0, float(self.np_random.random())
        return np.array([self.steps, self.number], np.float32), {}

    def step(self, action):
        self.time += 1
        observation = np.array([self.steps - self.time, self.number], np.float32)
        reward = float(action[0])
        if self.time == self.when:
            if self.odd == "nan":
                observation[0] = np.nan
            elif self.odd == "outside":
                observation[0] = 11.0
            elif self.odd == "shape":
                observation = np.zeros(3, np.float32)
            elif self.odd == "reward":
                reward = float("inf")
            elif self.odd == "error":
                raise RuntimeError("the motor is on fire")
        return observation, reward, self.time >= self.steps, False, {"x_velocity": 1.5}

    def render(self):
        picture = np.full((40, 60, 3), 255, np.uint8)
        picture[:, : 4 * (self.time + 1)] = (20, 120, 200)
        return picture


class Everything(gymnasium.Env):
    """A dictionary to see, and several choices to make, which do not begin at 0."""

    observation_space = spaces.Dict(
        {
            "place": spaces.Box(-1.0, 1.0, (2, 2), np.float64),
            "kind": spaces.Discrete(3, start=5),
            "flags": spaces.Tuple((spaces.MultiBinary(2), spaces.MultiDiscrete([2, 2]))),
        }
    )
    action_space = spaces.MultiDiscrete([2, 3], start=[1, -1])

    def __init__(self):
        self.taken: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None):
        super().reset(seed=seed)
        return self._see(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.taken.append(action)
        return self._see(), 1.0, False, len(self.taken) >= 4, {}

    def _see(self):
        flags = (np.array([0, 1], np.int8), np.array([1, 0]))
        return {"place": np.arange(4.0).reshape(2, 2) / 4, "kind": np.int64(6), "flags": flags}


class Pixels(gymnasium.Env):
    """A bright column that moves to where it was told; the picture's channels come first or last."""

    def __init__(self, size: int = 36, first: bool = False, dtype: str = "uint8"):
        shape = (2, size, size) if first else (size, size, 2)
        self.observation_space = spaces.Box(0, 255, shape, np.dtype(dtype).type)
        self.action_space = spaces.Discrete(2)
        self.size, self.first = size, first

    def reset(self, *, seed: int | None = None, options: Any = None):
        super().reset(seed=seed)
        self.time, self.side = 0, int(self.np_random.integers(2))
        return self._see(), {}

    def step(self, action):
        reward = float(action == self.side)
        self.time += 1
        self.side = int(self.np_random.integers(2))
        return self._see(), reward, False, self.time >= 10, {}

    def _see(self):
        picture = np.zeros((self.size, self.size, 2), np.uint8)
        picture[:, 10 + 10 * self.side, 0] = 255
        picture[3, :, 1] = 100
        return picture.transpose(2, 0, 1) if self.first else picture


class Keeper(Countdown):
    """Keeps the very arrays it was given as actions."""

    def __init__(self):
        super().__init__()
        self.taken: list[np.ndarray] = []

    def step(self, action):
        self.taken.append(action)
        return super().step(action)


class Wordy(gymnasium.Env):
    observation_space = spaces.Dict({"word": spaces.Text(5)})
    action_space = spaces.Discrete(2)


class Manifold(gymnasium.Env):
    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Dict({"left": spaces.Discrete(2)})


def made_by_a_function(steps: int = 2):
    return Countdown(steps)
