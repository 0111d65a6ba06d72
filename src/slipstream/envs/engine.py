"""What `Worlds` asks of whatever runs them: compiled kernels, or plain Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from slipstream.envs.env import Env, Leaf
from slipstream.envs.store import GroupLayout, Store
from slipstream.envs.transition import action_mask, active_agents


class Engine(Protocol):
    """Holds the state and the clock of all worlds, and steps them."""

    age: int
    """Steps taken since the worlds were made: what makes every step's randomness different."""

    @property
    def leaves(self) -> Sequence[Leaf]:
        """Which arrays a state has."""
        ...

    @property
    def layouts(self) -> Sequence[GroupLayout]:
        """Which buffers its groups need."""
        ...

    @property
    def clock_names(self) -> Sequence[str]:
        """The names of the counters and sums."""
        ...

    @property
    def recordings(self) -> int:
        """How often the step was traced and compiled."""
        ...

    def restart(self, seed: int) -> None:
        """Begin the whole history anew, as if just made with this seed (an unsigned word)."""
        ...

    def reset(self) -> None:
        """Begin a new episode in every world."""
        ...

    def observe(self, store: Store, slot: int) -> None:
        """Write what an action is chosen from now into a slot. Returns when it is written."""
        ...

    def step(self, store: Store, slot: int, actions: Mapping[str, jax.Array], full_final: bool) -> None:
        """Step all worlds and write the outcome into a slot. Returns when it is written.

        Args:
            store: where to write.
            slot: which slot.
            actions: by group, `[components, lanes]`.
            full_final: write the final observation of every lane, not only of those whose episode ended.
        """
        ...

    def step_random(self, num_steps: int) -> None:
        """Take steps with random actions; what they yield is computed and let go."""
        ...

    def clock_arrays(self, *names: str) -> dict[str, np.ndarray]:
        """The named counters and sums (by default all), `[worlds]` each."""
        ...

    def set_clock(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Set some of them."""
        ...

    def state_arrays(self) -> list[np.ndarray]:
        """The arrays of the state, in the order of `leaves`."""
        ...

    def set_state_arrays(self, arrays: Sequence[np.ndarray]) -> None:
        """Set all of them."""
        ...


def group_layouts(env: Env, state: Any) -> list[GroupLayout]:
    """What the groups of a world need, by what it says of one of its states."""
    active = active_agents(env, state) or {}
    masks = action_mask(env, state) or {}
    return [GroupLayout(g, g.name in active, len(masks.get(g.name, ()))) for g in env.groups]
