"""The replays of policies that learn from them, on the device where the worlds are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from slipstream.algos.algo import SURPRISE, Replay, Rollout
from slipstream.capacity import require_memory
from slipstream.replay.layout import RowLayout
from slipstream.replay.ring import Ring, add, draw, surprised
from slipstream.replay.rows import pack
from slipstream.runs.array_file import Streamed
from slipstream.runs.directory import RunError
from slipstream.training.policies import ByPolicy, Dials, Policies, Views, committed

UPDATES_AT_ONCE = 64
"""Gradient steps of one call, at most: their batches are drawn together."""

FIRST_KEY = 1 << 31
"""The randomness of the first replay; those of the others count on."""

CHUNK = 1 << 25
"""Bytes of a replay that are written to a checkpoint at a time."""


class Replays:
    """Remembers rollouts, and lets policies learn from what is remembered."""

    def __init__(self, policies: Policies, views: Views, steps_per_iteration: int, backend: str):
        """Args:
        policies: of the run.
        views: what rollouts look like.
        steps_per_iteration: of all worlds together.
        backend: where the replays are.
        """
        self._policies = policies
        self._of: dict[str, _OneReplay] = {}
        for name in policies.learning:
            replay = policies.algorithms[name].experience
            if isinstance(replay, Replay):
                steps = steps_per_iteration * sum(g.size for g in policies.groups[name])
                self._of[name] = _OneReplay(name, policies, views, replay, steps)
        needed = [one.bytes for one in self._of.values()]
        require_memory(needed, "Remembering transitions", "take a smaller replay_size", backend)
        self._rings: dict[str, Ring] = {name: one.empty() for name, one in self._of.items()}

    @property
    def names(self) -> list[str]:
        """The policies that have one."""
        return list(self._of)

    def learn(
        self,
        states: ByPolicy,
        views: Views,
        kept: ByPolicy,
        elapsed: Mapping[str, float],
        dials: Dials,
        *,
        key: jax.Array,
    ) -> tuple[ByPolicy, dict[str, dict[str, jax.Array]]]:
        """Remember a rollout, then take the gradient steps that are due. The states that are given are used up."""
        updated, metrics = dict(states), {}
        for name, one in self._of.items():
            ring, told = one.remember(self._rings[name], views, kept[name])
            size = int(ring.size)
            if size >= max(one.replay.warm_up, 1):
                for _ in range(one.calls_due()):
                    updated[name], ring, learned = one.learn(
                        updated[name], ring, elapsed[name], dials.get(name, {}), key
                    )
                    told |= learned
            self._rings[name] = ring
            metrics[name] = told | {"replay": size}
        return updated, metrics

    def forget(self) -> None:
        """Begin with nothing remembered."""
        for name, one in self._of.items():
            self._rings[name] = one.empty()
            one.owed, one.calls = 0.0, 0

    # Checkpoints.

    def save(self) -> tuple[dict[str, np.ndarray | Streamed], dict[str, np.ndarray]]:
        """What is remembered, and the little that must be known to go on even without it."""
        large: dict[str, np.ndarray | Streamed] = {}
        for name, ring in self._rings.items():
            filled = int(ring.size)
            large |= {f"{name}/{n}": _streamed(a, filled) for n, a in _arrays(ring).items()}
        small = {f"calls/{name}": np.array([one.calls, one.owed], np.float64) for name, one in self._of.items()}
        return large, small

    def restore(self, large: Mapping[str, np.ndarray] | None, small: Mapping[str, np.ndarray], source: str) -> None:
        """Go on with what was saved; without the large part, with nothing remembered."""
        for name, one in self._of.items():
            if f"calls/{name}" not in small:
                raise RunError(f"{source} does not fit: it does not say how often {name!r} has learned.")
            calls, one.owed = small[f"calls/{name}"].tolist()
            one.calls = int(calls)
            if large is not None:
                self._rings[name] = _restored(self._rings[name], name, large, source)


class _OneReplay:
    """How one policy remembers and learns."""

    def __init__(self, name: str, policies: Policies, views: Views, replay: Replay, steps: int):
        self.replay = replay
        if steps > replay.capacity:
            raise ValueError(
                f"An iteration of policy {name!r} has {steps:,} steps, more than its replay of {replay.capacity:,} "
                "holds: take fewer worlds, shorter rollouts or a larger replay_size."
            )
        group = policies.groups[name][0]
        masked = any(g.name in views["action_mask"] for g in policies.groups[name])
        self.layout = RowLayout.of(group.observation, group.action, masked=masked)
        self._due = replay.updates_per_step * steps
        calls = max(1, -(-self._due // UPDATES_AT_ONCE))
        self.updates = max(1, round(self._due / calls))
        self.owed = 0.0
        """Gradient steps that are due and have not been taken."""
        self.calls = 0

        def remember(ring: Ring, views: Views, kept: Any) -> tuple[Ring, dict[str, jax.Array]]:
            rollout: Rollout = policies.rollout(name, views, kept)
            rows, usable = pack(self.layout, rollout, replay.n_step, replay.discount)
            in_game = rollout.weight > 0
            finite = jnp.isfinite(rollout.observation[:-1]).all(axis=1)
            return add(ring, rows, usable), {"observations_not_finite": (in_game & ~finite).sum()}

        def learn(
            state: Any, ring: Ring, elapsed: Any, dials: Mapping[str, Any], key: jax.Array, call: Any
        ) -> tuple[Any, Any, dict[str, jax.Array]]:
            # Far from the keys of acting, which come from the run's key and the iteration.
            mine = jax.random.fold_in(jax.random.fold_in(key, FIRST_KEY + policies.learning.index(name)), call)
            draw_key, update_key = jax.random.split(mine)
            batch, index = draw(ring, self.layout, replay, self.updates, key=draw_key)
            update = policies.with_dials(name, dials).update
            state, metrics = update(state, batch, elapsed=elapsed, key=update_key)
            return state, surprised(ring, replay, index, metrics.pop(SURPRISE)).priority, metrics

        self.remember = jax.jit(remember, donate_argnums=0)
        self._learn = jax.jit(learn, donate_argnums=0)

    @property
    def bytes(self) -> int:
        return self.replay.capacity * (self.layout.width + (self.replay.priority > 0)) * 4

    def empty(self) -> Ring:
        return committed(Ring.empty(self.layout, self.replay))

    def calls_due(self) -> int:
        """How many calls of `learn` this iteration is good for."""
        self.owed += self._due
        calls = int(self.owed // self.updates)
        self.owed -= calls * self.updates
        return calls

    def learn(
        self, state: Any, ring: Ring, elapsed: float, dials: Mapping[str, Any], key: jax.Array
    ) -> tuple[Any, Ring, dict[str, jax.Array]]:
        state, priority, metrics = self._learn(state, ring, elapsed, dials, key, self.calls)
        self.calls += 1
        return state, Ring(ring.rows, priority, ring.cursor, ring.size), metrics


def _arrays(ring: Ring) -> dict[str, jax.Array]:
    named = {"rows": ring.rows, "priority": ring.priority, "cursor": ring.cursor, "size": ring.size}
    return {name: array for name, array in named.items() if array is not None}


def _streamed(array: jax.Array, filled: int) -> np.ndarray | Streamed:
    """An array of a ring, as far as there is something in it."""
    if array.ndim == 0:
        return np.asarray(array)

    def chunks() -> Iterator[np.ndarray]:
        rows = max(1, CHUNK * len(array) // array.nbytes)
        for begin in range(0, filled, rows):
            yield np.asarray(array[begin : min(begin + rows, filled)])

    return Streamed((filled, *array.shape[1:]), array.dtype, chunks)


def _restored(ring: Ring, name: str, saved: Mapping[str, np.ndarray], source: str) -> Ring:
    made = {}
    for field, array in _arrays(ring).items():
        found = saved.get(f"{name}/{field}")
        if found is None or found.shape[1:] != array.shape[1:] or found.size > array.size:
            raise RunError(f"{source} does not fit: its replay of policy {name!r} is of another kind.")
        whole = np.zeros(array.shape, array.dtype)
        whole[(slice(len(found)),) if array.ndim else ()] = found
        made[field] = jnp.asarray(whole)
    return committed(Ring(made["rows"], made.get("priority"), made["cursor"], made["size"]))
