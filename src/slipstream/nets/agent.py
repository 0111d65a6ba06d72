"""The networks of an agent: what remembers, what acts, and what judges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from slipstream.nets.distributions import Distribution, Gaussian
from slipstream.nets.memory import Memory

NetworkMaker = Callable[..., Any]
"""`(inputs, outputs, output_scale, *, key) -> module`, which maps `[inputs, lanes]` to `[outputs, lanes]`."""


class PolicyNetwork(eqx.Module):
    """From features to the parameters of a distribution over actions."""

    body: Any
    log_std: jax.Array | None
    """`[components]` of a continuous policy, the same in every state."""
    distribution: Distribution = eqx.field(static=True)

    def __init__(
        self,
        features: int,
        distribution: Distribution,
        network: NetworkMaker,
        initial_log_std: float,
        *,
        key: jax.Array,
    ):
        self.body = network(features, distribution.outputs, 0.01, key=key)
        continuous = isinstance(distribution, Gaussian)
        self.log_std = jnp.full(distribution.outputs, initial_log_std, jnp.float32) if continuous else None
        self.distribution = distribution

    def __call__(self, x: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        """Parameters of the action distribution for `[features, lanes]`."""
        out = self.body(x)
        if self.log_std is not None:
            out = jnp.concatenate([out, jnp.broadcast_to(self.log_std[:, None], out.shape)])
        return self.distribution.masked(out, mask)


class ActorCritic(eqx.Module):
    """A policy and a value function that share nothing but their input: observations, or what a memory makes of it."""

    memory: Memory | None
    policy: PolicyNetwork
    critic: Any

    def __init__(
        self,
        features: int,
        distribution: Distribution,
        network: NetworkMaker,
        initial_log_std: float,
        memory: Callable[[jax.Array], Memory] | None,
        *,
        key: jax.Array,
    ):
        policy_key, critic_key = jax.random.split(key)
        self.memory = None if memory is None else memory(jax.random.fold_in(key, 1))
        features = features if self.memory is None else self.memory.size
        self.policy = PolicyNetwork(features, distribution, network, initial_log_std, key=policy_key)
        self.critic = network(features, 1, 1.0, key=critic_key)

    def value(self, x: jax.Array) -> jax.Array:
        """`[lanes]`"""
        return self.critic(x)[0]
