"""How the lanes of a run are shared out: between processes, and within each of them.

Worlds are dealt to shares of the same size, in order. Every share draws its actions and shuffles its samples by itself,
and takes the same part in every gradient. So what a run learns depends on the number of its shares, and not on how many
processes they are dealt to, but for the rounding of sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from slipstream.nets.average import Average, alone

PROCESSES, SHARES = "processes", "shares"
"""Axes: between processes, and within one."""


@dataclass(frozen=True)
class Shards:
    """The shares of a run, and which of them are here."""

    count: int = 1
    """In all processes."""
    local: int = 1
    """In this process."""
    first: int = 0
    """The number of the first one here."""
    mesh: Mesh | None = None
    """One device of every process; None: this process is alone."""

    @staticmethod
    def of_process(count: int, process: int = 0, processes: int = 1) -> Shards:
        """The shares of one of several processes that JAX has joined."""
        mesh = None if processes == 1 else jax.make_mesh((processes,), (PROCESSES,), devices=_one_of_each())
        local = count // processes
        return Shards(count, local, process * local, mesh)

    @property
    def average(self) -> Average:
        axes = (PROCESSES,) * (self.mesh is not None) + (SHARES,) * (self.local > 1)
        return Average(axes, self.count) if axes else alone

    # Inside of compiled functions.

    def acting_key(self, key: jax.Array, number: Any) -> jax.Array:
        """The randomness of a share in `each`."""
        return key if self.count == 1 else jax.random.fold_in(key, number)

    def learning_key(self, key: jax.Array, number: Any) -> jax.Array:
        """The randomness of a share in `together`: of a generator that draws the same for many keys at once."""
        if self.count == 1:
            return key
        words = jax.random.key_data(jax.random.fold_in(key, number))
        return jax.random.wrap_key_data(words[:2], impl="threefry2x32")

    def each(self, function: Callable[..., Any], *lanes: Any) -> Any:
        """What a function makes of each share that is here; lanes are the last axis of all that goes in and comes out.

        Args:
            function: `(number of the share, *its lanes)`.
            *lanes: of all shares here.
        """
        if self.local == 1:
            return function(self.first, *lanes)
        # One after the other: XLA's own generator draws something else for many keys at once.
        parts = [jax.tree.map(lambda a: a[i], self._split(lanes)) for i in range(self.local)]  # noqa: B023
        made = [function(self.first + i, *part) for i, part in enumerate(parts)]
        return jax.tree.map(lambda *shares: jnp.concatenate(shares, axis=-1), *made)

    def together(self, function: Callable[..., Any], shared: Any, lanes: Any) -> Any:
        """What all shares of all processes compute together: the same for everybody.

        Args:
            function: `(number of the share, shared, its lanes)`. What it returns has gone through `average`.
            shared: the same in all processes.
            lanes: of all shares of this process.
        """

        def here(process: Any, shared: Any, lanes: Any) -> Any:
            if self.local == 1:
                return function(process, shared, lanes)
            numbers = process * self.local + jnp.arange(self.local)
            each = jax.vmap(function, in_axes=(0, None, 0), out_axes=None, axis_name=SHARES)
            return each(numbers, shared, self._split(lanes))

        if self.mesh is None:
            return here(0, shared, lanes)
        # Without the check for what varies between processes, gradients stay those of the own lanes: we average.
        return jax.shard_map(
            lambda *given: here(jax.lax.axis_index(PROCESSES), *given),
            mesh=self.mesh,
            in_specs=(Spec(), jax.tree.map(_by_lanes, lanes)),
            out_specs=Spec(),
            check_vma=False,
        )(shared, lanes)

    def _split(self, lanes: Any) -> Any:
        """`[shares, ..., lanes of a share]`"""
        return jax.tree.map(lambda a: jnp.moveaxis(a.reshape(*a.shape[:-1], self.local, -1), -2, 0), lanes)

    # Around compiled functions: arrays of this process as parts of arrays of all, and back. Nothing is copied.

    def given_to_all(self, shared: Any) -> Any:
        """Arrays that are the same in all processes, for `together`."""
        return shared if self.mesh is None else jax.tree.map(lambda a: self._global(a, Spec(), a.shape), shared)

    def put_together(self, lanes: Any) -> Any:
        """Arrays of the lanes of this process, for `together`."""
        if self.mesh is None:
            return lanes
        processes = self.mesh.size
        return jax.tree.map(lambda a: self._global(a, _by_lanes(a), (*a.shape[:-1], a.shape[-1] * processes)), lanes)

    def _global(self, array: jax.Array, spec: Spec, shape: tuple[int, ...]) -> jax.Array:
        assert self.mesh is not None
        return jax.make_array_from_single_device_arrays(shape, NamedSharding(self.mesh, spec), [array])

    def own_copy(self, result: Any) -> Any:
        """What `together` returned, as arrays of this process."""
        return result if self.mesh is None else jax.tree.map(lambda a: a.addressable_data(0), result)


def _by_lanes(array: Any) -> Spec:
    return Spec(*[None] * (array.ndim - 1), PROCESSES)


def _one_of_each() -> list[Any]:
    """The first device of every process, in the order of the processes."""
    first: dict[int, Any] = {}
    for device in jax.devices():
        first.setdefault(device.process_index, device)
    return [first[process] for process in sorted(first)]
