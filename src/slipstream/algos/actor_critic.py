"""What PPO and A2C share: the learner's state, acting, values, advantages and one optimiser step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from slipstream.algos.algo import Algorithm, Choice, Inputs, Rollout, WholeRollout
from slipstream.algos.descent import descend
from slipstream.algos.pieces import in_pieces
from slipstream.algos.returns import generalized_advantage
from slipstream.algos.samples import Samples, standardized, weighted_mean
from slipstream.algos.settings import ActorCriticConfig
from slipstream.nets.agent import ActorCritic, NetworkMaker, PolicyNetwork
from slipstream.nets.average import Average
from slipstream.nets.body import body_maker
from slipstream.nets.distributions import distribution_for
from slipstream.nets.memory import Memory
from slipstream.nets.normalizer import Normalizer, normalized
from slipstream.spaces import Box, Space

FINAL_CHUNK = 4096
"""How many truncated episodes are valued at a time."""


class Actor(eqx.Module):
    """What acting needs."""

    normalizer: Normalizer | None
    memory: Memory | None
    policy: PolicyNetwork


class Kept(eqx.Module):
    """What acting leaves behind for learning."""

    action: jax.Array
    """In the policy's own units, `[components, lanes]`."""
    log_prob: jax.Array
    """`[lanes]`"""
    memory: Any
    """What was remembered before acting."""


class Learner(eqx.Module):
    """The state of an actor-critic algorithm: all that a checkpoint must keep of it."""

    network: Any
    """An `ActorCritic` (for Optax, any pytree)."""
    optimizer: Any
    normalizer: Normalizer | None
    learning_rate: jax.Array
    unlearned: jax.Array
    """How many updates in a row had no gradient that was finite."""


def make_actor_critic(
    config: ActorCriticConfig,
    optimizer: optax.GradientTransformation,
    update: Callable[..., tuple[Learner, dict[str, jax.Array]]],
    observation: Box,
    action: Space,
    network: NetworkMaker | None,
    average: Average,
) -> Algorithm:
    """The record of an algorithm that differs from its siblings in its optimiser and its update alone."""
    if config.memory != "none" and observation.image is not None:
        raise ValueError("A memory does not look at pictures: leave memory unset, and stack frames instead.")
    init = partial(init_learner, config, optimizer, observation, action, network)
    return Algorithm(
        init=init,
        actor=actor,
        memory=partial(_empty_memory, config, observation),
        act=act,
        update=partial(_guarded, partial(update, config, optimizer, average), average),
        experience=WholeRollout(),
    )


def init_learner(
    config: ActorCriticConfig,
    optimizer: optax.GradientTransformation,
    observation: Box,
    action: Space,
    network: NetworkMaker | None,
    *,
    key: jax.Array,
) -> Learner:
    image = observation.image is not None
    seen = observation if config.memory == "none" else Box(config.memory_size)
    made: Any = ActorCritic(
        observation.size,
        distribution_for(action),
        network or body_maker(seen, config.hidden, config.activation),
        config.initial_log_std,
        None if config.memory == "none" else lambda k: _memory(config, observation, key=k),
        key=key,
    )
    return Learner(
        network=made,
        optimizer=optimizer.init(made),
        normalizer=Normalizer.create(observation.size) if config.normalize_observation and not image else None,
        learning_rate=jnp.asarray(config.learning_rate, jnp.float32),
        unlearned=jnp.zeros((), jnp.int32),
    )


def _memory(config: ActorCriticConfig, observation: Box, *, key: jax.Array) -> Memory:
    return Memory(config.memory, observation.size, config.memory_size, key=key)


def _empty_memory(config: ActorCriticConfig, observation: Box, lanes: int) -> Any:
    if config.memory == "none":
        return ()
    return _memory(config, observation, key=jax.random.key(0)).empty(lanes)


def actor(learner: Learner) -> Actor:
    return Actor(learner.normalizer, learner.network.memory, learner.network.policy)


