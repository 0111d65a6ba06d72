"""TD3 (Fujimoto et al. 2018), and DDPG (Lillicrap et al. 2016), which is TD3 with other settings."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from slipstream.algos.algo import Algorithm
from slipstream.algos.continuous import Kind, Learner, make_continuous
from slipstream.algos.settings import TD3Config
from slipstream.nets.agent import NetworkMaker
from slipstream.nets.average import Average, alone
from slipstream.spaces import Box, Space


def make_td3(
    config: TD3Config, observation: Box, action: Space, *, network: NetworkMaker | None = None, average: Average = alone
) -> Algorithm:
    def act(outputs: jax.Array, normal: jax.Array, noise: jax.Array | float) -> jax.Array:
        return jnp.clip(jnp.tanh(outputs) + noise * normal, -1.0, 1.0)

    def next_action(learner: Learner, x: jax.Array, normal: jax.Array) -> tuple[jax.Array, jax.Array]:
        noise = jnp.clip(config.smoothing_noise * normal, -config.smoothing_limit, config.smoothing_limit)
        chosen = jnp.clip(jnp.tanh(learner.slow_policy(x)) + noise, -1.0, 1.0)
        return chosen, jnp.zeros(x.shape[-1])

    def policy_loss(
        policy: Any, learner: Learner, x: jax.Array, normal: jax.Array, value_of: Any
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        return -value_of(jnp.tanh(policy(x))), {}

    kind = Kind(
        outputs_per_component=1,
        slow_policy=True,
        initial_temperature=None,
        noise=config.exploration_noise,
        act=act,
        mode=jnp.tanh,
        next_action=next_action,
        policy_loss=policy_loss,
    )
    return make_continuous(config, kind, observation, action, network, average)
