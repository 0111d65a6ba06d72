"""One step against a gradient."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax


def descend(
    parameters: Any, state: Any, gradient: Any, optimizer: optax.GradientTransformation, rate: jax.Array | float
) -> tuple[Any, Any, jax.Array]:
    """Parameters and the optimiser's state after a step, and whether it was taken: one that is not finite is not."""
    finite = jnp.isfinite(optax.tree.norm(gradient))
    updates, new = optimizer.update(gradient, state, parameters)
    new = jax.tree.map(lambda a, b: jnp.where(finite, a, b), new, state)
    updates = jax.tree.map(lambda u: jnp.where(finite, -rate * u, 0.0), updates)
    return optax.apply_updates(parameters, updates), new, finite