def act(actor: Actor, inputs: Inputs, *, explore: bool, key: jax.Array) -> Choice:
    x, memory = normalized(actor.normalizer, inputs.observation), inputs.memory
    if actor.memory is not None:
        x, memory = actor.memory(x, memory)
    distribution = actor.policy.distribution
    parameters = actor.policy(x, inputs.mask)
    action = distribution.sample(parameters, key=key) if explore else distribution.mode(parameters)
    kept = Kept(action, distribution.log_prob(parameters, action), inputs.memory)
    return Choice(distribution.to_env(action), kept, memory)


def prepare(config: ActorCriticConfig, average: Average, learner: Learner, rollout: Rollout) -> Samples:
    """Values, advantages and targets of a rollout, flat."""
    steps, lanes = rollout.reward.shape
    rollout = of_those_in_the_game(rollout)
    network, kept = learner.network, rollout.kept
    x = jax.vmap(lambda o: normalized(learner.normalizer, o))(rollout.observation)
    features, carried, start = x, None, None
    if network.memory is not None:
        start = jax.tree.map(lambda m: m[0], kept.memory)
        features, carried = network.memory.unroll(x, start, rollout.begins.at[0].set(False))
    value = jax.vmap(network.value)(features)
    next_value = value_after(learner, rollout, value[1:], carried)
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
        advantage = standardized(advantage, weight, average)

    def flat(a: jax.Array) -> jax.Array:  # [steps, k, lanes] -> [k, steps * lanes]
        return jnp.moveaxis(a, 0, 1).reshape(a.shape[1], steps * lanes)

    return Samples(
        x=flat(x[:-1]),
        action=flat(kept.action),
        mask=None if rollout.action_mask is None else flat(rollout.action_mask[:-1]),
        log_prob=kept.log_prob.reshape(-1),
        advantage=advantage.reshape(-1),
        value=value[:-1].reshape(-1),
        target=target.reshape(-1),
        weight=weight.reshape(-1),
        begins=None if start is None else rollout.begins[:-1].reshape(-1),
        start=start,
    )


def features_of(network: ActorCritic, batch: Samples) -> jax.Array:
    """What policy and value see, `[features, samples]`: the observations, or what is remembered of them."""
    if network.memory is None:
        return batch.x
    lanes = jax.tree.leaves(batch.start)[0].shape[-1]
    x = jnp.moveaxis(batch.x.reshape(batch.x.shape[0], -1, lanes), 0, 1)
    assert batch.begins is not None
    begins = batch.begins.reshape(-1, lanes).at[0].set(False)
    out, _ = network.memory.unroll(x, batch.start, begins)
    return jnp.moveaxis(out, 0, 1).reshape(network.memory.size, -1)


def of_those_in_the_game(rollout: Rollout) -> Rollout:
    """The rollout with zeros where an agent is out of the game: 0 times what is not finite would not be 0."""
    if rollout.active is None:
        return rollout
    now, step = rollout.active, rollout.active[:-1]
    return eqx.tree_at(
        lambda r: (r.observation, r.kept.action, r.kept.log_prob, r.reward, r.final_observation),
        rollout,
        (
            jnp.where(now[:, None], rollout.observation, 0.0),
            jnp.where(step[:, None], rollout.kept.action, 0),
            jnp.where(step, rollout.kept.log_prob, 0.0),
            jnp.where(step, rollout.reward, 0.0),
            jnp.where(step[:, None], rollout.final_observation, 0.0),
        ),
    )


