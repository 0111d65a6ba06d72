"""Advantage actor-critic: one plain policy-gradient step per rollout (Mnih et al. 2016, synchronous)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from slipstream.algos.actor_critic import (
    Learner,
    descended,
    explained_variance,
    features_of,
    gradient_of,
    make_actor_critic,
    prepare,
    scheduled,
    with_observed,
)
from slipstream.algos.algo import Algorithm, Rollout
from slipstream.algos.samples import Samples
from slipstream.algos.settings import A2CConfig
from slipstream.nets.agent import ActorCritic, NetworkMaker
from slipstream.nets.average import Average, alone
from slipstream.spaces import Box, Space


def make_a2c(
    config: A2CConfig, observation: Box, action: Space, *, network: NetworkMaker | None = None, average: Average = alone
) -> Algorithm:
    optimizer = optax.named_chain(
        ("clip", optax.clip_by_global_norm(config.max_grad_norm)),
        ("rms", optax.scale_by_rms(config.rms_decay, eps=1e-5)),
    )
    return make_actor_critic(config, optimizer, update, observation, action, network, average)


def loss(
    network: ActorCritic, config: A2CConfig, batch: Samples, count: jax.Array, entropy_cost: jax.Array
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The policy gradient, the value error and the entropy bonus: sums over agents in the game, over `count`."""

    def mean(x: jax.Array) -> jax.Array:
        return (x * batch.weight).sum() / count

    features = features_of(network, batch)
    parameters = network.policy(features, batch.mask)
    distribution = network.policy.distribution
    log_prob = jnp.where(batch.weight > 0, distribution.log_prob(parameters, batch.action), 0.0)
    policy_loss = -mean(log_prob * batch.advantage)
    value_loss = 0.5 * mean(jnp.square(network.value(features) - batch.target))
    entropy = mean(distribution.entropy(parameters))
    total = policy_loss + config.value_cost * value_loss - entropy_cost * entropy
    return total, {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}


def update(
    config: A2CConfig,
    optimizer: optax.GradientTransformation,
    average: Average,
    learner: Learner,
    rollout: Rollout,
    *,
    elapsed: jax.Array | float,
    key: jax.Array,
) -> tuple[Learner, dict[str, jax.Array]]:
    """One gradient step over the whole rollout (`key` is not needed: nothing is drawn)."""
    samples = prepare(config, average, learner, rollout)
    entropy_cost = scheduled(config.entropy_cost, config.entropy_cost_final, elapsed)
    rate = scheduled(config.learning_rate, config.learning_rate_final, elapsed)
    gradient, metrics = gradient_of(loss, learner.network, config, samples, samples.count(average), entropy_cost)
    learner, taken = descended(learner, gradient, optimizer, rate, average)
    metrics = average(metrics) | {"learning_rate": rate, "explained_variance": explained_variance(samples, average)}
    return with_observed(learner, rollout, average), metrics | {"steps_skipped": 1.0 - taken}
