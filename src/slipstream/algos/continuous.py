"""What SAC, TD3 and DDPG share: critics of actions, and a policy that climbs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from slipstream.algos.algo import SURPRISE, Algorithm, Choice, Half, Halves, Inputs, Transitions
from slipstream.algos.heads import Head, combined, head_for
from slipstream.algos.off_policy import (
    Actor,
    Kept,
    Trained,
    count_unlearned,
    fresh_normalizer,
    prepared,
    replay_of,
    summary,
    with_seen,
)
from slipstream.algos.pieces import in_pieces
from slipstream.algos.settings import ContinuousConfig
from slipstream.nets import noise
from slipstream.nets.agent import NetworkMaker
from slipstream.nets.average import Average
from slipstream.nets.body import body_maker
from slipstream.nets.distributions import in_bounds
from slipstream.nets.normalizer import Normalizer, normalized
from slipstream.spaces import Box, Space, describe


class Learner(eqx.Module):
    """The state of the algorithm."""

    policy: Trained
    critics: Trained
    """Networks of observation and action, in a tuple. Stacked they would be one batch of products, which XLA does not
    spread over the cores of a CPU, or would have to be cut out of the stack for every product."""
    slow_critics: Any
    slow_policy: Any
    """None: values are learned from the policy's own actions."""
    log_temperature: Trained | None
    normalizer: Normalizer | None
    updates: jax.Array
    """Gradient steps so far."""
    unlearned: jax.Array
    """How many updates in a row had no gradient that was finite."""


@dataclass(frozen=True)
class Kind:
    """How the algorithms differ."""

    outputs_per_component: int
    """Of the policy's network."""
    slow_policy: bool
    initial_temperature: float | None
    """None: there is no temperature."""
    noise: float
    """How much acting explores, where the policy itself does not."""
    act: Callable[[jax.Array, jax.Array, jax.Array | float], jax.Array]
    """`(outputs, normal, noise) -> actions` while exploring."""
    mode: Callable[[jax.Array], jax.Array]
    """`outputs -> actions` as good as can be."""
    next_action: Callable[[Learner, jax.Array, jax.Array], tuple[jax.Array, jax.Array]]
    """`(learner, next observation, normal)` to what is valued, and what is added to its value, `[lanes]`."""
    policy_loss: Callable[..., tuple[jax.Array, dict[str, jax.Array]]]
    """`(policy, learner, observation, normal, value of an action)` to the loss and metrics, each by lane."""
    temperature_step: Callable[..., Trained] | None = None
    """`(log temperature, means of the metrics of the policy's step)`"""


def make_continuous(
    config: ContinuousConfig,
    kind: Kind,
    observation: Box,
    action: Space,
    network: NetworkMaker | None,
    average: Average,
) -> Algorithm:
    if not (isinstance(action, Box) and action.bounded):
        raise ValueError(
            f"SAC, TD3 and DDPG need actions that are bounded real numbers, not {describe(action)}: take dqn for "
            "choices, or ppo."
        )
    low, high = tuple(action.lows.tolist()), tuple(action.highs.tolist())
    head = head_for(config)
    return Algorithm(
        init=partial(_init, config, kind, head, observation, action, network),
        actor=partial(_actor, kind),
        memory=lambda lanes: (),
        act=partial(_act, kind, low, high),
        update=partial(_update, config, kind, head, average, (_critic_step, _policy_step)),
        experience=replay_of(config),
        halves=Halves(
            critics=Half(partial(_update, config, kind, head, average, (_critic_step,)), _of_critics),
            policy=Half(partial(_update, config, kind, head, average, (_policy_step,)), _of_policy),
        ),
    )


