"""The one way to play: policies choose, worlds step, and whoever wants to know watches.

Evaluations, films, Gymnasium's environments and the live page all go through `play`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import numpy as np

from slipstream.arrays import keep_compiled_programs
from slipstream.envs.env import Group
from slipstream.envs.worlds import Worlds
from slipstream.training.policies import ByPolicy, Policies, Views

DEFAULT_LIMIT = 10_000
"""Steps after which an episode of a world without a time limit is cut off."""


def episode_limit(worlds: Worlds, limit: int | None = None) -> int:
    """How many steps an episode is followed."""
    most = worlds.env.max_steps or DEFAULT_LIMIT
    return most if limit is None else min(most, limit)


class Arena(Protocol):
    """Where policies play: worlds of ours, or somebody else's environments."""

    @property
    def groups(self) -> Sequence[Group]: ...

    @property
    def num_worlds(self) -> int: ...

    @property
    def limit(self) -> int:
        """How many steps an episode may take."""
        ...

    @property
    def views(self) -> Views:
        """What there is to see now, like a `Store` of a single slot."""
        ...

    def begin(self) -> None:
        """Start a new episode in every world."""

    def step(self, actions: dict[str, jax.Array]) -> None: ...

    def rewards(self) -> dict[str, np.ndarray]:
        """Of the last step by group, the mean over its agents: `[worlds]`."""
        ...

    def done(self) -> np.ndarray:
        """Whose episode has ended in the last step, `[worlds]`."""
        ...

    def reports(self) -> dict[str, np.ndarray]:
        """What worlds whose first episode has just ended have to say of it, `[worlds]`."""
        ...


class WorldsArena:
    """Compiled worlds as an arena."""

    def __init__(self, worlds: Worlds):
        self.worlds = worlds
        self._store = worlds.new_store(1)
        self._before: dict[str, np.ndarray] = {}

    @property
    def groups(self) -> Sequence[Group]:
        return self.worlds.groups

    @property
    def num_worlds(self) -> int:
        return self.worlds.num_worlds

    @property
    def limit(self) -> int:
        return episode_limit(self.worlds)

    @property
    def views(self) -> Views:
        return self._store.views

    def begin(self) -> None:
        self.worlds.engine.reset()
        self.worlds.observe_into(self._store, 0)
        self._before = self.worlds.report_sums()

    def step(self, actions: dict[str, jax.Array]) -> None:
        self.worlds.step_into(self._store, 0, jax.block_until_ready(actions))

    def rewards(self) -> dict[str, np.ndarray]:
        buffers = self._store.named_buffers()
        rewards = {g.name: buffers[f"reward/{g.name}"].on_host() for g in self.groups}
        return {name: reward.reshape(self.num_worlds, -1).mean(axis=1) for name, reward in rewards.items()}

    def done(self) -> np.ndarray:
        return self._store.named_buffers()["done"].on_host()[0]

    def reports(self) -> dict[str, np.ndarray]:
        return {name: sums - self._before[name] for name, sums in self.worlds.report_sums().items()}


@dataclass(frozen=True)
class Moment:
    """What a step of all worlds led to."""

    step: int
    """How many steps have been taken, this one included."""
    reward: dict[str, np.ndarray]
    """By group, `[worlds]`."""
    done: np.ndarray
    """Whose episode has ended, `[worlds]`."""


def play(
    policies: Policies,
    actors: ByPolicy,
    arena: Arena,
    *,
    explore: bool = False,
    seed: int = 0,
    limit: int | None = None,
) -> Iterator[Moment]:
    """Play on from where the arena is, step by step, for as long as an episode can last.

    Args:
        policies: who acts.
        actors: with which weights; whoever puts newer ones into the dictionary is heard from the next step on.
        arena: where; `begin` it first.
        explore: act as in training instead of as well as can be.
        seed: randomness of exploring.
        limit: stop after so many steps, if that is sooner.
    """
    keep_compiled_programs()
    key = jax.random.key(seed)
    memory: Any = policies.new_memory(arena.num_worlds)
    for step in range(arena.limit if limit is None else min(arena.limit, limit)):
        actions, _, memory = policies.act(actors, arena.views, 0, {}, memory, explore=explore, key=key, iteration=step)
        arena.step(actions)
        yield Moment(step + 1, arena.rewards(), arena.done())


def one_world(state: Mapping[str, np.ndarray], world: int, num_worlds: int) -> dict[str, np.ndarray]:
    """The state of one of several worlds, as `Env.draw` takes it."""

    def own(values: np.ndarray) -> np.ndarray:
        lanes = values.shape[-1] // num_worlds
        return values[..., world * lanes : (world + 1) * lanes]

    return {name: own(values) for name, values in state.items()}


def episode_states(
    policies: Policies, actors: ByPolicy, worlds: Worlds, limit: int | None = None
) -> Iterator[list[dict[str, np.ndarray] | None]]:
    """The states of an episode in every world, without exploration: at its start and after every step but the one that
    ends it; then None. When all have ended, that is all.

    Args:
        policies: who acts.
        actors: with which weights.
        worlds: one for each episode.
        limit: stop after so many steps.
    """
    arena = WorldsArena(worlds)
    arena.begin()
    playing = np.ones(worlds.num_worlds, bool)

    def states() -> list[dict[str, np.ndarray] | None]:
        state = worlds.get_state()
        return [one_world(state, w, worlds.num_worlds) if playing[w] else None for w in range(worlds.num_worlds)]

    yield states()
    for moment in play(policies, actors, arena, limit=limit):
        playing &= ~moment.done
        if not playing.any():
            return
        yield states()