def value_after(learner: Learner, rollout: Rollout, following: jax.Array, carried: Any) -> jax.Array:
    """The value of what each step led to: of the final observation where the episode was truncated.

    Truncations are few, so only they are valued, a chunk at a time.

    Args:
        learner: whose values.
        rollout: of `[steps, lanes]`.
        following: value of the next slot's observation, `[steps, lanes]`.
        carried: what is remembered after each slot, `[steps + 1, size, lanes]`; None without a memory.
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
        x = normalized(learner.normalizer, rollout.final_observation[safe // lanes, :, safe % lanes].T)
        if learner.network.memory is not None:
            x, _ = learner.network.memory(x, jax.tree.map(lambda c: c[safe // lanes, :, safe % lanes].T, carried))
        return i + 1, values.at[index].set(learner.network.value(x), mode="drop")

    _, values = jax.lax.while_loop(pending, value_chunk, (jnp.zeros((), jnp.int32), following.reshape(-1)))
    return values.reshape(steps, lanes)


def gradient_of(
    loss: Callable[..., tuple[jax.Array, dict[str, jax.Array]]],
    network: ActorCritic,
    config: ActorCriticConfig,
    batch: Samples,
    *arguments: jax.Array,
) -> tuple[ActorCritic, dict[str, jax.Array]]:
    """The gradient of a loss and its metrics, both of which are sums over samples."""
    gradient = jax.grad(loss, has_aux=True)
    if network.memory is not None:  # what is remembered ties the samples of a lane together
        return gradient(network, config, batch, *arguments)
    found, _ = in_pieces(lambda some: (gradient(network, config, some, *arguments), ()), batch, config.hidden)
    return found


def scheduled(start: float, final: float | None, elapsed: jax.Array | float) -> jax.Array:
    """Linear from start to final while `elapsed` goes from 0 to 1."""
    return jnp.asarray(start if final is None else start + (final - start) * elapsed, jnp.float32)


def descended(
    learner: Learner, gradient: Any, optimizer: optax.GradientTransformation, rate: jax.Array, average: Average
) -> tuple[Learner, jax.Array]:
    """The learner one step further, and whether the step was taken."""
    network, state, taken = descend(learner.network, learner.optimizer, average(gradient), optimizer, rate)
    return eqx.tree_at(lambda s: (s.network, s.optimizer), learner, (network, state)), taken


def with_observed(learner: Learner, rollout: Rollout, average: Average) -> Learner:
    """The learner with the rollout's observations in its statistics (for the next rollout, not for this one)."""
    if learner.normalizer is None:
        return learner
    seen = learner.normalizer.merge(of_those_in_the_game(rollout).observation[:-1], rollout.weight, average)
    return eqx.tree_at(lambda s: s.normalizer, learner, seen)


def _guarded(
    update: Callable[..., tuple[Learner, dict[str, jax.Array]]],
    average: Average,
    learner: Learner,
    rollout: Rollout,
    *,
    elapsed: jax.Array | float,
    key: jax.Array,
) -> tuple[Learner, dict[str, jax.Array]]:
    """The update, with a count of what in the rollout cannot be learned from."""
    learner, metrics = update(learner, rollout, elapsed=elapsed, key=key)
    nothing = metrics["steps_skipped"] >= 1.0
    unlearned = jnp.where(nothing, learner.unlearned + 1, 0)
    learner = eqx.tree_at(lambda s: s.unlearned, learner, unlearned)
    return learner, metrics | {"updates_skipped_in_a_row": unlearned, **average.total(unusable(learner, rollout))}


def unusable(learner: Learner, rollout: Rollout) -> dict[str, jax.Array]:
    """How many observations of agents in the game are not finite, and how many agents had no choice that is allowed."""
    in_game = rollout.weight > 0
    finite = jnp.isfinite(rollout.observation[:-1]).all(axis=1)
    counts = {"observations_not_finite": (in_game & ~finite).sum()}
    if rollout.action_mask is not None:
        ends = list(accumulate(learner.network.policy.distribution.choices))[:-1]
        parts = jnp.split(rollout.action_mask[:-1], ends, axis=1)
        allowed = jnp.stack([part.any(axis=1) for part in parts]).all(axis=0)
        counts["nothing_allowed"] = (in_game & ~allowed).sum()
    return counts


def explained_variance(samples: Samples, average: Average) -> jax.Array:
    """How much of the targets' variance the values explain: 1 is all, 0 is none."""

    def mean(x: jax.Array) -> jax.Array:
        return weighted_mean(x, samples.weight, average)

    total = mean(jnp.square(samples.target - mean(samples.target)))
    return 1.0 - mean(jnp.square(samples.target - samples.value)) / (total + 1e-8)