def _init(
    config: ContinuousConfig,
    kind: Kind,
    head: Head,
    observation: Box,
    action: Box,
    network: NetworkMaker | None,
    *,
    key: jax.Array,
) -> Learner:
    policy_key, critic_key = jax.random.split(key)
    hidden = config.hidden if config.critic_hidden is None else config.critic_hidden
    policy = (network or body_maker(observation, config.hidden, config.activation))(
        observation.size, action.size * kind.outputs_per_component, 0.01, key=policy_key
    )
    make = network or body_maker(observation, hidden, config.activation, layer_norm=config.layer_norm)
    inputs, keys = observation.size + action.size, jax.random.split(critic_key, config.critics)
    critics = tuple(make(inputs, head.outputs, 1.0, key=k) for k in keys)
    temperature = kind.initial_temperature
    return Learner(
        policy=Trained.fresh(policy),
        critics=Trained.fresh(critics),
        slow_critics=jax.tree.map(jnp.copy, critics),
        slow_policy=jax.tree.map(jnp.copy, policy) if kind.slow_policy else None,
        log_temperature=None if temperature is None else Trained.fresh(jnp.log(jnp.float32(temperature))),
        normalizer=fresh_normalizer(config, observation),
        updates=jnp.zeros((), jnp.int32),
        unlearned=jnp.zeros((), jnp.int32),
    )


def _actor(kind: Kind, learner: Learner) -> Actor:
    return Actor(learner.normalizer, learner.policy.value, learner.updates == 0, jnp.float32(kind.noise))


def _act(
    kind: Kind,
    low: tuple[float, ...],
    high: tuple[float, ...],
    actor: Actor,
    inputs: Inputs,
    *,
    explore: bool,
    key: jax.Array,
) -> Choice:
    outputs = actor.network(normalized(actor.normalizer, inputs.observation))
    if explore:
        shape = (len(low), inputs.observation.shape[-1])
        exploring = kind.act(outputs, noise.normal(key, shape), actor.noise)
        random = noise.uniform(jax.random.fold_in(key, 1), shape)
        action = jnp.where(actor.untrained, random, exploring)
    else:
        action = kind.mode(outputs)
    return Choice(in_bounds(action, low, high), Kept(action), ())


def values(critics: tuple[Any, ...], observation: jax.Array, action: jax.Array) -> jax.Array:
    """What all critics put out, `[critics, outputs, lanes]`."""
    x = jnp.concatenate([observation, action])
    return jnp.stack([critic(x) for critic in critics])


Step = Callable[..., tuple[Learner, dict[str, jax.Array]]]


def _update(
    config: ContinuousConfig,
    kind: Kind,
    head: Head,
    average: Average,
    steps: tuple[Step, ...],
    learner: Learner,
    batch: Transitions,
    *,
    elapsed: jax.Array | float,
    key: jax.Array,
) -> tuple[Learner, dict[str, jax.Array]]:
    """Some steps for each batch of the stack (`elapsed` is not needed: nothing has a schedule)."""
    seen = with_seen(learner.normalizer, batch, average)
    learner = eqx.tree_at(lambda s: s.normalizer, learner, seen, is_leaf=lambda leaf: leaf is None)
    updates, components, lanes = batch.action.shape
    normal = noise.normal(key, (updates, 2, components, lanes))

    def step(learner: Learner, inputs: tuple[Transitions, jax.Array]) -> tuple[Learner, dict[str, jax.Array]]:
        metrics: dict[str, jax.Array] = {}
        for one_step in steps:
            learner, told = one_step(config, kind, head, average, learner, *inputs)
            metrics |= told
        return eqx.tree_at(lambda s: s.updates, learner, learner.updates + 1), metrics

    learner, history = jax.lax.scan(step, learner, (prepared(seen, batch, config.reward_scale), normal))
    if "steps_skipped" in history:
        unlearned = count_unlearned(learner.unlearned, history["steps_skipped"])
        learner = eqx.tree_at(lambda s: s.unlearned, learner, unlearned)
    if "policy_steps" in history:
        taken = history.pop("policy_steps")  # the others left zeros
        scale = updates / jnp.maximum(taken.sum(), 1)
        history |= {name: history[name] * scale for name in ("policy_loss", "entropy") if name in history}
    metrics = summary(history, learner.unlearned, average)
    if learner.log_temperature is not None:
        metrics["temperature"] = jnp.exp(learner.log_temperature.value)
    return learner, metrics


def _of_critics(learner: Learner) -> tuple[Any, ...]:
    return learner.critics, learner.slow_critics, learner.unlearned


