"""All worlds at once: the rules traced into kernels that run over every lane.

The trace is recorded once (`dr.freeze`). Everything that changes between steps (state, actions, seed, counters, the
slot to write) is an argument that Dr.Jit cannot mistake for a constant, and every result leaves in a form that can be
the next call's argument: evaluated, of full width, no array twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import drjit as dr
import jax
import numpy as np

from slipstream.arrays import ArrayTypes, from_jax, no_garbage_collection, to_numpy
from slipstream.capacity import require_memory
from slipstream.envs.actions import clip_to, random_action
from slipstream.envs.clock import Clock, clock_names, clock_type
from slipstream.envs.engine import group_layouts
from slipstream.envs.env import Env, Group, state_leaves, with_leaves, with_step
from slipstream.envs.rules import RulesError, numpy_in_reach, rehearse, tracing
from slipstream.envs.store import Place, Store, places
from slipstream.envs.transition import Here, Outcome, action_mask, advance, begin, choice, reports
from slipstream.random import ACTION
from slipstream.spaces import Box, Discrete


class CompiledWorlds:
    """The compiled half of `Worlds`: holds the arrays of all worlds and steps them (see `Engine`)."""

    def __init__(self, env: Env, types: ArrayTypes, num_worlds: int, seed: int, first_world: int):
        self.env, self.types, self.num_worlds, self.first_world = env, types, num_worlds, first_world
        self._recorded: dict[tuple, Any] = {}
        self._tables = env.tables(types)
        self._learn_form()
        self._rehearsed = not numpy_in_reach(env)
        what = f"{num_worlds:,} worlds of {type(env).__name__}"
        require_memory(self._array_sizes(), what, "take fewer worlds", types.backend)
        self.restart(seed)

    # Beginning and bookkeeping.

    def _lanes(self, group: str | None) -> int:
        return self.num_worlds if group is None else self.num_worlds * self.env.group(group).size

    def _learn_form(self) -> None:
        """What a state consists of and what its groups need, by the example of a single world."""
        here = Here(self.env, self.types, self.types.UInt(0), self.types.UInt(0), 1)
        with tracing(self.env):
            state = begin(here, self.types.Int(0))
            self._reports = list(reports(self.env, state))
            self.layouts = group_layouts(self.env, state)
        self._template = with_step(state, None)
        self.leaves = [leaf for leaf, _ in state_leaves(state)]
        self._leaf_types = [type(array) for _, array in state_leaves(state)]
        self._clock_types = {
            name: clock_type(self.types, number)
            for name, number in clock_names([g.name for g in self.env.groups], self._reports).items()
        }

    def _array_sizes(self) -> list[int]:
        """How many bytes the arrays have that there are while the worlds step: of the state and the clock before and
        after it, of actions, and of what it yields. What the rules evaluate on their way is not known."""
        state = [dr.itemsize_v(t) * self._lanes(leaf.group) for t, leaf in zip(self._leaf_types, self.leaves)]
        clock = [dr.itemsize_v(t) * self.num_worlds for t in self._clock_types.values()]
        actions = [4 * g.action.size * self._lanes(g.name) for g in self.env.groups]
        return 2 * (state + clock) + actions + [place.bytes for place in places(self.layouts, self.num_worlds)]

    def _here(self, seed: Any, first_world: Any) -> Here:
        return Here(self.env, self.types, seed, first_world, self.num_worlds)

    def _opaque_zeros(self, array_type: type, lanes: int | None = None) -> Any:
        array = dr.zeros(array_type, self.num_worlds if lanes is None else lanes)
        dr.make_opaque(array)
        return array

    def restart(self, seed: int) -> None:
        """Begin the whole history anew. What was recorded stays: nothing that changes here is part of a trace."""
        self.seed, self.age = seed, 0
        self.clock = {name: self._opaque_zeros(array_type) for name, array_type in self._clock_types.items()}
        self.reset()

    def reset(self) -> None:
        """Begin a new episode in every world."""
        self.clock["episode"] += 1
        self.clock["step"] = self._opaque_zeros(self.types.Int)
        for g in self.env.groups:
            self.clock[f"running_return/{g.name}"] = self._opaque_zeros(self.types.Float)
        here = self._here(*(dr.opaque(self.types.UInt, v) for v in (self.seed, self.first_world)))
        with tracing(self.env):
            state = begin(here, self.clock["episode"])
        self._arrays = self._settle([array for _, array in state_leaves(state)], self._opaque_zeros(self.types.Int, 1))
        dr.eval(self._arrays, self.clock)

    def _state(self, arrays: list[Any], step: Any) -> Any:
        return with_step(with_leaves(self._template, iter(arrays)), step)

    def _settle(self, arrays: list[Any], zero: Any, seen: set[int] | None = None) -> list[Any]:
        """Arrays of the state, of full width and of their field's type, each with memory of its own."""
        seen = set() if seen is None else seen
        settled = []
        for array, array_type, leaf in zip(arrays, self._leaf_types, self.leaves):
            if dr.is_jit_v(array) and type(array) is not array_type:
                raise RulesError(
                    f"State field {leaf.field!r} began as {array_type.__name__} and became {type(array).__name__}."
                )
            what, lanes = f"State field {leaf.field!r}", self._lanes(leaf.group)
            settled.append(self._own(self._widen(array_type(array), lanes, zero, what), zero, seen))
        return settled

    def _own(self, array: Any, zero: Any, seen: set[int]) -> Any:
        """The array, or another one of the same values if it was seen before: one in two places is recorded anew."""
        array = _distinct(array, zero) if array.index in seen else array
        seen.add(array.index)
        return array

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

    def step(self, store: Store, slot: int, actions: Mapping[str, jax.Array], full_final: bool) -> None:
        """Step all worlds and write the outcome into a slot of the store."""
        buffers = store.named_buffers().values()
        places = [buffer.place for buffer in buffers]
        given = [self._as_drjit(g, actions[g.name]) for g in self.env.groups]

        def write(outcome: Outcome, arrays: list[Any], slot: Any, zero: Any) -> list[Any]:
            for place, array in zip(places, arrays):
                if place.kind.name == "final_observation" and not full_final:
                    self._put_where_done(place, outcome, array, slot)
                else:
                    self._put(place, array, place.of(outcome), slot)
            return []

        self._run(("store", full_final, store.slots), given, [b.array for b in buffers], slot, write)
        dr.sync_thread()

    def step_random(self, num_steps: int) -> None:
        """Take steps with actions drawn inside the kernel; what a step yields is computed and let go."""

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

        for _ in range(num_steps):
            self._run(("random",), None, [], 0, collect)
        dr.sync_thread()

    def _run(self, key: tuple, given: list | None, arrays: list[Any], slot: int, deliver: Callable) -> None:
        """Advance all worlds by a step that is recorded the first time it is called in this way."""
        if key not in self._recorded:
            self._recorded[key] = self._record(deliver)
        numbers = [dr.opaque(self.types.UInt, v) for v in (self.seed, self.first_world, self.age & 0xFFFFFFFF, slot)]
        if not self._rehearsed:
            rehearse(self.env, lambda: self._trace(self._arrays, self.clock, given, numbers).clock())
            self._rehearsed = True
        zero = dr.opaque(self.types.Int, 0)
        arguments = (self._arrays, self.clock, given, arrays, numbers, zero)
        try:
            with no_garbage_collection():
                self._arrays, self.clock, _ = self._recorded[key](*arguments)
        except RuntimeError as error:
            cause = error.__cause__ or error  # what was raised inside says more than that a trace failed
            if "created before recording was started" in str(cause):
                raise RulesError(
                    f"The rules of {type(self.env).__name__} use an array that is no part of the state: "
                    "return it from `Env.tables`, or make it plain numbers."
                ) from cause
            raise cause from cause.__cause__
        self.age += 1

    def _trace(self, arrays: list[Any], clock: dict[str, Any], given: list | None, numbers: list[Any]) -> Outcome:
        """What a step leads to, not yet computed."""
        seed, first_world, age, _ = numbers
        here = self._here(seed, first_world)
        state = self._state(arrays, clock["step"])
        action = self._draw(here, age, state) if given is None else self._split(given)
        return advance(here, age, state, Clock.from_flat(clock), action)

    def _record(self, deliver: Callable) -> Callable:
        def step(before, clock, given, arrays, numbers, zero):
            with tracing(self.env):
                outcome = self._trace(before, clock, given, numbers)
            results = deliver(outcome, arrays, numbers[-1], zero)
            seen: set[int] = set()
            now = self._settle([array for _, array in state_leaves(outcome.state)], zero, seen)
            # The agents' results are scheduled before the sums over them are asked for: one kernel does both.
            dr.schedule(now, arrays, results)
            ticked = outcome.clock().flat()
            clock = {
                name: self._own(self._widen(type(old)(ticked[name]), self.num_worlds, zero, name), zero, seen)
                for name, old in clock.items()
            }
            dr.eval(now, clock, arrays, results)
            return now, clock, results

        return dr.freeze(step, warn_after=2, state_fn=lambda *_: self._tables)

    @property
    def recordings(self) -> int:
        """How often the step was traced and compiled: once for each way it is called."""
        return sum(frozen.n_recordings for frozen in self._recorded.values())

    def _put(self, place: Place, array: Any, values: list[Any], slot: Any) -> None:
        """Write the components of a place into a slot of its buffer."""
        first = dr.arange(self.types.UInt, place.lanes) + slot * place.size
        for k, value in enumerate(values):
            dr.scatter(array, type(array)(value), first + k * place.lanes, mode=dr.ReduceMode.Permute)

    def _put_where_done(self, place: Place, outcome: Outcome, array: Any, slot: Any) -> None:
        """Write final observations in a branch that packets without an ended episode jump over."""
        done = self.env.group(str(place.group)).spread(outcome.done)
        first = dr.arange(self.types.UInt, place.lanes) + slot * place.size
        values = [self.types.Float(v) for v in place.of(outcome)]

        def write(values, first):
            for k, value in enumerate(values):
                dr.scatter(array, value, first + k * place.lanes, mode=dr.ReduceMode.Permute)
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
        """Write what an action is chosen from now into a slot."""
        with tracing(self.env):
            now = choice(self.env, self._state(self._arrays, self.clock["step"]), self.clock["step"])
        number = dr.opaque(self.types.UInt, slot)
        for buffer in store.named_buffers().values():
            if buffer.place.kind.chosen_from:
                self._put(buffer.place, buffer.array, buffer.place.of(now), number)
                dr.eval(buffer.array)
        dr.sync_thread()

    @property
    def clock_names(self) -> list[str]:
        return list(self.clock)

    def clock_arrays(self, *names: str) -> dict[str, np.ndarray]:
        """The named counters and sums (by default all), per world."""
        dr.sync_thread()
        return {name: to_numpy(self.clock[name]) for name in names or self.clock}

    def set_clock(self, arrays: Mapping[str, np.ndarray]) -> None:
        for name, values in arrays.items():
            self.clock[name] = self._take(type(self.clock[name]), values)

    def state_arrays(self) -> list[np.ndarray]:
        dr.sync_thread()
        return [to_numpy(array) for array in self._arrays]

    def set_state_arrays(self, arrays: Sequence[np.ndarray]) -> None:
        self._arrays = [self._take(t, values) for t, values in zip(self._leaf_types, arrays)]

    def _take(self, array_type: type, values: np.ndarray) -> Any:
        """A Dr.Jit array with memory of its own (one wrapped around NumPy's is aligned otherwise)."""
        if issubclass(array_type, self.types.Bool):
            array = self.types.Int(np.ascontiguousarray(values, np.int32)) + dr.opaque(self.types.Int, 0) != 0
        else:
            dtype = np.dtype(dr.type_v(array_type).name.lower())
            array = array_type(np.ascontiguousarray(values).astype(dtype)) + dr.opaque(array_type, 0)
        dr.eval(array)
        return array


def _distinct(array: Any, zero: Any) -> Any:
    """The same values, in an array that Dr.Jit takes for another one (`zero` is 0, but only we know)."""
    if dr.is_mask_v(array):
        return array ^ (zero != 0)
    return array + type(array)(zero)
