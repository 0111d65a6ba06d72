"""The data store of a rollout: what the worlds write and the learner reads, in one place on the device.

A buffer is `[slots, components, lanes]` (or `[slots, lanes]`). Slot t holds what step t led to: its reward and flags,
and the observation the next action is chosen from. Kernels write a slot in place; JAX sees the whole buffer through
DLPack at the same address, so nothing is ever copied or handed over.

Whoever writes a slot must have waited for the JAX computations that still read it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import drjit as dr
import jax
import numpy as np

from slipstream.arrays import ArrayTypes, shared_zeros, to_jax
from slipstream.envs.env import Group


@dataclass(frozen=True)
class GroupLayout:
    """Which buffers a group needs."""

    group: Group
    has_active: bool
    mask_size: int


class Buffer:
    """A Dr.Jit array that kernels scatter into, and JAX's view of the same memory."""

    def __init__(self, array_type: type, shape: tuple[int, ...]):
        self.shape = shape
        self.array = shared_zeros(array_type, math.prod(shape))

    @cached_property
    def view(self) -> jax.Array:
        return to_jax(self.array, self.shape)

    @property
    def only_slot(self) -> jax.Array:
        """The view without its slot axis, of a buffer with a single slot."""
        return to_jax(self.array, self.shape[1:])

    def put(self, slot: int, values: np.ndarray) -> None:
        """Write a slot from the host."""
        flat = np.ascontiguousarray(values).reshape(-1)
        unsigned = dr.uint32_array_t(type(self.array))
        index = dr.arange(unsigned, self.slot_size) + slot * self.slot_size
        dr.scatter(self.array, type(self.array)(flat), index, mode=dr.ReduceMode.Permute)
        dr.eval(self.array)
        dr.sync_thread()

    @property
    def slot_size(self) -> int:
        return len(self.array) // self.shape[0]


class Store:
    """The buffers of `slots` steps of `num_worlds` worlds.

    Attributes:
        observation: by group, `[slots, features, lanes]`.
        final_observation: the same, of the last state of an episode. Only lanes whose episode ended in that step
            are written, all others are left as they were.
        reward: by group, `[slots, lanes]`.
        terminated: by group, `[slots, lanes]`, or `[slots, worlds]` where agents cannot leave the game.
        truncated: `[slots, worlds]`.
        active: by group (of the worlds that say who is active), `[slots, lanes]`.
        action_mask: by group (of those that mask actions), `[slots, choices, lanes]`.
    """

    def __init__(self, types: ArrayTypes, layouts: list[GroupLayout], num_worlds: int, slots: int):
        self.slots, self.num_worlds = slots, num_worlds
        self._types = types

        def real(*shape: int) -> Buffer:
            return Buffer(types.Float, (slots, *shape))

        def flag(*shape: int) -> Buffer:
            return Buffer(types.Bool, (slots, *shape))

        self.observation, self.final_observation = {}, {}
        self.reward, self.terminated, self.active, self.action_mask = {}, {}, {}, {}
        for layout in layouts:
            group, name = layout.group, layout.group.name
            lanes = num_worlds * group.size
            self.observation[name] = real(group.observation.size, lanes)
            self.final_observation[name] = real(group.observation.size, lanes)
            self.reward[name] = real(lanes)
            self.terminated[name] = flag(lanes if layout.has_active else num_worlds)
            if layout.has_active:
                self.active[name] = flag(lanes)
            if layout.mask_size:
                self.action_mask[name] = flag(layout.mask_size, lanes)
        self.truncated = flag(num_worlds)

    def named_buffers(self) -> dict[str, Buffer]:
        kinds = ("observation", "final_observation", "reward", "terminated", "active", "action_mask")
        named = {f"{kind}/{g}": b for kind in kinds for g, b in getattr(self, kind).items()}
        return {**named, "truncated": self.truncated}

    def copy_slot(self, source: int, target: int) -> None:
        """Copy what an action is chosen from (observations, who is active, masks) from one slot to another."""
        unsigned = self._types.UInt
        buffers = [*self.observation.values(), *self.active.values(), *self.action_mask.values()]
        for buffer in buffers:
            within = dr.arange(unsigned, buffer.slot_size)
            values = dr.gather(type(buffer.array), buffer.array, within + source * buffer.slot_size)
            dr.eval(values)
            dr.scatter(buffer.array, values, within + target * buffer.slot_size, mode=dr.ReduceMode.Permute)
        dr.eval([b.array for b in buffers])
        dr.sync_thread()
