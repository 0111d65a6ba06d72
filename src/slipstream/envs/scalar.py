"""One world after the other, in plain Python: the reference that compiled worlds are compared with.

A quantity of a world is a Python number, so a breakpoint in `Env.step` shows real values. The rules, the time limit
and the reset logic are the very same code that is compiled elsewhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slipstream.arrays import ArrayTypes
from slipstream.envs.actions import clip_to
from slipstream.envs.compiled import CLOCK_GROUPS, CLOCK_SCALARS
from slipstream.envs.env import Env, state_leaves, with_leaves
from slipstream.envs.transition import Clock, Here, Outcome, action_mask, active_agents, advance, begin, observe
from slipstream.spaces import Box, Discrete


class ScalarWorlds:
    """The scalar half of `Worlds`: a list of states, stepped in a loop."""

    def __init__(self, env: Env, types: ArrayTypes, num_worlds: int, seed: int):
        self.env, self.types, self.num_worlds, self.seed = env, types, num_worlds, seed
        self.age = 0
        env.tables(types)
        names = [g.name for g in env.groups]
        self.clocks = [
            Clock(
                0,
                0,
                dict.fromkeys(names, 0.0),
                0,
                0,
                dict.fromkeys(names, 0.0),
                dict.fromkeys(names, 0.0),
                {},
                0,
            )
            for _ in range(num_worlds)
        ]
        self.reset()
        reports = dict.fromkeys(env.report(self.states[0]), 0.0)
        for clock in self.clocks:
            clock.report_sum = dict(reports)
        self.fields = [(field, group) for field, group, _ in state_leaves(self.states[0])]

    def _here(self, world: int) -> Here:
        return Here(self.env, self.types, self.seed, world)

    def reset(self) -> None:
        for clock in self.clocks:
            clock.step, clock.episode = 0, clock.episode + 1
            clock.running_return = dict.fromkeys(clock.running_return, 0.0)
        self.states = [begin(self._here(i), clock.episode) for i, clock in enumerate(self.clocks)]

    def step(self, actions: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Step every world; the outcome is named and shaped like one slot of a `Store`."""
        rows: dict[str, list[np.ndarray]] = {}
        for i in range(self.num_worlds):
            for name, value in self.step_world(i, actions).items():
                rows.setdefault(name, []).append(value)
        self.age += 1
        return {name: np.concatenate(parts, axis=-1) for name, parts in rows.items()}

    def step_world(self, world: int, actions: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Step one world alone (given the actions of all); its lanes of what `step` returns."""
        here, action = self._here(world), self._action(world, actions)
        outcome = advance(here, self.age, self.states[world], self.clocks[world], action)
        self.states[world], self.clocks[world] = outcome.state, outcome.clock()
        return self._row(outcome)

    def _action(self, world: int, actions: dict[str, np.ndarray]) -> Any:
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

    def _row(self, outcome: Outcome) -> dict[str, np.ndarray]:
        row: dict[str, np.ndarray] = {"truncated": np.array([outcome.truncated])}
        for g in self.env.groups:
            row[f"observation/{g.name}"] = self._features(outcome.observation[g.name], g.size)
            row[f"final_observation/{g.name}"] = self._features(outcome.final_observation[g.name], g.size)
            row[f"reward/{g.name}"] = self._features([outcome.reward[g.name]], g.size)[0]
            has_active = outcome.active is not None and g.name in outcome.active
            size = g.size if has_active else 1
            row[f"terminated/{g.name}"] = self._features([outcome.terminated[g.name]], size)[0] != 0
        return row | self._choice_row(outcome.active, outcome.action_mask)

    def _choice_row(self, active: dict | None, masks: dict | None) -> dict[str, np.ndarray]:
        row = {}
        for g in self.env.groups:
            if active is not None and g.name in active:
                row[f"active/{g.name}"] = self._features([active[g.name]], g.size)[0] != 0
            if masks is not None and g.name in masks:
                row[f"action_mask/{g.name}"] = self._features(masks[g.name], g.size) != 0
        return row

    def _features(self, values: list[Any], size: int) -> np.ndarray:
        rows = [np.broadcast_to(np.asarray(v, np.float32).reshape(-1), (size,)) for v in values]
        return np.stack(rows)

    def observe(self) -> dict[str, np.ndarray]:
        """What an action is chosen from, named and shaped like one slot of a `Store`."""
        rows: dict[str, list[np.ndarray]] = {}
        for state in self.states:
            features = observe(self.env, state)
            row = {f"observation/{g.name}": self._features(features[g.name], g.size) for g in self.env.groups}
            row |= self._choice_row(active_agents(self.env, state), action_mask(self.env, state))
            for name, value in row.items():
                rows.setdefault(name, []).append(value)
        return {name: np.concatenate(parts, axis=-1) for name, parts in rows.items()}

    def clock_arrays(self, *names: str) -> dict[str, np.ndarray]:
        """The named counters and sums (by default all), per world."""
        arrays = {n: np.array([getattr(c, n) for c in self.clocks]) for n in CLOCK_SCALARS}
        for kind in CLOCK_GROUPS:
            for name in getattr(self.clocks[0], kind):
                arrays[f"{kind}/{name}"] = np.array([getattr(c, kind)[name] for c in self.clocks])
        return {name: arrays[name] for name in names or arrays}

    def set_clock(self, arrays: dict[str, np.ndarray]) -> None:
        for name, values in arrays.items():
            kind, _, key = name.partition("/")
            for clock, value in zip(self.clocks, values.tolist()):
                if key:
                    getattr(clock, kind)[key] = value
                else:
                    setattr(clock, kind, value)

    def state_arrays(self) -> list[np.ndarray]:
        columns = zip(*([np.atleast_1d(np.asarray(leaf)) for _, _, leaf in state_leaves(s)] for s in self.states))
        return [np.concatenate(column) for column in columns]

    def set_state_arrays(self, arrays: list[np.ndarray]) -> None:
        for i, state in enumerate(self.states):
            leaves = []
            for array, (_, group, leaf) in zip(arrays, state_leaves(state)):
                if group is None:
                    leaves.append(type(leaf)(array[i].item()))
                else:
                    size = self.env.group(group).size
                    leaves.append(type(leaf)(array[i * size : (i + 1) * size].tolist()))
            self.states[i] = with_leaves(state, iter(leaves))
