"""Worlds that are JAX programs, run by JAX itself: `Worlds`, the fused loop and everything after it take them as ours.

A `JaxWorld` says how one world begins and how it goes on; `jax_styles` says it for environments with the interfaces of
gymnax and Brax.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from slipstream.arrays import ArrayTypes
from slipstream.envs.actions import sample_action
from slipstream.envs.adapters.bookkeeping import Bookkeeping
from slipstream.envs.adapters.foreign import ForeignWorld
from slipstream.envs.env import Leaf
from slipstream.envs.store import GroupLayout, Store
from slipstream.spaces import Box, Discrete

BEGINNING, GOING_ON, ACTING = 1, 2, 3
"""What randomness is for: each purpose has numbers of its own."""


class JaxWorlds:
    """All worlds at once: `begin` and `proceed` of one of them, mapped and compiled by JAX (see `Engine`)."""

    def __init__(self, env: JaxWorld, types: ArrayTypes, num_worlds: int, seed: int, first_world: int):
        self.env, self.types, self.num_worlds, self.first_world = env, types, num_worlds, first_world
        (self._group,) = env.groups
        self.layouts = [GroupLayout(self._group, has_active=False, mask_size=0)]
        self._numbers = jnp.arange(num_worlds, dtype=jnp.uint32) + jnp.uint32(first_world)
        self._traces = 0
        self._begin = jax.jit(self._begin_all)
        self._advance = jax.jit(self._advance_all)
        self.clock = Bookkeeping([self._group.name], num_worlds)
        self.restart(seed)
        paths, self._form = jax.tree_util.tree_flatten_with_path(self._state)
        names = [jax.tree_util.keystr(path, simple=True, separator=".") or "state" for path, _ in paths]
        self.leaves = [Leaf(name, None, None) for name in [*names, "observation"]]

    @property
    def recordings(self) -> int:
        return self._traces

    # Running.

    def restart(self, seed: int) -> None:
        self.seed, self.age = seed, 0
        self.clock.restart()
        self.reset()

    def reset(self) -> None:
        self.clock.begin_everywhere()
        self._state, self._seen = self._begin(np.uint32(self.seed), self.clock.arrays["episode"])

    def _keys(self, seed: Any, purpose: int, times: Any) -> jax.Array:
        """A key for each world. (Of the old kind: environments often keep theirs among the numbers of their state.)"""
        key = jax.random.fold_in(jax.random.PRNGKey(seed), purpose)
        times = jnp.broadcast_to(times, self._numbers.shape)
        return jax.vmap(lambda number, time: jax.random.fold_in(jax.random.fold_in(key, number), time))(
            self._numbers, times
        )

    def _begin_all(self, seed: Any, episode: Any) -> tuple[Any, jax.Array]:
        state, seen = jax.vmap(self.env.begin)(self._keys(seed, BEGINNING, episode))
        # A world that begins with a bare number goes on with an array: without a type of its own, it would be compiled
        # for both.
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.asarray(leaf).dtype), state), _lanes_last(seen)

    def _advance_all(
        self, state: Any, clock: dict[str, Any], action: jax.Array, seed: Any, age: Any
    ) -> tuple[Any, dict[str, jax.Array]]:
        self._traces += 1
        given = _as_given(self._group.action, action)
        after, seen, reward, terminated = jax.vmap(self.env.proceed)(state, given, self._keys(seed, GOING_ON, age))
        after = jax.tree.map(lambda new, old: new.astype(old.dtype), after, state)
        final, reward = _lanes_last(seen), reward.astype(jnp.float32)
        sound = jnp.isfinite(final).all(axis=0) & _finite(after, self.num_worlds)
        limit = self.env.max_steps
        truncated = clock["step"] + 1 >= limit if limit is not None else jnp.zeros_like(sound)
        terminated = jnp.where(sound, terminated.astype(bool), True)
        done = terminated | truncated
        final = jnp.where(sound, final, 0.0)
        # Beginning an episode may cost more than a step, so it happens only when one has ended somewhere.
        fresh = jax.lax.cond(done.any(), lambda: self._begin_all(seed, clock["episode"] + done), lambda: (after, final))
        state = jax.tree.map(lambda new, old: jnp.where(_along(done, old), new, old), fresh[0], after)
        rows = {
            "observation": jnp.where(done, fresh[1], final),
            "final_observation": final,
            "given": reward,
            "reward": jnp.where(sound & jnp.isfinite(reward), reward, 0.0),
            "terminated": terminated,
            "truncated": truncated,
            "done": done,
            "sound": sound,
        }
        return state, rows

    def step(self, store: Store, slot: int, actions: Mapping[str, jax.Array], full_final: bool) -> None:
        rows = self._step(actions[self._group.name])
        for buffer in store.named_buffers().values():
            kind = buffer.place.kind.name
            if kind != "final_observation" or full_final or rows["done"].any():
                buffer.put(slot, rows[kind])

    def _step(self, action: jax.Array) -> dict[str, np.ndarray]:
        clock = {name: self.clock.arrays[name] for name in ("step", "episode")}
        self._state, rows = self._advance(self._state, clock, action, np.uint32(self.seed), np.uint32(self.age))
        self._seen = rows["observation"]
        self.age += 1
        found = {name: np.asarray(row) for name, row in rows.items()}
        self.clock.tick({self._group.name: found.pop("given")}, found["done"], found.pop("sound"))
        return found

    def step_random(self, num_steps: int) -> None:
        key = jax.random.fold_in(jax.random.key(self.seed), ACTING)
        for _ in range(num_steps):
            drawn = sample_action(
                jax.random.fold_in(key, self.age), self._group, self.num_worlds, jnp.uint32(self.first_world), None
            )
            self._step(drawn if drawn.ndim == 2 else drawn[None])

    def observe(self, store: Store, slot: int) -> None:
        rows = {"observation": np.asarray(self._seen), "done": self.clock.arrays["step"] == 0}
        for buffer in store.named_buffers().values():
            if buffer.place.kind.name in rows:
                buffer.put(slot, rows[buffer.place.kind.name])

    # Exchanging state.

    @property
    def clock_names(self) -> Sequence[str]:
        return list(self.clock.arrays)

    def clock_arrays(self, *names: str) -> dict[str, np.ndarray]:
        return self.clock.some(names)

    def set_clock(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.clock.set(arrays)

    def state_arrays(self) -> list[np.ndarray]:
        """Of each leaf of the state, `[..., worlds]`; the observation is the last."""
        return [*(np.moveaxis(np.array(leaf), 0, -1) for leaf in jax.tree.leaves(self._state)), np.array(self._seen)]

    def set_state_arrays(self, arrays: Sequence[np.ndarray]) -> None:
        old = jax.tree.leaves(self._state)
        *states, seen = arrays
        leaves = [jnp.asarray(np.moveaxis(new, -1, 0), o.dtype) for new, o in zip(states, old, strict=True)]
        self._state, self._seen = jax.tree.unflatten(self._form, leaves), jnp.asarray(seen, jnp.float32)


class JaxWorld(ForeignWorld):
    """One world as a JAX program: write `begin` and `proceed`, set `groups` (one, of one agent) and `max_steps`.

    Both are pure functions of a single world, which JAX maps over many and compiles. They leave time limits and resets
    to the system.
    """

    written_for = "a JAX program"

    engine = JaxWorlds

    @abstractmethod
    def begin(self, key: jax.Array) -> tuple[Any, jax.Array]:
        """The first state of an episode, any pytree of arrays, and its observation, `[features]`."""

    @abstractmethod
    def proceed(self, state: Any, action: Any, key: jax.Array) -> tuple[Any, jax.Array, jax.Array, jax.Array]:
        """The next state, its observation, the reward, and whether the episode has terminated.

        An action is a whole number (`Discrete`), or `[components]`.
        """


def _as_given(space: Any, action: jax.Array) -> jax.Array:
    """`[components, worlds]` as every world gets its own: a number, or `[components]` within the bounds."""
    if isinstance(space, Discrete):
        return action[0]
    if isinstance(space, Box):
        action = jnp.clip(action, space.lows[:, None], space.highs[:, None])
    return action.T


def _lanes_last(seen: jax.Array) -> jax.Array:
    """`[worlds, ...]` to `[features, worlds]`."""
    return seen.reshape(seen.shape[0], -1).astype(jnp.float32).T


def _along(flag: jax.Array, array: jax.Array) -> jax.Array:
    return flag.reshape(flag.shape + (1,) * (array.ndim - 1))


def _finite(state: Any, num_worlds: int) -> jax.Array:
    """Which worlds have only finite numbers, `[worlds]`."""
    sound = jnp.ones(num_worlds, bool)
    for leaf in jax.tree.leaves(state):
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            sound &= ~jnp.isnan(leaf).reshape(num_worlds, -1).any(axis=1)
    return sound
