"""Rollouts in shared memory, for algorithms that learn from what their agents have just gone through.

Every sampler has two slabs: it fills one while the other waits for the learner, which copies it out and hands it back.
So samplers go on while the learner updates, and are at most two slabs ahead. What the policy thought of an action
when it was taken (`log_prob`) is kept, since the weights may be newer by the time it is learned from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from slipstream.shared_memory import Block, fence

SLABS = 2


def rollout_shapes(
    samplers: int, steps: int, features: int, components: int, lanes: int, image: bool
) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Shapes of the slabs of all samplers: `[samplers, slabs, ...]`, then as in `algos.algo.Rollout`.

    Args:
        samplers: how many.
        steps: of a rollout.
        features: of an observation.
        components: of an action.
        lanes: environments of a sampler.
        image: whether observations are bytes.
    """
    seen = np.uint8 if image else np.float32
    slab = {
        "observation": ((steps + 1, features, lanes), seen),
        "action": ((steps, components, lanes), np.float32),
        "log_prob": ((steps, lanes), np.float32),
        "reward": ((steps, lanes), np.float32),
        "terminated": ((steps, lanes), np.bool_),
        "truncated": ((steps, lanes), np.bool_),
        "final_observation": ((steps, features, lanes), seen),
        "begins": ((steps + 1, lanes), np.bool_),
    }
    counters = {"filled": ((samplers,), np.int64), "taken": ((samplers,), np.int64)}
    return counters | {name: ((samplers, SLABS, *shape), dtype) for name, (shape, dtype) in slab.items()}


class Slabs:
    """A sampler's end."""

    def __init__(self, block: Block, number: int):
        self._number = number
        self._filled, self._taken = block["filled"], block["taken"]
        fields = {name: a[number] for name, a in block.arrays.items() if name not in ("filled", "taken")}
        self._slabs = [{name: a[slab] for name, a in fields.items()} for slab in range(SLABS)]

    def free(self) -> dict[str, np.ndarray] | None:
        """The slab to fill next; None while the learner has not taken any of those that are full."""
        filled = int(self._filled[self._number])
        if filled - int(self._taken[self._number]) >= SLABS:
            return None
        fence()
        return self._slabs[filled % SLABS]

    def complete(self) -> None:
        """The slab is full."""
        fence()
        self._filled[self._number] += 1


class RolloutWriter:
    """Fills a sampler's slabs, step by step."""

    def __init__(self, slabs: Slabs, steps: int, lanes: int):
        self._slabs, self._steps = slabs, steps
        self._slab: dict[str, np.ndarray] | None = None
        self._time = 0
        self._begins = np.ones(lanes, bool)

    @property
    def ready(self) -> bool:
        """Whether there is room for another step."""
        if self._slab is None:
            self._slab = self._slabs.free()
        return self._slab is not None

    def add(
        self,
        observation: np.ndarray,
        action: np.ndarray,
        kept: Mapping[str, np.ndarray],
        reward: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        following: np.ndarray,
    ) -> None:
        """Take a step of all environments (see `TransitionWriter.add`); `kept` has the `log_prob` of actions."""
        slab, t = self._slab, self._time
        assert slab is not None
        values = {
            "observation": observation,
            "begins": self._begins,
            "action": action,
            "log_prob": kept["log_prob"],
            "reward": reward,
            "terminated": terminated,
            "truncated": truncated,
            "final_observation": following,
        }
        for name, value in values.items():
            slab[name][t] = value
        self._begins = terminated | truncated
        self._time += 1

    def settle(self, observation: np.ndarray) -> None:
        """What environments show now, after resets: it ends a rollout that is full."""
        if self._time < self._steps:
            return
        assert self._slab is not None
        self._slab["observation"][self._steps] = observation
        self._slab["begins"][self._steps] = self._begins
        self._slabs.complete()
        self._slab, self._time = None, 0


class Rollouts:
    """The learner's end."""

    def __init__(self, samplers: int, steps: int, features: int, components: int, lanes: int, image: bool):
        self.block = Block(rollout_shapes(samplers, steps, features, components, lanes, image))
        self.samplers, self.steps, self.lanes = samplers, steps, lanes
        self._filled, self._taken = self.block["filled"], self.block["taken"]
        self._fields = [name for name in self.block.arrays if name not in ("filled", "taken")]

    @property
    def ready(self) -> bool:
        """Whether every sampler has a full slab."""
        return bool((self._filled > self._taken).all())

    def empty(self) -> dict[str, np.ndarray]:
        """Memory to take rollouts into: those of all samplers side by side, `[..., samplers * lanes]`."""
        made = {}
        for name in self._fields:
            *leading, lanes = self.block[name].shape[2:]
            made[name] = np.empty((*leading, self.samplers * lanes), self.block[name].dtype)
        return made

    def take(self, into: Mapping[str, np.ndarray]) -> None:
        """Copy the oldest full slab of every sampler, and hand it back to be filled again."""
        fence()
        for sampler in range(self.samplers):
            slab = int(self._taken[sampler]) % SLABS
            lanes = slice(sampler * self.lanes, (sampler + 1) * self.lanes)
            for name, place in into.items():
                place[..., lanes] = self.block[name][sampler, slab]
            fence()
            self._taken[sampler] += 1

    def forget(self) -> None:
        """Be empty. Nobody may be writing meanwhile."""
        self._filled[:] = self._taken[:] = 0

    def close(self) -> None:
        self.block.close()
