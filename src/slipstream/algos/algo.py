"""What an algorithm is: a record of three pure functions, and the data they exchange."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp


class Extras(NamedTuple):
    """What acting leaves behind for learning."""

    action: jax.Array
    """In the policy's own units, `[components, lanes]`."""
    log_prob: jax.Array
    """`[lanes]`"""


class Rollout(eqx.Module):
    """What a policy's agents went through. Slot t of `[steps + 1]` arrays is what action t was chosen from."""

    observation: jax.Array
    """`[steps + 1, features, lanes]`"""
    action: jax.Array
    """`[steps, components, lanes]`, in the policy's own units."""
    log_prob: jax.Array
    """`[steps, lanes]`"""
    reward: jax.Array
    """`[steps, lanes]`"""
    terminated: jax.Array
    """`[steps, lanes]`"""
    truncated: jax.Array
    """`[steps, lanes]`"""
    final_observation: jax.Array
    """`[steps, features, lanes]`; only where an episode ended."""
    active: jax.Array | None
    """`[steps + 1, lanes]`, or None when everybody always is."""
    action_mask: jax.Array | None
    """`[steps + 1, choices, lanes]`, or None when everything is allowed."""

    @property
    def weight(self) -> jax.Array:
        """1 for each step of an agent that was in the game, else 0: `[steps, lanes]`."""
        if self.active is None:
            return jnp.ones_like(self.reward)
        return self.active[:-1].astype(jnp.float32)


@dataclass(frozen=True)
class Algorithm:
    """How a policy acts and learns.

    Attributes:
        init: `(observation space, action space, *, key) -> state`.
        act: `(state, observation [features, lanes], mask, *, key) -> Extras`.
        act_best: `(state, observation, mask) -> action`, without exploration.
        to_env: from the policy's action to the world's.
        update: `(state, rollout, progress, *, key) -> (state, metrics)`; `progress` runs from 0 to 1 over training.
    """

    init: Callable[..., Any]
    act: Callable[..., Extras]
    act_best: Callable[..., jax.Array]
    to_env: Callable[[jax.Array], jax.Array]
    update: Callable[..., tuple[Any, dict[str, jax.Array]]]
