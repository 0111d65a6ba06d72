"""Networks that remember: a recurrent cell over feature-major batches."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

CELLS = {"gru": eqx.nn.GRUCell, "lstm": eqx.nn.LSTMCell}


class Memory(eqx.Module):
    """A recurrent cell. What it carries from step to step begins as zeros; lanes are the last axis."""

    cell: eqx.nn.GRUCell | eqx.nn.LSTMCell

    def __init__(self, kind: str, inputs: int, size: int, *, key: jax.Array):
        self.cell = CELLS[kind](inputs, size, key=key)

    @property
    def size(self) -> int:
        return self.cell.hidden_size

    def empty(self, lanes: int) -> Any:
        """What is carried into an episode's first step: `[size, lanes]`, twice for an LSTM."""
        arrays = 2 if isinstance(self.cell, eqx.nn.LSTMCell) else 1
        zeros = tuple(jnp.zeros((self.size, lanes), jnp.float32) for _ in range(arrays))
        return zeros if arrays == 2 else zeros[0]

    def __call__(self, x: jax.Array, carried: Any) -> tuple[jax.Array, Any]:
        """One step: `[features, lanes]` to `[size, lanes]`, and what is carried on."""
        carried = jax.vmap(self.cell, in_axes=(-1, -1), out_axes=-1)(x, carried)
        return (carried[0] if isinstance(carried, tuple) else carried), carried

    def unroll(self, x: jax.Array, carried: Any, begins: jax.Array) -> tuple[jax.Array, Any]:
        """Many steps.

        Args:
            x: `[steps, features, lanes]`.
            carried: into the first step.
            begins: whether a step is the first of an episode, `[steps, lanes]`.

        Returns:
            `[steps, size, lanes]`, and what is carried out of every step, `[steps, size, lanes]`.
        """

        def step(carried: Any, now: tuple[jax.Array, jax.Array]) -> tuple[Any, tuple[jax.Array, Any]]:
            x, fresh = now
            out, carried = self(x, forget(carried, fresh))
            return carried, (out, carried)

        return jax.lax.scan(step, carried, (x, begins))[1]


def forget(carried: Any, where: jax.Array) -> Any:
    """What is carried on, with zeros in the lanes whose episode begins."""
    return jax.tree.map(lambda c: jnp.where(where, 0.0, c), carried)
