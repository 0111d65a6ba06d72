"""Soft actor-critic with a temperature that adapts (Haarnoja et al. 2018)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from slipstream.algos.algo import Algorithm
from slipstream.algos.continuous import Kind, Learner, make_continuous
from slipstream.algos.off_policy import Trained
from slipstream.algos.settings import SACConfig
from slipstream.nets import squashed
from slipstream.nets.agent import NetworkMaker
from slipstream.nets.average import Average, alone
from slipstream.spaces import Box, Space


def make_sac(
    config: SACConfig, observation: Box, action: Space, *, network: NetworkMaker | None = None, average: Average = alone
) -> Algorithm:
    target_entropy = -float(action.size) if config.target_entropy is None else config.target_entropy

    def temperature(learner: Learner) -> jax.Array:
        assert learner.log_temperature is not None
        return jnp.exp(learner.log_temperature.value)

    def next_action(learner: Learner, x: jax.Array, normal: jax.Array) -> tuple[jax.Array, jax.Array]:
        chosen, log_prob = squashed.sample(learner.policy.value(x), normal)
        return chosen, -temperature(learner) * log_prob

    def policy_loss(
        policy: Any, learner: Learner, x: jax.Array, normal: jax.Array, value_of: Any
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        chosen, log_prob = squashed.sample(policy(x), normal)
        return temperature(learner) * log_prob - value_of(chosen), {"entropy": -log_prob}

    def temperature_step(log_temperature: Trained, metrics: dict[str, jax.Array]) -> Trained:
        # Too much entropy lowers the temperature, too little raises it.
        gradient = jnp.exp(log_temperature.value) * (metrics["entropy"] - target_entropy)
        return log_temperature.step(gradient, config.learning_rate, average)[0]

    kind = Kind(
        outputs_per_component=2,
        slow_policy=False,
        initial_temperature=config.initial_temperature,
        noise=0.0,
        act=lambda outputs, normal, noise: squashed.sample(outputs, normal)[0],
        mode=squashed.mode,
        next_action=next_action,
        policy_loss=policy_loss,
        temperature_step=temperature_step,
    )
    return make_continuous(config, kind, observation, action, network, average)
