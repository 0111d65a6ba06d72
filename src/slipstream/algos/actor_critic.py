"""What PPO and A2C share: the learner's state, acting, values, advantages and one optimiser step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from slipstream.algos.algo import Algorithm, Extras, Rollout
from slipstream.algos.returns import generalized_advantage
from slipstream.nets.actor_critic import ActorCritic
from slipstream.nets.distributions import distribution_for
from slipstream.nets.mlp import ACTIVATIONS, ActivationName
from slipstream.nets.normalizer import Normalizer
from slipstream.spaces import Box, Space

FINAL_CHUNK = 4096
"""How many truncated episodes are valued at a time."""


@dataclass(frozen=True)
class ActorCriticConfig:
    """Settings that PPO and A2C share."""

    learning_rate: float = 3e-4
    learning_rate_final: float | None = None
    """If given, the learning rate goes there linearly over the training."""
    discount: float = 0.99
    trace: float = 0.95
    """Lambda of generalised advantage estimation."""
    entropy_cost: float = 0.0
    """Weight of the entropy bonus."""
    entropy_cost_final: float | None = None
    """If given, the weight goes there linearly over the training."""
    value_cost: float = 0.5
    max_grad_norm: float = 0.5
    normalize_advantage: bool = True
    normalize_observation: bool = True
    reward_scale: float = 1.0
    """Rewards are multiplied by this before learning."""
    hidden: tuple[int, ...] = (64, 64)
    activation: ActivationName = "tanh"
    initial_log_std: float = 0.0

    def __post_init__(self) -> None:
        def require(ok: bool, name: str, must: str) -> None:
            if not ok:
                raise ValueError(f"{name} must be {must}, got {getattr(self, name)!r}.")

        require(self.learning_rate > 0, "learning_rate", "positive")
        require(
            self.learning_rate_final is None or self.learning_rate_final >= 0,
            "learning_rate_final",
            "0 or more",
        )
        require(0 <= self.discount <= 1, "discount", "within 0 .. 1")
        require(0 <= self.trace <= 1, "trace", "within 0 .. 1")
        require(self.max_grad_norm > 0, "max_grad_norm", "positive")
        require(self.reward_scale > 0, "reward_scale", "positive")
        require(all(n > 0 for n in self.hidden), "hidden", "a list of positive sizes")
        require(self.activation in ACTIVATIONS, "activation", f"one of {', '.join(ACTIVATIONS)}")


class Learner(eqx.Module):
    """The state of an actor-critic algorithm: all that a checkpoint must keep of it."""

    network: Any
    """An `ActorCritic` (for Optax, any pytree)."""
    optimizer: Any
    normalizer: Normalizer | None
    learning_rate: jax.Array


class Samples(eqx.Module):
    """Flat over steps and lanes: what a gradient is computed from."""

    x: jax.Array
    """Normalised observations, `[features, samples]`."""
    action: jax.Array
    """`[components, samples]`"""
    mask: jax.Array | None
    """`[choices, samples]`"""
    log_prob: jax.Array
    advantage: jax.Array
    value: jax.Array
    target: jax.Array
    """What the value should be."""
    weight: jax.Array
    """1 for agents in the game, else 0."""

    def take(self, index: jax.Array, block: int) -> Samples:
        """Some of the samples: those of the numbered blocks of `block` neighbours."""

        def pick(a: jax.Array) -> jax.Array:
            blocks = a.reshape(*a.shape[:-1], -1, block)[..., index, :]
            return blocks.reshape(*a.shape[:-1], -1)

        return jax.tree.map(pick, self)


def make_actor_critic(
    config: ActorCriticConfig,
    optimizer: optax.GradientTransformation,
    update: Callable[..., tuple[Learner, dict[str, jax.Array]]],
    action_space: Space,
) -> Algorithm:
    """The record of an algorithm that differs from its siblings in its optimiser and its update alone."""
    return Algorithm(
        init=partial(init_learner, config, optimizer),
        act=act,
        act_best=act_best,
        to_env=distribution_for(action_space).to_env,
        update=partial(update, config, optimizer),
    )


def init_learner(
    config: ActorCriticConfig,
    optimizer: optax.GradientTransformation,
    observation: Box,
    action: Space,
    *,
    key: jax.Array,
) -> Learner:
    network: Any = ActorCritic(
        observation.size,
        distribution_for(action),
        config.hidden,
        config.activation,
        config.initial_log_std,
        key=key,
    )
    return Learner(
        network=network,
        optimizer=optimizer.init(network),
        normalizer=Normalizer.create(observation.size) if config.normalize_observation else None,
        learning_rate=jnp.asarray(config.learning_rate, jnp.float32),
    )


def normalized(learner: Learner, observation: jax.Array) -> jax.Array:
    return observation if learner.normalizer is None else learner.normalizer(observation)


def act(learner: Learner, observation: jax.Array, mask: jax.Array | None, *, key: jax.Array) -> Extras:
    network = learner.network
    parameters = network.parameters(normalized(learner, observation), mask)
    action = network.distribution.sample(parameters, key=key)
    return Extras(action, network.distribution.log_prob(parameters, action))


def act_best(learner: Learner, observation: jax.Array, mask: jax.Array | None) -> jax.Array:
    return learner.network.distribution.mode(learner.network.parameters(normalized(learner, observation), mask))


def prepare(config: ActorCriticConfig, learner: Learner, rollout: Rollout) -> Samples:
    """Values, advantages and targets of a rollout, flat."""
    steps, lanes = rollout.reward.shape
    rollout = of_those_in_the_game(rollout)
    x = jax.vmap(lambda o: normalized(learner, o))(rollout.observation)
    value = jax.vmap(learner.network.value)(x)
    next_value = value_after(learner, rollout, value[1:])
    advantage = generalized_advantage(
        rollout.reward * config.reward_scale,
        value[:-1],
        next_value,
        rollout.terminated,
        rollout.terminated | rollout.truncated,
        config.discount,
        config.trace,
    )
    target = advantage + value[:-1]
    weight = rollout.weight
    if config.normalize_advantage:
        advantage = standardized(advantage, weight)

    def flat(a: jax.Array) -> jax.Array:  # [steps, k, lanes] -> [k, steps * lanes]
        return jnp.moveaxis(a, 0, 1).reshape(a.shape[1], steps * lanes)

    return Samples(
        x=flat(x[:-1]),
        action=flat(rollout.action),
        mask=None if rollout.action_mask is None else flat(rollout.action_mask[:-1]),
        log_prob=rollout.log_prob.reshape(-1),
        advantage=advantage.reshape(-1),
        value=value[:-1].reshape(-1),
        target=target.reshape(-1),
        weight=weight.reshape(-1),
    )


def of_those_in_the_game(rollout: Rollout) -> Rollout:
    """The rollout with zeros where an agent is out of the game: 0 times what is not finite would not be 0."""
    if rollout.active is None:
        return rollout
    now, step = rollout.active, rollout.active[:-1]
    return eqx.tree_at(
        lambda r: (r.observation, r.action, r.log_prob, r.reward, r.final_observation),
        rollout,
        (
            jnp.where(now[:, None], rollout.observation, 0.0),
            jnp.where(step[:, None], rollout.action, 0),
            jnp.where(step, rollout.log_prob, 0.0),
            jnp.where(step, rollout.reward, 0.0),
            jnp.where(step[:, None], rollout.final_observation, 0.0),
        ),
    )


def value_after(learner: Learner, rollout: Rollout, following: jax.Array) -> jax.Array:
    """The value of what each step led to: of the final observation where the episode was truncated.

    Truncations are few, so only they are valued, a chunk at a time.

    Args:
        learner: whose values.
        rollout: of `[steps, lanes]`.
        following: value of the next slot's observation, `[steps, lanes]`.
    """
    steps, lanes = following.shape
    cut = (rollout.truncated & ~rollout.terminated).reshape(-1)
    where = jnp.nonzero(cut, size=cut.size, fill_value=cut.size)[0]
    chunk = min(FINAL_CHUNK, cut.size)
    where = jnp.pad(where, (0, -cut.size % chunk), constant_values=cut.size)

    def pending(carry: tuple[jax.Array, jax.Array]) -> jax.Array:
        return carry[0] * chunk < cut.sum()

    def value_chunk(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        i, values = carry
        index = jax.lax.dynamic_slice(where, (i * chunk,), (chunk,))
        safe = jnp.minimum(index, cut.size - 1)
        final = rollout.final_observation[safe // lanes, :, safe % lanes].T
        value = learner.network.value(normalized(learner, final))
        return i + 1, values.at[index].set(value, mode="drop")

    _, values = jax.lax.while_loop(pending, value_chunk, (jnp.zeros((), jnp.int32), following.reshape(-1)))
    return values.reshape(steps, lanes)


def standardized(x: jax.Array, weight: jax.Array) -> jax.Array:
    """Zero mean and unit variance over what counts."""
    n = jnp.maximum(weight.sum(), 1.0)
    mean = (x * weight).sum() / n
    variance = (jnp.square(x - mean) * weight).sum() / n
    return (x - mean) * jax.lax.rsqrt(variance + 1e-8)


def weighted_mean(x: jax.Array, weight: jax.Array) -> jax.Array:
    return (x * weight).sum() / jnp.maximum(weight.sum(), 1.0)


def scheduled(start: float, final: float | None, progress: jax.Array) -> jax.Array:
    """Linear from start to final while progress goes from 0 to 1."""
    return jnp.asarray(start if final is None else start + (final - start) * progress, jnp.float32)


def descend(learner: Learner, gradient: Any, optimizer: optax.GradientTransformation, rate: jax.Array) -> Learner:
    """One step against the gradient; a gradient that is not finite is not taken."""
    finite = jnp.isfinite(optax.tree.norm(gradient))
    updates, state = optimizer.update(gradient, learner.optimizer, learner.network)
    keep = jax.tree.map(lambda new, old: jnp.where(finite, new, old), state, learner.optimizer)
    updates = jax.tree.map(lambda u: jnp.where(finite, -rate * u, 0.0), updates)
    network = optax.apply_updates(learner.network, updates)
    return Learner(network, keep, learner.normalizer, learner.learning_rate)


def with_observed(learner: Learner, rollout: Rollout) -> Learner:
    """The learner with the rollout's observations in its statistics (for the next rollout, not for this one).

    Statistics that would not be finite are not taken: they would stay so for ever.
    """
    if learner.normalizer is None:
        return learner
    new = learner.normalizer.merge(of_those_in_the_game(rollout).observation[:-1], rollout.weight)
    finite = jnp.isfinite(new.mean).all() & jnp.isfinite(new.variance).all()
    merged = jax.tree.map(lambda a, b: jnp.where(finite, a, b), new, learner.normalizer)
    return Learner(learner.network, learner.optimizer, merged, learner.learning_rate)


def explained_variance(samples: Samples) -> jax.Array:
    """How much of the targets' variance the values explain: 1 is all, 0 is none."""
    target_mean = weighted_mean(samples.target, samples.weight)
    total = weighted_mean(jnp.square(samples.target - target_mean), samples.weight)
    return 1.0 - weighted_mean(jnp.square(samples.target - samples.value), samples.weight) / (total + 1e-8)
