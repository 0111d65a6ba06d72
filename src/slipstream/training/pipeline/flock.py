"""Several environments that step together."""

from __future__ import annotations

import math

import numpy as np

from slipstream.training.pipeline.simulators import Simulator, check_of


class Flock:
    """Steps environments of one kind one after the other, and looks at all that they return at once.

    What is odd is treated as a `Simulator` treats it. The rest costs a microsecond per environment.

    Attributes:
        reward: of the last step, `[lanes]`.
        terminated: whether it ended an episode, `[lanes]`.
        truncated: whether it cut one off, `[lanes]`.
        any_ended: whether it did one or the other anywhere.
    """

    def __init__(self, simulators: list[Simulator]):
        self._simulators = simulators
        self._steps = [simulator.env.step for simulator in simulators]
        first, lanes = simulators[0], len(simulators)
        self._is_usual = check_of(first.observation, (lanes, first.observation.size))
        # Lists of numbers need no translation; anything else is the simulator's to translate, or to refuse.
        self._plain = (first.observation.size,) if first.sees_numbers else None
        self._act_as = first.act_as
        self.reward = np.zeros(lanes, np.float32)
        self.terminated, self.truncated = np.zeros(lanes, bool), np.zeros(lanes, bool)
        self.any_ended = False

    def reset(self) -> np.ndarray:
        """Begin an episode in each: `[lanes, features]`."""
        return np.stack([simulator.reset() for simulator in self._simulators])

    def step(self, action: np.ndarray, before: np.ndarray, after: np.ndarray) -> None:
        """Act.

        Args:
            action: in the units of the space, `[components, lanes]`.
            before: what is seen, `[lanes, features]`.
            after: where goes what is seen afterwards.
        """
        reward, terminated, truncated = self.reward, self.terminated, self.truncated
        act_as, plain = self._act_as, self._plain
        if self.any_ended:
            terminated[:] = truncated[:] = self.any_ended = False
        rows = action.T.copy()  # environments may keep what they are given
        for lane, (step, row) in enumerate(zip(self._steps, rows)):
            given, reward[lane], is_over, is_cut_off, _ = step(act_as(row))
            if is_over or is_cut_off:
                terminated[lane], truncated[lane], self.any_ended = is_over, is_cut_off, True
            if type(given) is np.ndarray and given.shape == plain:
                after[lane] = given
            else:
                after[lane] = self._simulators[lane].features(given)
        if not (self._is_usual(after) and math.isfinite(np.dot(reward, reward))):
            self._look_closer(before, after)

    def _look_closer(self, before: np.ndarray, after: np.ndarray) -> None:
        for lane, simulator in enumerate(self._simulators):
            self.reward[lane] = simulator.usable_reward(float(self.reward[lane]))
            if not simulator.is_usable(after[lane]):
                after[lane] = before[lane]
                self.truncated[lane] = self.any_ended = True

    def begin(self, lane: int) -> np.ndarray:
        """The first observation of the next episode of one of them."""
        return self._simulators[lane].reset()

    def oddities(self, name: str) -> int:
        """How often they have done what they say they never do."""
        return sum(simulator.oddities.get(name, 0) for simulator in self._simulators)

    def close(self) -> None:
        for simulator in self._simulators:
            simulator.close()
