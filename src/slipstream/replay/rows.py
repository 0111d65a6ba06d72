"""From what agents went through to rows of a replay, and from rows to batches."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from slipstream.algos.algo import Rollout, Transitions
from slipstream.replay.layout import RowLayout


def pack(layout: RowLayout, rollout: Rollout, n_step: int, discount: float) -> tuple[jax.Array, jax.Array]:
    """A rollout as rows, `[steps * lanes, width]`, and which of them can be learned from, `[steps * lanes]`.

    A row looks `n_step` steps ahead, or to the end of the episode or of the rollout, whichever comes first: nothing has
    to be carried from one rollout to the next.

    Of no use are the steps of agents that were out of the game, what is not finite, and, where actions are masked, what
    was cut off: what would have been allowed then is not known.
    """
    steps, lanes = rollout.reward.shape
    ended = rollout.terminated | rollout.truncated
    mask = rollout.action_mask
    going = jnp.ones((steps, lanes), bool)
    reward, factor = jnp.zeros((steps, lanes)), jnp.zeros((steps, lanes))
    after, allowed = rollout.observation[1:], None if mask is None else mask[1:]
    usable = rollout.weight > 0
    for ahead in range(min(n_step, steps)):

        def then(a: jax.Array, ahead: int = ahead) -> jax.Array:
            """What is that many steps ahead; past the end of the rollout it does not matter."""
            return jnp.roll(a, -ahead, axis=0)

        going &= (jnp.arange(steps) + ahead < steps)[:, None]
        over = then(ended)
        reward += jnp.where(going, discount**ahead * then(rollout.reward), 0.0)
        factor = jnp.where(going, jnp.where(then(rollout.terminated), 0.0, discount ** (ahead + 1)), factor)
        reached = jnp.where(over[:, None], then(rollout.final_observation), then(rollout.observation[1:]))
        after = jnp.where(going[:, None], reached, after)
        if allowed is not None and mask is not None:
            allowed = jnp.where(going[:, None], then(mask[1:]), allowed)
            usable &= ~(going & then(rollout.truncated) & ~then(rollout.terminated))
        going &= ~over
    fields = {
        "observation": rollout.observation[:-1],
        "next_observation": jnp.where((factor > 0)[:, None], after, 0.0),  # there is none after the end
        "action": rollout.kept.action,
        "reward": reward[:, None],
        "discount": factor[:, None],
        "next_mask": jnp.zeros((steps, 0, lanes)) if allowed is None else allowed,
    }
    parts = [fields[name].astype(jnp.float32) for name in layout.slices]
    rows = jnp.moveaxis(jnp.concatenate(parts, axis=1), 1, 2).reshape(steps * lanes, layout.width)
    return rows, usable.reshape(-1) & jnp.isfinite(rows).all(axis=1)


def unpack(
    layout: RowLayout, numbers: jax.Array, pixels: jax.Array | None = None, weight: jax.Array | None = None
) -> Transitions:
    """Rows as a stack of batches.

    Args:
        layout: how they are packed.
        numbers: `[updates, batch, width]`.
        pixels: `[updates, batch, bytes]`, if observations are images.
        weight: how much each counts, `[updates, batch]`.
    """
    fields = {name: jnp.moveaxis(numbers[..., where], -1, -2) for name, where in layout.slices.items()}
    if pixels is not None:
        before, after = jnp.split(jnp.moveaxis(pixels, -1, -2), 2, axis=-2)
        fields |= {"observation": before, "next_observation": after}
    return Transitions(
        observation=fields["observation"],
        action=fields["action"].astype(jnp.int32) if layout.discrete else fields["action"],
        reward=fields["reward"][:, 0],
        discount=fields["discount"][:, 0],
        next_observation=fields["next_observation"],
        next_mask=fields["next_mask"] > 0 if fields["next_mask"].shape[1] else None,
        weight=weight,
    )
