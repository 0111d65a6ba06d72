"""Learners and worlds as named arrays, and back."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from slipstream.runs.directory import RunError


def named_arrays(tree: Any, prefix: str) -> dict[str, np.ndarray]:
    """Every array of a pytree under its path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {prefix + jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def from_named_arrays(template: Any, arrays: dict[str, np.ndarray], prefix: str, source: str) -> Any:
    """A pytree like `template` with the arrays of a checkpoint, or an error if they do not fit."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    restored = []
    for path, leaf in leaves:
        name = prefix + jax.tree_util.keystr(path)
        if name not in arrays:
            raise RunError(f"{source} is of another kind of run: it has no array {name!r}.")
        if arrays[name].shape != leaf.shape:
            raise RunError(
                f"{source} does not fit: array {name!r} is {list(arrays[name].shape)}, expected {list(leaf.shape)}."
            )
        restored.append(jnp.asarray(arrays[name], leaf.dtype))
    return jax.tree_util.tree_unflatten(structure, restored)
