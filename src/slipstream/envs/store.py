"""The data store of a rollout: what the worlds write and the learner reads, in one place on the device.

A buffer is `[slots, components, lanes]` (or `[slots, lanes]`). Slot t holds what step t led to: its reward and flags,
and the observation the next action is chosen from. Kernels write a slot in place; JAX sees the whole buffer through
DLPack at the same address, so nothing is ever copied or handed over.

Whoever writes a slot must have waited for the JAX computations that still read it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import drjit as dr
import jax
import numpy as np

from slipstream.arrays import ArrayTypes, shared_zeros, to_jax, to_numpy
from slipstream.capacity import require_memory
from slipstream.envs.env import Group


@dataclass(frozen=True)
class GroupLayout:
    """Which buffers a group needs."""

    group: Group
    has_active: bool
    mask_size: int


@dataclass(frozen=True)
class Kind:
    """A kind of buffer."""

    name: str
    real: bool
    """Real numbers; else flags."""
    of_agents: bool = True
    """There is one for each group, with a lane for each agent; else a single one, with a lane for each world."""
    chosen_from: bool = False
    """Whether it is part of what an action is chosen from."""
    components: Callable[[GroupLayout], tuple[int, ...] | None] = lambda layout: ()
    """The axes between slots and lanes; None: the group has no such buffer."""


KINDS = (
    Kind("observation", real=True, chosen_from=True, components=lambda g: (g.group.observation.size,)),
    Kind("final_observation", real=True, components=lambda g: (g.group.observation.size,)),
    Kind("reward", real=True),
    Kind("terminated", real=False),
    Kind("active", real=False, chosen_from=True, components=lambda g: () if g.has_active else None),
    Kind("action_mask", real=False, chosen_from=True, components=lambda g: (g.mask_size,) if g.mask_size else None),
    Kind("truncated", real=False, of_agents=False),
    Kind("done", real=False, of_agents=False, chosen_from=True),
)
"""All that a step writes. See `Store` for what they mean."""


@dataclass(frozen=True)
class Place:
    """What a buffer is for, and the shape of one of its slots."""

    kind: Kind
    group: str | None
    shape: tuple[int, ...]

    @property
    def name(self) -> str:
        """Such as `observation/wolf` or `truncated`."""
        return self.kind.name if self.group is None else f"{self.kind.name}/{self.group}"

    @property
    def lanes(self) -> int:
        return self.shape[-1]

    @property
    def size(self) -> int:
        """How many numbers a slot holds."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """How much memory a slot takes."""
        return self.size * (4 if self.kind.real else 1)

    def of(self, outcome: Any) -> list[Any]:
        """What belongs here, one array for each component, of an object whose attributes are named like `KINDS`."""
        value = getattr(outcome, self.kind.name)
        value = value if self.group is None else value[self.group]
        return [value] if len(self.shape) == 1 else list(value)


def places(layouts: Sequence[GroupLayout], num_worlds: int) -> Iterator[Place]:
    """The buffers of a store."""
    for kind in KINDS:
        if not kind.of_agents:
            yield Place(kind, None, (num_worlds,))
            continue
        for layout in layouts:
            components = kind.components(layout)
            if components is not None:
                yield Place(kind, layout.group.name, (*components, num_worlds * layout.group.size))


class Buffer(ABC):
    """The memory of all slots of a place, and JAX's view of it."""

    array: Any
    """What the engine writes to: a flat Dr.Jit array, or one of NumPy."""

    def __init__(self, place: Place, slots: int):
        self.place = place
        self.shape = (slots, *place.shape)

    @abstractmethod
    def _seen_by_jax(self, shape: tuple[int, ...]) -> jax.Array:
        """The same memory, in this shape."""

    @cached_property
    def view(self) -> jax.Array:
        """`[slots, ...]`"""
        return self._seen_by_jax(self.shape)

    @property
    def only_slot(self) -> jax.Array:
        """The view without its slot axis, of a buffer with a single slot."""
        return self._seen_by_jax(self.place.shape)

    @abstractmethod
    def on_host(self) -> np.ndarray:
        """A copy for NumPy, `[slots, ...]`: quicker than by way of JAX, where there is little to copy."""

    @abstractmethod
    def put(self, slot: int, values: np.ndarray) -> None:
        """Write a slot from the host."""

    @abstractmethod
    def copy_slot(self, source: int, target: int) -> None:
        """Copy a slot to another."""


class DeviceBuffer(Buffer):
    """A Dr.Jit array that kernels scatter into."""

    def __init__(self, place: Place, slots: int, types: ArrayTypes):
        super().__init__(place, slots)
        self.array = shared_zeros(types.Float if place.kind.real else types.Bool, math.prod(self.shape))
        self._index_type = types.UInt

    def _seen_by_jax(self, shape: tuple[int, ...]) -> jax.Array:
        return to_jax(self.array, shape)

    def on_host(self) -> np.ndarray:
        return to_numpy(self.array).reshape(self.shape)

    def _lanes_of(self, slot: int) -> Any:
        # The slot is opaque, so that one kernel serves all of them.
        size = self.place.size
        return dr.arange(self._index_type, size) + dr.opaque(self._index_type, slot * size)

    def _write(self, slot: int, values: Any) -> None:
        dr.scatter(self.array, values, self._lanes_of(slot), mode=dr.ReduceMode.Permute)
        dr.eval(self.array)
        dr.sync_thread()

    def put(self, slot: int, values: np.ndarray) -> None:
        self._write(slot, type(self.array)(np.ascontiguousarray(values).reshape(-1)))

    def copy_slot(self, source: int, target: int) -> None:
        values = dr.gather(type(self.array), self.array, self._lanes_of(source))
        dr.eval(values)
        self._write(target, values)


