"""Advantages and returns."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def generalized_advantage(
    reward: jax.Array,
    value: jax.Array,
    next_value: jax.Array,
    terminated: jax.Array,
    done: jax.Array,
    discount: float,
    trace: float,
) -> jax.Array:
    """Generalised advantage estimation (Schulman et al. 2016).

    Args:
        reward: `[steps, lanes]`.
        value: of the observation each action was chosen from, `[steps, lanes]`.
        next_value: of the observation each action led to, `[steps, lanes]`: the final one where an episode ended.
        terminated: whether nothing follows, `[steps, lanes]`; then `next_value` does not count.
        done: whether the episode ended there, terminated or truncated; no credit flows back across.
        discount: gamma.
        trace: lambda.

    Returns:
        Advantages, `[steps, lanes]`.
    """
    surprise = reward + discount * jnp.where(terminated, 0.0, next_value) - value
    carry = jnp.where(done, 0.0, discount * trace)

    def back(later: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        delta, decay = step
        now = delta + decay * later
        return now, now

    _, advantage = jax.lax.scan(back, jnp.zeros_like(reward[0]), (surprise, carry), reverse=True)
    return advantage
