"""Advantage actor-critic: one plain policy-gradient step per rollout (Mnih et al. 2016, synchronous)."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import optax

from slipstream.algos.actor_critic import (
    ActorCriticConfig,
    Learner,
    Samples,
    descend,
    explained_variance,
    make_actor_critic,
    prepare,
    scheduled,
    weighted_mean,
    with_observed,
)
from slipstream.algos.algo import Algorithm, Rollout
from slipstream.nets.actor_critic import ActorCritic
from slipstream.spaces import Space


@dataclass(frozen=True)
class A2CConfig(ActorCriticConfig):
    """Settings of A2C."""

    learning_rate: float = 1e-3
    trace: float = 1.0
    rms_decay: float = 0.99
    """How long the optimiser (RMSProp) remembers squared gradients."""


def make_a2c(config: A2CConfig, action_space: Space) -> Algorithm:
    optimizer = optax.chain(
        optax.clip_by_global_norm(config.max_grad_norm), optax.scale_by_rms(config.rms_decay, eps=1e-5)
    )
    return make_actor_critic(config, optimizer, update, action_space)


def loss(
    network: ActorCritic, config: A2CConfig, batch: Samples, entropy_cost: jax.Array
) -> tuple[jax.Array, dict[str, jax.Array]]:
    parameters = network.parameters(batch.x, batch.mask)
    log_prob = jnp.where(batch.weight > 0, network.distribution.log_prob(parameters, batch.action), 0.0)
    policy_loss = -weighted_mean(log_prob * batch.advantage, batch.weight)
    value_loss = 0.5 * weighted_mean(jnp.square(network.value(batch.x) - batch.target), batch.weight)
    entropy = weighted_mean(network.distribution.entropy(parameters), batch.weight)
    total = policy_loss + config.value_cost * value_loss - entropy_cost * entropy
    return total, {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}


def update(
    config: A2CConfig,
    optimizer: optax.GradientTransformation,
    learner: Learner,
    rollout: Rollout,
    progress: jax.Array,
    *,
    key: jax.Array,
) -> tuple[Learner, dict[str, jax.Array]]:
    """One gradient step over the whole rollout (`key` is not needed: nothing is drawn)."""
    samples = prepare(config, learner, rollout)
    entropy_cost = scheduled(config.entropy_cost, config.entropy_cost_final, progress)
    rate = scheduled(config.learning_rate, config.learning_rate_final, progress)
    gradient, metrics = jax.grad(loss, has_aux=True)(learner.network, config, samples, entropy_cost)
    learner = descend(learner, gradient, optimizer, rate)
    metrics |= {"learning_rate": rate, "explained_variance": explained_variance(samples)}
    return with_observed(learner, rollout), metrics
