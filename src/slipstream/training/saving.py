"""Pytrees as named arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from slipstream.runs.directory import RunError


def named_arrays(tree: Any) -> dict[str, np.ndarray]:
    """Every array of a pytree under the fields that lead to it, such as `walker/network/critic/layers/0/weight`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {_name(path): np.asarray(leaf) for path, leaf in leaves}


def from_named_arrays(template: Any, arrays: Mapping[str, np.ndarray], source: str) -> Any:
    """A pytree like `template` with the arrays of a checkpoint, or an error if they do not fit."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    restored = []
    for path, leaf in leaves:
        name = _name(path)
        if name not in arrays:
            raise RunError(f"{source} is of another kind of run: it has no array {name!r}.")
        if arrays[name].shape != leaf.shape:
            raise RunError(
                f"{source} does not fit: array {name!r} is {list(arrays[name].shape)}, expected {list(leaf.shape)}."
            )
        restored.append(jnp.asarray(arrays[name], leaf.dtype))
    return jax.tree_util.tree_unflatten(structure, restored)


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


def under(arrays: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Those whose names begin with `prefix/`, without it."""
    return {name.removeprefix(f"{prefix}/"): a for name, a in arrays.items() if name.startswith(f"{prefix}/")}
