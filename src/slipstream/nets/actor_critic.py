"""A policy and a value function on normalised observations."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from slipstream.nets.distributions import Distribution, Gaussian
from slipstream.nets.mlp import MLP, ActivationName


class ActorCritic(eqx.Module):
    """Two networks that share nothing but their input."""

    policy: MLP
    critic: MLP
    log_std: jax.Array | None
    """`[components]` of a continuous policy, the same in every state."""
    distribution: Distribution = eqx.field(static=True)

    def __init__(
        self,
        features: int,
        distribution: Distribution,
        hidden: tuple[int, ...],
        activation: ActivationName,
        initial_log_std: float,
        *,
        key: jax.Array,
    ):
        policy_key, critic_key = jax.random.split(key)
        self.policy = MLP(features, hidden, distribution.outputs, activation, 0.01, key=policy_key)
        self.critic = MLP(features, hidden, 1, activation, 1.0, key=critic_key)
        continuous = isinstance(distribution, Gaussian)
        self.log_std = jnp.full(distribution.outputs, initial_log_std, jnp.float32) if continuous else None
        self.distribution = distribution

    def parameters(self, x: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        """Parameters of the action distribution for `[features, lanes]`."""
        out = self.policy(x)
        if self.log_std is not None:
            out = jnp.concatenate([out, jnp.broadcast_to(self.log_std[:, None], out.shape)])
        return self.distribution.masked(out, mask)

    def value(self, x: jax.Array) -> jax.Array:
        """`[lanes]`"""
        return self.critic(x)[0]
