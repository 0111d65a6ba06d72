"""Proximal policy optimisation (Schulman et al. 2017)."""

from __future__ import annotations

import equinox as eqx
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
from slipstream.algos.settings import PPOConfig
from slipstream.nets.agent import ActorCritic, NetworkMaker
from slipstream.nets.average import Average, alone
from slipstream.spaces import Box, Space

RATE_STEP, RATE_MIN, RATE_MAX = 1.5, 1e-5, 1e-2


def make_ppo(
    config: PPOConfig, observation: Box, action: Space, *, network: NetworkMaker | None = None, average: Average = alone
) -> Algorithm:
    optimizer = optax.named_chain(
        ("clip", optax.clip_by_global_norm(config.max_grad_norm)), ("adam", optax.scale_by_adam(eps=1e-5))
    )
    return make_actor_critic(config, optimizer, update, observation, action, network, average)


def loss(
    network: ActorCritic, config: PPOConfig, batch: Samples, count: jax.Array, entropy_cost: jax.Array | float
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The clipped objective, the value error and the entropy bonus: sums over agents in the game, over `count`."""

    def mean(x: jax.Array) -> jax.Array:
        return (x * batch.weight).sum() / count

    features = features_of(network, batch)
    parameters = network.policy(features, batch.mask)
    distribution = network.policy.distribution
    log_ratio = distribution.log_prob(parameters, batch.action) - batch.log_prob
    # Agents out of the game may have acted on anything: keep their ratio out of the sums, not just out of the mean.
    log_ratio = jnp.where(batch.weight > 0, log_ratio, 0.0)
    ratio = jnp.exp(log_ratio)
    clipped = jnp.clip(ratio, 1.0 - config.clip_ratio, 1.0 + config.clip_ratio)
    gain = jnp.minimum(ratio * batch.advantage, clipped * batch.advantage)
    policy_loss = -mean(gain)

    value = network.value(features)
    error = jnp.square(value - batch.target)
    if config.clip_value is not None:
        near = batch.value + jnp.clip(value - batch.value, -config.clip_value, config.clip_value)
        error = jnp.maximum(error, jnp.square(near - batch.target))
    value_loss = 0.5 * mean(error)
    entropy = mean(distribution.entropy(parameters))
    total = policy_loss + config.value_cost * value_loss - entropy_cost * entropy
    metrics = {
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": entropy,
        # An unbiased and non-negative estimate of the divergence (Schulman, "Approximating KL divergence", 2020).
        "kl": mean(ratio - 1.0 - log_ratio),
        "clipped": mean((jnp.abs(ratio - 1.0) > config.clip_ratio).astype(jnp.float32)),
    }
    return total, metrics


def update(
    config: PPOConfig,
    optimizer: optax.GradientTransformation,
    average: Average,
    learner: Learner,
    rollout: Rollout,
    *,
    elapsed: jax.Array | float,
    key: jax.Array,
) -> tuple[Learner, dict[str, jax.Array]]:
    """Several epochs of minibatches over a rollout."""
    samples = prepare(config, average, learner, rollout)
    batches = min(config.minibatches, samples.pieces)
    block = _block_size(samples.pieces, batches)
    blocks = samples.pieces // block
    size = blocks // batches
    entropy_cost = scheduled(config.entropy_cost, config.entropy_cost_final, elapsed)
    rate = learner.learning_rate
    if config.target_kl is None:
        rate = scheduled(config.learning_rate, config.learning_rate_final, elapsed)

    orders = jax.vmap(lambda k: jax.random.permutation(k, blocks))(jax.random.split(key, config.epochs))
    index = orders[:, : batches * size].reshape(config.epochs * batches, size)

    def minibatch(
        learner: Learner, inputs: tuple[jax.Array, jax.Array]
    ) -> tuple[Learner, tuple[dict[str, jax.Array], jax.Array]]:
        index, count = inputs
        batch = samples.take(index, block)
        gradient, metrics = gradient_of(loss, learner.network, config, batch, count, entropy_cost)
        learner, taken = descended(learner, gradient, optimizer, rate, average)
        return learner, (metrics, 1.0 - taken)

    # Counts before and metrics after: of each minibatch, only the gradient has to be waited for by all.
    learner, (history, skipped) = jax.lax.scan(minibatch, learner, (index, samples.counts(index, block, average)))
    metrics = jax.tree.map(lambda m: m[-batches:].mean(), average(history))
    metrics |= {"learning_rate": rate, "explained_variance": explained_variance(samples, average)}
    if config.target_kl is not None:
        adapted = _adapt(rate, metrics["kl"], config.target_kl)
        learner = eqx.tree_at(lambda state: state.learning_rate, learner, adapted)
    return with_observed(learner, rollout, average), metrics | {"steps_skipped": skipped.mean()}


def _block_size(count: int, batches: int) -> int:
    """How many neighbours (agents of the same moment) are shuffled together.

    Shuffling blocks instead of samples costs next to nothing; samples one by one would take longer than a small
    network's gradient. A minibatch always has many blocks.
    """
    block = 1
    while block < 32 and count % (2 * block) == 0 and count // (2 * block) >= 16 * batches:
        block *= 2
    return block


def _adapt(rate: jax.Array, kl: jax.Array, target: float) -> jax.Array:
    """A smaller rate after too large an update, a larger one after too small an update."""
    factor = jnp.where(kl > 2.0 * target, 1.0 / RATE_STEP, jnp.where(kl < 0.5 * target, RATE_STEP, 1.0))
    return jnp.clip(rate * factor, RATE_MIN, RATE_MAX)
