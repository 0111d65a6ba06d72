"""One world after the other, in plain Python: the reference that compiled worlds are compared with.

A quantity of a world is a Python number, so a breakpoint in `Env.step` shows real values. The rules, the time limit
and the reset logic are the very same code that is compiled elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from slipstream.arrays import ArrayTypes
from slipstream.envs.actions import clip_to, random_action
from slipstream.envs.clock import Clock, clock_names
from slipstream.envs.engine import group_layouts
from slipstream.envs.env import Env, state_leaves, with_leaves, with_step
from slipstream.envs.store import Place, Store, places
from slipstream.envs.transition import Here, action_mask, advance, begin, choice, reports
from slipstream.random import ACTION
from slipstream.spaces import Box, Discrete

Rows = dict[str, np.ndarray]
"""What one slot of a store holds, by the names of its buffers."""


class ScalarWorlds:
    """The scalar half of `Worlds`: a list of states, stepped in a loop (see `Engine`)."""

    recordings = 0

    def __init__(self, env: Env, types: ArrayTypes, num_worlds: int, seed: int, first_world: int):
        self.env, self.types, self.num_worlds, self.first_world = env, types, num_worlds, first_world
        self._reports: list[str] = []
        env.tables(types)
        self.restart(seed)
        first = self._state(0)
        self._reports = list(reports(env, first))
        self.clocks = [self._zero_clock(clock.flat()) for clock in self.clocks]
        self.leaves = [leaf for leaf, _ in state_leaves(first)]
        self.layouts = group_layouts(env, first)
        self._places = list(places(self.layouts, 1))

    def _here(self, world: int) -> Here:
        return Here(self.env, self.types, self.seed, self.first_world + world, 1)

    def _zero_clock(self, known: Mapping[str, Any]) -> Clock:
        """A clock with the given values, and 0 for all others."""
        names = clock_names([g.name for g in self.env.groups], self._reports)
        zeros = {name: 0 if number == "whole" else 0.0 for name, number in names.items()}
        return Clock.from_flat({**zeros, **known})

    def _state(self, world: int) -> Any:
        return with_step(self.states[world], self.clocks[world].step)

    def restart(self, seed: int) -> None:
        self.seed, self.age = seed, 0
        self.clocks = [self._zero_clock({}) for _ in range(self.num_worlds)]
        self.reset()

    def reset(self) -> None:
        for clock in self.clocks:
            clock.step, clock.episode = 0, clock.episode + 1
            clock.running_return = dict.fromkeys(clock.running_return, 0.0)
        self.states = [begin(self._here(i), clock.episode) for i, clock in enumerate(self.clocks)]

    # Stepping.

    def step(self, store: Store, slot: int, actions: Mapping[str, jax.Array], full_final: bool) -> None:
        given = {name: np.asarray(action) for name, action in actions.items()}
        rows = _side_by_side([self.step_world(i, given) for i in range(self.num_worlds)])
        self.age += 1
        for name, buffer in store.named_buffers().items():
            values = rows[name]
            if buffer.place.kind.name == "final_observation" and not full_final:
                ended = np.repeat(rows["done"], buffer.place.lanes // self.num_worlds)
                values = np.where(ended, values, buffer.array[slot])
            buffer.put(slot, values)

    def step_random(self, num_steps: int) -> None:
        for _ in range(num_steps):
            given = _side_by_side([self._draw(i) for i in range(self.num_worlds)])
            for world in range(self.num_worlds):
                self.step_world(world, given)
            self.age += 1

    def step_world(self, world: int, actions: Mapping[str, np.ndarray]) -> Rows:
        """Step one world alone (given the actions of all); its lanes of what a step yields."""
        here, action = self._here(world), self._action(world, actions)
        outcome = advance(here, self.age, self.states[world], self.clocks[world], action)
        self.states[world], self.clocks[world] = outcome.state, outcome.clock()
        return {place.name: _row(place, outcome) for place in self._places}

    def _action(self, world: int, actions: Mapping[str, np.ndarray]) -> Any:
        result = {}
        for group in self.env.groups:
            lanes = slice(world * group.size, (world + 1) * group.size)
            number = float if isinstance(group.action, Box) else int
            array = self.types.Float if number is float else self.types.Int
            single = group.size == 1 and len(self.env.groups) == 1
            rows = [row[lanes].tolist() for row in actions[group.name]]
            parts = [number(row[0]) if single else array(row) for row in rows]
            if isinstance(group.action, Box):
                parts = clip_to(group.action, parts)
            result[group.name] = parts[0] if isinstance(group.action, Discrete) else tuple(parts)
        return self.env.bare(result)

    def _draw(self, world: int) -> Rows:
        """Random actions of a world's agents, by group, `[components, agents]`."""
        masks = action_mask(self.env, self._state(world)) or {}
        drawn = random_action(self.env, self._here(world).rng(self.age, ACTION), masks)
        parts = {name: value if isinstance(value, tuple) else (value,) for name, value in drawn.items()}
        return {name: np.stack([np.asarray(part) for part in value]) for name, value in parts.items()}

    def observe(self, store: Store, slot: int) -> None:
        chosen_from = [place for place in self._places if place.kind.chosen_from]
        now = [choice(self.env, self._state(i), self.clocks[i].step) for i in range(self.num_worlds)]
        rows = _side_by_side([{place.name: _row(place, c) for place in chosen_from} for c in now])
        for name, values in rows.items():
            store.named_buffers()[name].put(slot, values)

    # Exchanging state.

    @property
    def clock_names(self) -> list[str]:
        return list(self.clocks[0].flat())

    def clock_arrays(self, *names: str) -> dict[str, np.ndarray]:
        """The named counters and sums (by default all), per world."""
        flat = [clock.flat() for clock in self.clocks]
        return {name: np.array([values[name] for values in flat]) for name in names or flat[0]}

    def set_clock(self, arrays: Mapping[str, np.ndarray]) -> None:
        columns = {name: values.tolist() for name, values in arrays.items()}
        for i, clock in enumerate(self.clocks):
            self.clocks[i] = Clock.from_flat(clock.flat() | {name: values[i] for name, values in columns.items()})

    def state_arrays(self) -> list[np.ndarray]:
        columns = zip(*([array for _, array in state_leaves(state)] for state in self.states))
        return [
            _column(list(column)) if leaf.group is None else np.concatenate([np.asarray(part) for part in column])
            for leaf, column in zip(self.leaves, columns)
        ]

    def set_state_arrays(self, arrays: Sequence[np.ndarray]) -> None:
        for i, state in enumerate(self.states):
            parts = []
            for values, (leaf, array) in zip(arrays, state_leaves(state)):
                if leaf.group is None:
                    parts.append(type(array)(values[i].item()))
                else:
                    size = self.env.group(leaf.group).size
                    parts.append(type(array)(values[i * size : (i + 1) * size].tolist()))
            self.states[i] = with_leaves(state, iter(parts))


def _column(numbers: list[Any]) -> np.ndarray:
    """Python's numbers in 64 bits each. (Left to itself, NumPy makes whole numbers beyond 2^63 real ones.)"""
    whole = all(isinstance(number, int) and not isinstance(number, bool) for number in numbers)
    return np.array(numbers, np.uint64 if whole and max(numbers) >= 2**63 else None)


def _row(place: Place, outcome: Any) -> np.ndarray:
    """What one world writes at a place (of a single world): `[components, agents]`, `[agents]` or `[1]`."""
    rows = [np.broadcast_to(np.asarray(v, np.float32).reshape(-1), (place.lanes,)) for v in place.of(outcome)]
    values = np.stack(rows).reshape(place.shape)
    return values if place.kind.real else values != 0


def _side_by_side(rows: Sequence[Rows]) -> Rows:
    return {name: np.concatenate([row[name] for row in rows], axis=-1) for name in rows[0]}
