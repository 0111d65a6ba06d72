"""A state as its user sees it, one array for each field, and as the engine keeps it, one for each leaf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from slipstream.envs.env import Leaf

Fields = dict[str, np.ndarray]


def join_fields(leaves: Sequence[Leaf], arrays: Sequence[np.ndarray], num_worlds: int) -> Fields:
    """The fields of a state: `[worlds]` or `[components, worlds]` of the world, `[worlds * agents]` of the agents."""
    parts: dict[str, list[tuple[Leaf, np.ndarray]]] = {}
    for leaf, array in zip(leaves, arrays):
        parts.setdefault(leaf.field, []).append((leaf, array))
    return {field: _join(members, num_worlds) for field, members in parts.items()}


def _join(parts: list[tuple[Leaf, np.ndarray]], num_worlds: int) -> np.ndarray:
    first, array = parts[0]
    if first.group is None:  # (the only component of a tuple is not told from a quantity of its own)
        return array if len(parts) == 1 else np.stack([a for _, a in parts])
    blocks = [array.reshape(num_worlds, -1) for _, array in parts]
    return np.concatenate(blocks, axis=1).reshape(-1)


def split_fields(leaves: Sequence[Leaf], state: Fields, num_worlds: int, sizes: Mapping[str, int]) -> list[np.ndarray]:
    """What `join_fields` joined (`sizes`: how many agents a group has)."""
    arrays, position = [], {}
    for leaf in leaves:
        joined, start = state[leaf.field], position.get(leaf.field, 0)
        if leaf.group is None:
            end = start + 1
            arrays.append(joined if leaf.number is None or joined.ndim == 1 else joined[start])
        else:
            end = start + sizes[leaf.group]
            arrays.append(joined.reshape(num_worlds, -1)[:, start:end].reshape(-1))
        position[leaf.field] = end
    return arrays


def with_changes(state: Fields, changes: Mapping[str, Any], leaves: Sequence[Leaf], num_worlds: int) -> Fields:
    """A state with other values in some fields, or an error that says why not. (The engine gives them their types.)"""
    changed = dict(state)
    of_agents = {leaf.field for leaf in leaves if leaf.group is not None}
    for name, value in changes.items():
        if name not in state:
            raise ValueError(f"Unknown state field {name!r}; the fields are {', '.join(state)}.")
        given, old = np.asarray(value), state[name]
        shapes = [old.shape, (num_worlds, old.size // num_worlds)] if name in of_agents else [old.shape]
        if old.shape[0] == 1:
            shapes.append(old.shape[1:])  # a single component may be given without its axis
        if given.shape not in shapes:
            raise ValueError(f"State field {name!r} must have shape {list(old.shape)}, got {list(given.shape)}.")
        if given.dtype.kind not in "biuf":
            raise ValueError(f"State field {name!r} must be numbers, got {given.dtype}.")
        changed[name] = given.reshape(old.shape)
    return changed
