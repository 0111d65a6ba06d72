"""Proximal policy optimisation (Schulman et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
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

RATE_STEP, RATE_MIN, RATE_MAX = 1.5, 1e-5, 1e-2


@dataclass(frozen=True)
class PPOConfig(ActorCriticConfig):
    """Settings of PPO."""

    clip_ratio: float = 0.2
    clip_value: float | None = None
    """How far a value may move from the one before the update; None: as far as it wants."""
    epochs: int = 4
    minibatches: int = 4
    target_kl: float | None = None
    """If given, the learning rate adapts so that an update moves the policy about this far."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("epochs", "minibatches"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if self.clip_ratio <= 0:
            raise ValueError(f"clip_ratio must be positive, got {self.clip_ratio}.")
        if self.target_kl is not None and self.learning_rate_final is not None:
            raise ValueError("target_kl adapts the learning rate, so learning_rate_final must stay unset.")


def make_ppo(config: PPOConfig, action_space: Space) -> Algorithm:
    optimizer = optax.chain(optax.clip_by_global_norm(config.max_grad_norm), optax.scale_by_adam(eps=1e-5))
    return make_actor_critic(config, optimizer, update, action_space)


def loss(
    network: ActorCritic, config: PPOConfig, batch: Samples, entropy_cost: jax.Array
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The clipped objective, the value error and the entropy bonus, over agents in the game."""
    parameters = network.parameters(batch.x, batch.mask)
    log_ratio = network.distribution.log_prob(parameters, batch.action) - batch.log_prob
    # Agents out of the game may have acted on anything: keep their ratio out of the sums, not just out of the mean.
    log_ratio = jnp.where(batch.weight > 0, log_ratio, 0.0)
    ratio = jnp.exp(log_ratio)
    clipped = jnp.clip(ratio, 1.0 - config.clip_ratio, 1.0 + config.clip_ratio)
    gain = jnp.minimum(ratio * batch.advantage, clipped * batch.advantage)
    policy_loss = -weighted_mean(gain, batch.weight)

    value = network.value(batch.x)
    error = jnp.square(value - batch.target)
    if config.clip_value is not None:
        near = batch.value + jnp.clip(value - batch.value, -config.clip_value, config.clip_value)
        error = jnp.maximum(error, jnp.square(near - batch.target))
    value_loss = 0.5 * weighted_mean(error, batch.weight)

    entropy = weighted_mean(network.distribution.entropy(parameters), batch.weight)
    total = policy_loss + config.value_cost * value_loss - entropy_cost * entropy
    metrics = {
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": entropy,
        # An unbiased and non-negative estimate of the divergence (Schulman, "Approximating KL divergence", 2020).
        "kl": weighted_mean(ratio - 1.0 - log_ratio, batch.weight),
        "clipped": weighted_mean((jnp.abs(ratio - 1.0) > config.clip_ratio).astype(jnp.float32), batch.weight),
    }
    return total, metrics


def update(
    config: PPOConfig,
    optimizer: optax.GradientTransformation,
    learner: Learner,
    rollout: Rollout,
    progress: jax.Array,
    *,
    key: jax.Array,
) -> tuple[Learner, dict[str, jax.Array]]:
    """Several epochs of minibatches over a rollout."""
    samples = prepare(config, learner, rollout)
    batches = min(config.minibatches, samples.weight.size)
    block = _block_size(samples.weight.size, batches)
    blocks = samples.weight.size // block
    size = blocks // batches
    entropy_cost = scheduled(config.entropy_cost, config.entropy_cost_final, progress)
    rate = learner.learning_rate
    if config.target_kl is None:
        rate = scheduled(config.learning_rate, config.learning_rate_final, progress)

    orders = jax.vmap(lambda k: jax.random.permutation(k, blocks))(jax.random.split(key, config.epochs))
    index = orders[:, : batches * size].reshape(config.epochs * batches, size)

    def minibatch(learner: Learner, index: jax.Array) -> tuple[Learner, dict[str, jax.Array]]:
        gradient, metrics = jax.grad(loss, has_aux=True)(
            learner.network, config, samples.take(index, block), entropy_cost
        )
        return descend(learner, gradient, optimizer, rate), metrics

    learner, history = jax.lax.scan(minibatch, learner, index)
    metrics = jax.tree.map(lambda m: m[-batches:].mean(), history)
    metrics |= {"learning_rate": rate, "explained_variance": explained_variance(samples)}
    if config.target_kl is not None:
        adapted = _adapt(rate, metrics["kl"], config.target_kl)
        learner = eqx.tree_at(lambda state: state.learning_rate, learner, adapted)
    return with_observed(learner, rollout), metrics


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