class HostBuffer(Buffer):
    """A NumPy array, for worlds that run in plain Python."""

    def __init__(self, place: Place, slots: int):
        super().__init__(place, slots)
        self.array = _aligned_zeros(self.shape, np.float32 if place.kind.real else bool)

    def _seen_by_jax(self, shape: tuple[int, ...]) -> jax.Array:
        return jax.dlpack.from_dlpack(self.array.reshape(shape))

    def on_host(self) -> np.ndarray:
        return self.array.copy()

    def put(self, slot: int, values: np.ndarray) -> None:
        self.array[slot] = values

    def copy_slot(self, source: int, target: int) -> None:
        self.array[target] = self.array[source]


def _aligned_zeros(shape: tuple[int, ...], dtype: Any, boundary: int = 64) -> np.ndarray:
    """Memory that JAX takes as it is: what begins elsewhere than at a multiple of 64 bytes, it would copy."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + boundary, np.uint8)
    start = -memory.ctypes.data % boundary
    return memory[start : start + size].view(dtype).reshape(shape)


class Store:
    """The buffers of `slots` steps of `num_worlds` worlds, by name:

    * `observation/GROUP`, `[slots, features, lanes]`,
    * `final_observation/GROUP`, the same, of the last state of an episode. Only lanes whose episode ended in that step
      are written, all others are left as they were,
    * `reward/GROUP`, `[slots, lanes]`,
    * `terminated/GROUP`, `[slots, lanes]`: the agent's episode, by its world's or because it left the game,
    * `active/GROUP` (of the worlds that say who is active), `[slots, lanes]`,
    * `action_mask/GROUP` (of the groups that mask actions), `[slots, choices, lanes]`,
    * `truncated`, `[slots, worlds]`,
    * `done`, `[slots, worlds]`: whose episode ended in that step, terminated or truncated, so that another begins here.

    Attributes:
        kept: what acting leaves behind for learning, by policy: pytrees of JAX arrays `[slots, ...]`. Whoever acts puts
            it here, beside the rest of the rollout; the worlds neither read nor write it.
    """

    def __init__(self, types: ArrayTypes, layouts: Sequence[GroupLayout], num_worlds: int, slots: int):
        for place in places(layouts, num_worlds):
            if slots * place.size >= 2**32:
                raise ValueError(
                    f"{slots} slots of {place.name} of {num_worlds:,} worlds are more than 2^32 numbers: "
                    "take fewer worlds or shorter rollouts."
                )
        what = f"A store of {slots} slots for {num_worlds:,} worlds"
        sizes = (slots * place.bytes for place in places(layouts, num_worlds))
        require_memory(sizes, what, "take fewer worlds or shorter rollouts", types.backend)
        self.slots, self.num_worlds = slots, num_worlds
        self._buffers: dict[str, Buffer] = {
            place.name: DeviceBuffer(place, slots, types) if types.compiled else HostBuffer(place, slots)
            for place in places(layouts, num_worlds)
        }
        self.kept: dict[str, Any] = {}

    @staticmethod
    def bytes_needed(layouts: Sequence[GroupLayout], num_worlds: int, slots: int) -> int:
        """How much memory a store takes (what acting keeps in it beside the rest is not counted)."""
        return slots * sum(place.bytes for place in places(layouts, num_worlds))

    def named_buffers(self) -> dict[str, Buffer]:
        return self._buffers

    def _choice_buffers(self) -> dict[str, Buffer]:
        """What an action is chosen from: observations, who is active, masks."""
        return {name: buffer for name, buffer in self._buffers.items() if buffer.place.kind.chosen_from}

    @cached_property
    def views(self) -> dict[str, Any]:
        """What JAX sees of the store: the same memory.

        By kind and group (`views["observation"]["wolf"]`), or by kind alone (`views["done"]`). Kinds that no group has
        are empty. Read them with JAX: NumPy would keep what it has once read of a device's memory.
        """
        views: dict[str, Any] = {kind.name: {} for kind in KINDS}
        for buffer in self._buffers.values():
            kind, group = buffer.place.kind.name, buffer.place.group
            if group is None:
                views[kind] = buffer.view
            else:
                views[kind][group] = buffer.view
        return views

    def copy_slot(self, source: int, target: int) -> None:
        """Copy what an action is chosen from (observations, who is active, masks) from one slot to another."""
        for buffer in self._choice_buffers().values():
            buffer.copy_slot(source, target)

    def save_slot(self, slot: int) -> dict[str, np.ndarray]:
        """What an action is chosen from, as named arrays."""
        return {name: np.asarray(buffer.view[slot]) for name, buffer in self._choice_buffers().items()}

    def restore_slot(self, slot: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Put back what `save_slot` returned, in the same slot or another."""
        buffers = self._choice_buffers()
        check_fit(arrays, {name: buffer.place.shape for name, buffer in buffers.items()}, "slot")
        for name, buffer in buffers.items():
            buffer.put(slot, arrays[name])


def check_fit(arrays: Mapping[str, np.ndarray], expected: Mapping[str, tuple[int, ...]], what: str) -> None:
    """Refuse arrays that have not the expected names and shapes, and say which."""
    for name, shape in expected.items():
        if name not in arrays:
            raise ValueError(f"The saved {what} has no array {name!r}: it is of another world.")
        if arrays[name].shape != shape:
            raise ValueError(
                f"Array {name!r} of the saved {what} has shape {list(arrays[name].shape)}, expected {list(shape)}."
            )
    if unknown := [name for name in arrays if name not in expected]:
        raise ValueError(f"The saved {what} has an array {unknown[0]!r} that this world has not.")
