"""The clock of worlds that are not of ours: what `transition` keeps of ours, in NumPy on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from slipstream.envs.clock import Number, clock_names

TYPES: dict[Number, type] = {"whole": np.int32, "real": np.float32, "wide": np.float64}


class Bookkeeping:
    """Counters, and sums over finished episodes, `[worlds]` each, by the names of `Clock.flat`."""

    def __init__(self, groups: Sequence[str], num_worlds: int):
        self._groups, self._num_worlds = list(groups), num_worlds
        self._numbers = clock_names(groups, [])
        self.restart()

    def restart(self) -> None:
        """As if nothing had ever happened."""
        self.arrays = {name: np.zeros(self._num_worlds, TYPES[kind]) for name, kind in self._numbers.items()}

    def begin_everywhere(self) -> None:
        """A new episode in every world."""
        self.arrays["episode"] = self.arrays["episode"] + 1
        self.arrays["step"] = np.zeros_like(self.arrays["step"])
        for name in self._groups:
            self.arrays[f"running_return/{name}"] = np.zeros(self._num_worlds, np.float32)

    def tick(self, rewards: Mapping[str, np.ndarray], done: np.ndarray, sound: np.ndarray) -> None:
        """A step was taken.

        Args:
            rewards: by group, the mean over its agents as the environment gave it, `[worlds]`.
            done: whose episode has ended.
            sound: whose numbers are finite.
        """
        a = self.arrays
        step = a["step"] + 1
        for name, reward in rewards.items():
            paid = np.isfinite(reward)
            returns = a[f"running_return/{name}"] + np.where(sound & paid, reward, 0.0).astype(np.float32)
            wide = np.where(done, returns, 0.0).astype(np.float64)
            a[f"return_sum/{name}"] = a[f"return_sum/{name}"] + wide
            a[f"return_square_sum/{name}"] = a[f"return_square_sum/{name}"] + wide * wide
            a[f"running_return/{name}"] = np.where(done, np.float32(0.0), returns)
            a[f"unpaid/{name}"] = a[f"unpaid/{name}"] + (sound & ~paid)
        a["episodes"] = a["episodes"] + done
        a["length_sum"] = a["length_sum"] + np.where(done, step, 0).astype(np.int32)
        a["broken"] = a["broken"] + ~sound
        a["episode"] = a["episode"] + done
        a["step"] = np.where(done, 0, step).astype(np.int32)

    def some(self, names: Sequence[str]) -> dict[str, np.ndarray]:
        """The named ones (by default all)."""
        return {name: self.arrays[name].copy() for name in names or self.arrays}

    def set(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Set some of them."""
        for name, values in arrays.items():
            self.arrays[name] = np.array(values, self.arrays[name].dtype)
