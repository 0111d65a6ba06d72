"""All worlds at once: the rules traced into kernels that run over every lane.

The trace is recorded once (`dr.freeze`). Everything that changes between steps (state, actions, seed, counters, the
slot to write) is an argument that Dr.Jit cannot mistake for a constant, and every result leaves in a form that can be
the next call's argument: evaluated, of full width, no array twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import drjit as dr
import jax
import numpy as np

from slipstream.arrays import ArrayTypes, from_jax, no_garbage_collection, to_numpy
from slipstream.envs.actions import clip_to, random_action
from slipstream.envs.env import Env, Group, state_leaves, with_leaves
from slipstream.envs.store import Buffer, GroupLayout, Store
from slipstream.envs.transition import (
    Clock,
    Here,
    Outcome,
    RulesError,
    action_mask,
    active_agents,
    advance,
    begin,
    observe,
)
from slipstream.random import ACTION
from slipstream.spaces import Box, Discrete

CLOCK_SCALARS = ("step", "episode", "episodes", "length_sum", "broken")
CLOCK_GROUPS = ("running_return", "return_sum", "return_square_sum", "report_sum")


class CompiledWorlds:
    """The compiled half of `Worlds`: holds the arrays of all worlds and steps them."""

    def __init__(self, env: Env, types: ArrayTypes, num_worlds: int, seed: int):
        self.env, self.types, self.num_worlds = env, types, num_worlds
        self._template: Any = None
        self._leaf_types: list[type] = []
        self._recorded: dict[tuple, Any] = {}
        self.age = 0
        self.seed = seed
        self._tables = env.tables(types)
        self._reset_clock()
        self.reset()
        self.layouts = self._layouts()

    # Beginning and bookkeeping.

    def _lanes(self, group: str | None) -> int:
        return self.num_worlds if group is None else self.num_worlds * self.env.group(group).size

    def _here(self, seed: Any) -> Here:
        return Here(self.env, self.types, seed, dr.arange(self.types.UInt, self.num_worlds))

    def _reset_clock(self) -> None:
        self.clock = {name: self._opaque_zeros(self.types.Int) for name in CLOCK_SCALARS}
        groups = [g.name for g in self.env.groups]
        self._reports: list[str] = []
        for kind in CLOCK_GROUPS[:3]:
            self.clock |= {f"{kind}/{g}": self._opaque_zeros(self.types.Float) for g in groups}

    def _opaque_zeros(self, array_type: type, lanes: int | None = None) -> Any:
        array = dr.zeros(array_type, self.num_worlds if lanes is None else lanes)
        dr.make_opaque(array)
        return array

    def reset(self) -> None:
        """Begin a new episode in every world."""
        self.clock["episode"] += 1
        self.clock["step"] = self._opaque_zeros(self.types.Int)
        for g in self.env.groups:
            self.clock[f"running_return/{g.name}"] = self._opaque_zeros(self.types.Float)
        state = begin(self._here(self.types.UInt(self.seed)), self.clock["episode"])
        if self._template is None:
            self._remember_form(state)
        leaves = [leaf for _, _, leaf in state_leaves(state)]
        self.leaves = self._settle(leaves, self._opaque_zeros(self.types.Int, 1))
        dr.eval(self.leaves, self.clock)

    def _remember_form(self, state: Any) -> None:
        self._template = state
        self.fields = [(field, group) for field, group, _ in state_leaves(state)]
        self._leaf_types = [type(leaf) for _, _, leaf in state_leaves(state)]
        self._reports = list(self.env.report(state))
        self.clock |= {f"report_sum/{name}": self._opaque_zeros(self.types.Float) for name in self._reports}

    def _layouts(self) -> list[GroupLayout]:
        state = self._state(self.leaves)
        active = active_agents(self.env, state)
        masks = action_mask(self.env, state) or {}
        return [
            GroupLayout(g, active is not None and g.name in active, len(masks.get(g.name, ()))) for g in self.env.groups
        ]

    def _state(self, leaves: list[Any]) -> Any:
        return with_leaves(self._template, iter(leaves))

    def _settle(self, leaves: list[Any], zero: Any) -> list[Any]:
        """Arrays of full width and of their field's type, each with memory of its own."""
        settled, seen = [], set()
        for leaf, array_type, (field, group) in zip(leaves, self._leaf_types, self.fields):
            if dr.is_jit_v(leaf) and type(leaf) is not array_type:
                raise RulesError(
                    f"State field {field!r} began as {array_type.__name__} and became {type(leaf).__name__}."
                )
            array = self._widen(array_type(leaf), self._lanes(group), zero, f"State field {field!r}")
            if array.index in seen:
                array = _distinct(array, zero)
            seen.add(array.index)
            settled.append(array)
        return settled

    def _widen(self, array: Any, lanes: int, zero: Any, what: str) -> Any:
        if len(array) not in (1, lanes):
            raise RulesError(f"{what} has {len(array)} lanes where {lanes} were expected.")
        if len(array) != lanes:
            array = dr.repeat(array, lanes)
        if array.state in (dr.VarState.Literal, dr.VarState.Undefined):
            # A constant would be folded into the next trace.
            array = _distinct(array, zero)
        return array

    # Stepping.

    def step(self, store: Store, slot: int, actions: dict[str, jax.Array], full_final: bool) -> None:
        """Step all worlds and write the outcome into a slot of the store.

        Args:
            store: where to write.
            slot: which slot.
            actions: by group, `[components, lanes]`.
            full_final: write the final observation of every lane, not only of those whose episode ended.
        """
        buffers = store.named_buffers()
        names, arrays = list(buffers), [b.array for b in buffers.values()]
        sizes = {name: buffer.slot_size for name, buffer in buffers.items()}
        given = [self._as_drjit(g, actions[g.name]) for g in self.env.groups]

        def write(outcome: Outcome, arrays: list[Any], slot: Any, zero: Any) -> list[Any]:
            self._write(outcome, dict(zip(names, arrays)), sizes, slot, full_final)
            return []

        self._run(("store", full_final, store.slots), given, arrays, slot, write)

    def step_random(self) -> None:
        """Step all worlds with random actions drawn inside the kernel; what a step yields is computed and let go."""

        def collect(outcome: Outcome, arrays: list[Any], slot: Any, zero: Any) -> list[Any]:
            results, constants = [outcome.done, outcome.truncated], []
            for group in self.env.groups:
                for value in [*outcome.observation[group.name], outcome.reward[group.name]]:
                    value = self.types.Float(value)
                    kind = constants if value.state is dr.VarState.Literal else results
                    kind.append(self._widen(value, self._lanes(group.name), zero, "An output"))
            # Constants are written by a kernel of their own: past 8 streams, stores get much slower.
            dr.eval(constants)
            return results + constants

        self._run(("random",), None, [], 0, collect)

    def _run(self, key: tuple, given: list | None, arrays: list[Any], slot: int, deliver: Callable) -> None:
        """Advance all worlds by a step that is recorded the first time it is called in this way."""
        if key not in self._recorded:
            self._recorded[key] = self._record(deliver)
        numbers = [dr.opaque(self.types.UInt, v) for v in (self.seed, self.age & 0xFFFFFFFF, slot)]
        zero = dr.opaque(self.types.Int, 0)
        arguments = (self.leaves, self.clock, given, arrays, numbers, zero)
        try:
            with no_garbage_collection():
                self.leaves, self.clock, _ = self._recorded[key](*arguments)
        except RuntimeError as error:
            # What the rules raised while they were traced says more than that a trace failed.
            raise error.__cause__ or error from None
        self.age += 1

    def _record(self, deliver: Callable) -> Callable:
        def step(leaves, clock, given, arrays, numbers, zero):
            seed, age, slot = numbers
            here = self._here(seed)
            state = self._state(leaves)
            action = self._draw(here, age, state) if given is None else self._split(given)
            outcome = advance(here, age, state, self._as_clock(clock), action)
            results = deliver(outcome, arrays, slot, zero)
            now = self._settle([leaf for _, _, leaf in state_leaves(outcome.state)], zero)
            # The agents' results are scheduled before the sums over them are asked for: one kernel does both.
            dr.schedule(now, arrays, results)
            clock = {
                name: self._widen(type(clock[name])(value), self.num_worlds, zero, name)
                for name, value in self._from_clock(outcome.clock()).items()
            }
            dr.eval(now, clock, arrays, results)
            return now, clock, results

        return dr.freeze(step, warn_after=2, state_fn=lambda *_: self._tables)

    @property
    def recordings(self) -> int:
        """How often the step was traced and compiled: once for each way it is called."""
        return sum(frozen.n_recordings for frozen in self._recorded.values())

    def _write(self, outcome: Outcome, target: dict, slot_sizes: dict, slot: Any, full_final: bool) -> None:
        def put(name: str, values: list[Any], lanes: int) -> None:
            array = target[name]
            first = dr.arange(self.types.UInt, lanes) + slot * slot_sizes[name]
            for k, value in enumerate(values):
                dr.scatter(array, type(array)(value), first + k * lanes, mode=dr.ReduceMode.Permute)

        for layout in self.layouts:
            name, lanes = layout.group.name, self._lanes(layout.group.name)
            put(f"observation/{name}", outcome.observation[name], lanes)
            put(f"reward/{name}", [outcome.reward[name]], lanes)
            put(f"terminated/{name}", [outcome.terminated[name]], slot_sizes[f"terminated/{name}"])
            final = f"final_observation/{name}"
            if full_final:
                put(final, outcome.final_observation[name], lanes)
            else:
                self._put_where_done(layout.group, outcome, target[final], slot * slot_sizes[final], lanes)
            if layout.has_active:
                put(f"active/{name}", [(outcome.active or {})[name]], lanes)
            if layout.mask_size:
                put(f"action_mask/{name}", (outcome.action_mask or {})[name], lanes)
        put("truncated", [outcome.truncated], self.num_worlds)

    def _put_where_done(self, group: Group, outcome: Outcome, array: Any, start: Any, lanes: int) -> None:
        """Write final observations in a branch that packets without an ended episode jump over."""
        done = group.spread(outcome.done)
        first = dr.arange(self.types.UInt, lanes) + start
        values = [self.types.Float(v) for v in outcome.final_observation[group.name]]

        def write(values, first):
            for k, value in enumerate(values):
                dr.scatter(array, value, first + k * lanes, mode=dr.ReduceMode.Permute)
            return first

        dr.if_stmt((values, first), done, write, lambda values, first: first, label="final")

    # Actions.

    def _as_drjit(self, group: Group, action: jax.Array) -> Any:
        return from_jax(self.types.Float if isinstance(group.action, Box) else self.types.Int, action)

    def _split(self, given: list[Any]) -> Any:
        """The arguments of `Env.step` from flat `[components * lanes]` arrays."""
        action = {}
        for group, flat in zip(self.env.groups, given):
            lanes = self._lanes(group.name)
            lane = dr.arange(self.types.UInt, lanes)
            parts = [dr.gather(type(flat), flat, lane + k * lanes) for k in range(group.action.size)]
            if isinstance(group.action, Box):
                parts = clip_to(group.action, parts)
            action[group.name] = parts[0] if isinstance(group.action, Discrete) else tuple(parts)
        return self.env.bare(action)

    def _draw(self, here: Here, age: Any, state: Any) -> Any:
        masks = action_mask(self.env, state) or {}
        return self.env.bare(random_action(self.env, here.rng(age, ACTION), masks))

    # Observing and exchanging state.

    def observe(self, store: Store, slot: int) -> None:
        """Write the observation of the current state (and who is active, and masks) into a slot."""
        state = self._state(self.leaves)
        active = active_agents(self.env, state) or {}
        masks = action_mask(self.env, state) or {}
        for name, features in observe(self.env, state).items():
            self._put(store.observation[name], slot, features, self._lanes(name))
        for name, buffer in store.active.items():
            self._put(buffer, slot, [active[name]], self._lanes(name))
        for name, buffer in store.action_mask.items():
            self._put(buffer, slot, masks[name], self._lanes(name))
        dr.sync_thread()

    def _put(self, buffer: Buffer, slot: int, values: list[Any], lanes: int) -> None:
        lane = dr.arange(self.types.UInt, lanes) + slot * buffer.slot_size
        for k, value in enumerate(values):
            dr.scatter(buffer.array, type(buffer.array)(value), lane + k * lanes, mode=dr.ReduceMode.Permute)
        dr.eval(buffer.array)

    def _as_clock(self, clock: dict[str, Any]) -> Clock:
        grouped = {
            kind: {n.partition("/")[2]: v for n, v in clock.items() if n.startswith(kind + "/")}
            for kind in CLOCK_GROUPS
        }
        return Clock(**{name: clock[name] for name in CLOCK_SCALARS}, **grouped)

    def _from_clock(self, clock: Clock) -> dict[str, Any]:
        flat = {name: getattr(clock, name) for name in CLOCK_SCALARS}
        for kind in CLOCK_GROUPS:
            flat |= {f"{kind}/{n}": v for n, v in getattr(clock, kind).items()}
        return flat

    def clock_arrays(self, *names: str) -> dict[str, np.ndarray]:
        """The named counters and sums (by default all), per world."""
        dr.sync_thread()
        return {name: to_numpy(self.clock[name]) for name in names or self.clock}

    def set_clock(self, arrays: dict[str, np.ndarray]) -> None:
        for name, values in arrays.items():
            self.clock[name] = self._take(type(self.clock[name]), values)

    def state_arrays(self) -> list[np.ndarray]:
        dr.sync_thread()
        return [to_numpy(leaf) for leaf in self.leaves]

    def set_state_arrays(self, arrays: list[np.ndarray]) -> None:
        self.leaves = [self._take(t, values) for t, values in zip(self._leaf_types, arrays)]

    def _take(self, array_type: type, values: np.ndarray) -> Any:
        """A Dr.Jit array with memory of its own (one wrapped around NumPy's is aligned otherwise)."""
        if issubclass(array_type, self.types.Bool):
            array = self.types.Int(np.ascontiguousarray(values, np.int32)) + dr.opaque(self.types.Int, 0) != 0
        else:
            dtype = np.float32 if dr.is_float_v(array_type) else np.int32
            array = array_type(np.ascontiguousarray(values).astype(dtype)) + dr.opaque(array_type, 0)
        dr.eval(array)
        return array


def _distinct(array: Any, zero: Any) -> Any:
    """The same values, in an array that Dr.Jit takes for another one (`zero` is 0, but only we know)."""
    if dr.is_mask_v(array):
        return array ^ (zero != 0)
    return array + type(array)(zero)