def _of_policy(learner: Learner) -> tuple[Any, ...]:
    return learner.policy, learner.slow_policy, learner.log_temperature


def _critic_step(
    config: ContinuousConfig, kind: Kind, head: Head, average: Average, learner: Learner, one: Transitions, normal: Any
) -> tuple[Learner, dict[str, jax.Array]]:
    lanes = one.reward.shape[-1]

    def of_lanes(inputs: tuple[Transitions, jax.Array]) -> tuple[tuple[Any, ...], jax.Array]:
        some, normal = inputs
        weight = some.weight
        assert weight is not None
        action, bonus = kind.next_action(learner, some.next_observation, normal)
        following = head.distribution(values(learner.slow_critics, some.next_observation, action))
        reward = some.reward + some.discount * bonus
        target = jax.lax.stop_gradient(head.target(combined(head, following, config.combine), reward, some.discount))

        def loss(critics: Any) -> tuple[jax.Array, jax.Array]:
            out = values(critics, some.observation, some.action)
            return (head.error(out, target) * weight).sum() / lanes, out

        (error, out), gradient = jax.value_and_grad(loss, has_aux=True)(learner.critics.value)
        mean = head.mean(head.distribution(out)).mean(axis=0)
        return (error, gradient, mean.sum() / lanes), jnp.abs(mean - head.mean(target))

    (error, gradient, value), surprise = in_pieces(of_lanes, (one, normal[0]), config.critic_hidden or config.hidden)
    critics, taken = learner.critics.step(gradient, config.learning_rate, average)
    learner = eqx.tree_at(
        lambda s: (s.critics, s.slow_critics),
        learner,
        (critics, optax.incremental_update(critics.value, learner.slow_critics, config.target_rate)),
    )
    return learner, {"critic_loss": error, "value": value, "steps_skipped": 1.0 - taken, SURPRISE: surprise}


def _policy_step(
    config: ContinuousConfig, kind: Kind, head: Head, average: Average, learner: Learner, one: Transitions, normal: Any
) -> tuple[Learner, dict[str, jax.Array]]:
    """A step of the policy, when it is its turn."""
    lanes = one.reward.shape[-1]

    def of_lanes(policy: Any, inputs: tuple[jax.Array, jax.Array]) -> tuple[tuple[Any, ...], tuple[()]]:
        x, normal = inputs

        def value_of(action: jax.Array) -> jax.Array:
            distributions = head.distribution(values(learner.critics.value, x, action))
            return head.mean(combined(head, distributions, config.combine))

        def loss(policy: Any) -> tuple[jax.Array, dict[str, jax.Array]]:
            by_lane = kind.policy_loss(policy, learner, x, normal, value_of)
            return jax.tree.map(lambda v: v.sum() / lanes, by_lane)

        return jax.value_and_grad(loss, has_aux=True)(policy), ()

    def turn(state: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, jax.Array]]:
        policy, slow, temperature = state
        seen = (one.observation, normal[1])
        (loss, gradient), _ = in_pieces(partial(of_lanes, policy.value), seen, config.hidden)
        policy, _ = policy.step(gradient, config.learning_rate, average)
        if slow is not None:
            slow = optax.incremental_update(policy.value, slow, config.target_rate)
        metrics = {"policy_loss": loss[0], **loss[1], "policy_steps": jnp.float32(1.0)}
        if temperature is not None and kind.temperature_step is not None:
            temperature = kind.temperature_step(temperature, loss[1])
        return (policy, slow, temperature), metrics

    state = _of_policy(learner)
    if config.policy_delay == 1:
        state, metrics = turn(state)
    else:
        nothing = jax.tree.map(lambda m: jnp.zeros(m.shape, m.dtype), jax.eval_shape(turn, state)[1])
        due = learner.updates % config.policy_delay == config.policy_delay - 1
        state, metrics = jax.lax.cond(due, turn, lambda s: (s, nothing), state)
    return eqx.tree_at(_of_policy, learner, state, is_leaf=lambda leaf: leaf is None), metrics
