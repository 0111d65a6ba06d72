"""Actions: drawn inside a kernel, drawn for a user, and checked when they come from one."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

import drjit as dr
import jax
import jax.numpy as jnp
import numpy as np

from slipstream.envs.env import Env, Group
from slipstream.spaces import Box, Discrete


def random_action(env: Env, rng: Any, masks: dict[str, list[Any]]) -> dict[str, Any]:
    """Uniformly random actions of every group, of those that are allowed, as `Env.step` expects them."""
    action = {}
    for group in env.groups:
        draw = rng.of(group.name)
        if isinstance(group.action, Box):
            lows, highs = random_bounds(group.action)
            action[group.name] = tuple(draw.uniform(float(a), float(b)) for a, b in zip(lows, highs))
        else:
            mask = iter(masks.get(group.name, ()))
            parts = tuple(_random_choice(draw, list(islice(mask, n)), n) for n in group.action.choices)
            action[group.name] = parts[0] if isinstance(group.action, Discrete) else parts
    return action


def _random_choice(draw: Any, allowed: list[Any], n: int) -> Any:
    """One of `n` choices, each allowed one equally likely (`allowed`: a flag for each, or empty for all)."""
    if not allowed:
        return draw.integer(n)
    count = sum(dr.select(flag, 1, 0) for flag in allowed)
    rank = dr.floor(draw.uniform() * count)
    chosen, before = draw.integer(1), 0
    for i, flag in enumerate(allowed):
        chosen = dr.select(flag & (rank == before), i, chosen)
        before = before + dr.select(flag, 1, 0)
    return chosen


def random_bounds(space: Box) -> tuple[np.ndarray, np.ndarray]:
    """Where random actions are drawn from: the bounds, and -1 or 1 in place of an infinite one."""
    lows = np.where(np.isfinite(space.lows), space.lows, -1.0)
    highs = np.where(np.isfinite(space.highs), space.highs, 1.0)
    return lows, highs


def clip_to(space: Box, parts: list[Any]) -> list[Any]:
    """Action components within their bounds."""
    if not np.isfinite([space.lows, space.highs]).any():
        return parts
    return [dr.clip(p, float(a), float(b)) for p, a, b in zip(parts, space.lows, space.highs)]


def check_action(group: Group, action: Any, lanes: int) -> jax.Array:
    """The action as `[components, lanes]` of the right type, or an error that names what is wrong with it."""
    array = jnp.asarray(action)
    shape = (group.action.size, lanes)
    if array.shape == (lanes,) and group.action.size == 1:
        array = array[None]
    if array.shape != shape:
        raise ValueError(
            f"Actions of group {group.name!r} must have shape {list(shape)} (components, lanes), "
            f"got {list(array.shape)}."
        )
    if isinstance(group.action, Box):
        if not jnp.issubdtype(array.dtype, jnp.floating):
            raise ValueError(f"Actions of group {group.name!r} must be real numbers, got {array.dtype}.")
        if not bool(jnp.isfinite(array).all()):
            lane = int(jnp.argmin(jnp.isfinite(array).all(axis=0)))
            raise ValueError(f"Actions of group {group.name!r} are not finite (first in lane {lane}).")
        return array.astype(jnp.float32)
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise ValueError(f"Actions of group {group.name!r} must be whole numbers, got {array.dtype}.")
    limits = jnp.asarray(group.action.choices)[:, None]
    wrong = (array < 0) | (array >= limits)
    if bool(wrong.any()):
        component, lane = (int(i) for i in np.argwhere(np.asarray(wrong))[0])
        raise ValueError(
            f"Action {int(array[component, lane])} of group {group.name!r} (component {component}, lane {lane}) "
            f"is out of range: choose from 0 .. {group.action.choices[component] - 1}."
        )
    return array.astype(jnp.int32)


@partial(jax.jit, static_argnames=("group", "num_worlds"))
def sample_action(
    key: jax.Array, group: Group, num_worlds: int, first_world: jax.Array, mask: jax.Array | None
) -> jax.Array:
    """A random action of every agent of a group, of those that are allowed.

    What an agent draws depends on the number of its world, not on how many others draw beside it.
    """
    agent = jnp.arange(num_worlds * group.size, dtype=jnp.uint32) + first_world * jnp.uint32(group.size)
    keys = jax.vmap(lambda number: jax.random.fold_in(key, number))(agent)
    space = group.action
    if isinstance(space, Box):
        lows, highs = (jnp.asarray(b, jnp.float32) for b in random_bounds(space))
        draw = partial(jax.random.uniform, shape=(space.size,), minval=lows, maxval=highs)
        return jax.vmap(draw, out_axes=1)(keys)
    rows, start = [], 0
    for component, n in enumerate(space.choices):
        allowed = jnp.ones((n, len(agent)), bool) if mask is None else mask[start : start + n]
        own = jax.vmap(lambda k, c=component: jax.random.fold_in(k, c))(keys)
        rows.append(jax.vmap(jax.random.categorical, (0, 1))(own, jnp.where(allowed, 0.0, -jnp.inf)))
        start += n
    actions = jnp.stack(rows).astype(jnp.int32)
    return actions[0] if isinstance(space, Discrete) else actions
