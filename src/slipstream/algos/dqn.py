"""DQN (Mnih et al. 2015), double, dueling and distributional as one wishes.

An agent with several choices at a time learns a value for each of them, as if each were made by an agent of its own.
"""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from slipstream.algos.algo import SURPRISE, Algorithm, Choice, Inputs, Transitions
from slipstream.algos.heads import Head, head_for
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
from slipstream.algos.settings import DQNConfig
from slipstream.nets.agent import NetworkMaker
from slipstream.nets.average import Average, alone
from slipstream.nets.body import body_maker
from slipstream.nets.distributions import Categorical
from slipstream.nets.normalizer import Normalizer, normalized
from slipstream.spaces import Box, Space, describe


class Learner(eqx.Module):
    """The state of the algorithm."""

    network: Trained
    slow_network: Any
    normalizer: Normalizer | None
    updates: jax.Array
    """Gradient steps so far."""
    unlearned: jax.Array
    """How many updates in a row had no gradient that was finite."""


def make_dqn(
    config: DQNConfig, observation: Box, action: Space, *, network: NetworkMaker | None = None, average: Average = alone
) -> Algorithm:
    if isinstance(action, Box):
        raise ValueError(f"DQN needs actions that are choices, not {describe(action)}: take sac, td3, ddpg or ppo.")
    head, choices = head_for(config), action.choices
    make = network or body_maker(observation, config.hidden, config.activation, layer_norm=config.layer_norm)
    return Algorithm(
        init=partial(_init, config, head, choices, observation, make),
        actor=partial(_actor, config),
        memory=lambda lanes: (),
        act=partial(_act, config, head, choices),
        update=partial(_update, config, head, choices, average),
        experience=replay_of(config),
    )


def _init(
    config: DQNConfig,
    head: Head,
    choices: tuple[int, ...],
    observation: Box,
    make: NetworkMaker,
    *,
    key: jax.Array,
) -> Learner:
    outputs = (sum(choices) + (len(choices) if config.dueling else 0)) * head.outputs
    network = make(observation.size, outputs, 0.01, key=key)
    return Learner(
        network=Trained.fresh(network),
        slow_network=jax.tree.map(jnp.copy, network),
        normalizer=fresh_normalizer(config, observation),
        updates=jnp.zeros((), jnp.int32),
        unlearned=jnp.zeros((), jnp.int32),
    )


def _actor(config: DQNConfig, learner: Learner) -> Actor:
    fallen = jnp.minimum(learner.updates / config.exploration_updates, 1.0)
    noise = 1.0 + fallen * (config.exploration_final - 1.0)
    return Actor(learner.normalizer, learner.network.value, learner.updates == 0, noise)


def values(config: DQNConfig, head: Head, choices: tuple[int, ...], network: Any, x: jax.Array) -> list[jax.Array]:
    """What the critic puts out for every choice of each component, `[choices, outputs, lanes]`."""
    out = network(x)
    out = out.reshape(-1, head.outputs, out.shape[-1])
    parts = jnp.split(out, list(accumulate(choices)))[: len(choices)]
    if not config.dueling:
        return parts
    states = out[sum(choices) :]
    return [states[i] + part - part.mean(axis=0) for i, part in enumerate(parts)]


def _act(
    config: DQNConfig,
    head: Head,
    choices: tuple[int, ...],
    actor: Actor,
    inputs: Inputs,
    *,
    explore: bool,
    key: jax.Array,
) -> Choice:
    parts = values(config, head, choices, actor.network, normalized(actor.normalizer, inputs.observation))
    distribution = Categorical(choices)
    means = distribution.masked(jnp.concatenate([head.mean(head.distribution(p)) for p in parts]), inputs.mask)
    action = distribution.mode(means)
    if explore:
        anything = distribution.sample(distribution.masked(jnp.zeros_like(means), inputs.mask), key=key)
        lanes = action.shape[-1]
        share = jnp.where(actor.untrained, 1.0, actor.noise)
        action = jnp.where(jax.random.uniform(jax.random.fold_in(key, 1), (lanes,)) < share, anything, action)
    return Choice(action, Kept(action), ())


def _update(
    config: DQNConfig,
    head: Head,
    choices: tuple[int, ...],
    average: Average,
    learner: Learner,
    batch: Transitions,
    *,
    elapsed: jax.Array | float,
    key: jax.Array,
) -> tuple[Learner, dict[str, jax.Array]]:
    """A gradient step for each batch of the stack (nothing is drawn, and nothing has a schedule by `elapsed`)."""
    seen = with_seen(learner.normalizer, batch, average)
    learner = eqx.tree_at(lambda s: s.normalizer, learner, seen, is_leaf=lambda leaf: leaf is None)
    step = partial(_step, config, head, choices, average)
    learner, history = jax.lax.scan(step, learner, prepared(seen, batch, config.reward_scale))
    unlearned = count_unlearned(learner.unlearned, history["steps_skipped"])
    learner = eqx.tree_at(lambda s: s.unlearned, learner, unlearned)
    return learner, summary(history, unlearned, average) | {"exploration": _actor(config, learner).noise}


def _step(
    config: DQNConfig, head: Head, choices: tuple[int, ...], average: Average, learner: Learner, one: Transitions
) -> tuple[Learner, dict[str, jax.Array]]:
    out = partial(values, config, head, choices)
    slow = [head.distribution(p) for p in out(learner.slow_network, one.next_observation)]
    chooser = slow
    if config.double:
        chooser = [head.distribution(p) for p in out(learner.network.value, one.next_observation)]
    means = Categorical(choices).masked(jnp.concatenate([head.mean(p) for p in chooser]), one.next_mask)
    best = Categorical(choices).mode(means)
    target = jnp.stack(
        [
            head.target(_chosen(distribution, choice), one.reward, one.discount)
            for distribution, choice in zip(slow, best)
        ]
    )
    target, weight = jax.lax.stop_gradient(target), one.weight
    assert weight is not None

    def loss(network: Any) -> tuple[jax.Array, jax.Array]:
        taken = jnp.stack([_chosen(p, choice) for p, choice in zip(out(network, one.observation), one.action)])
        return (head.error(taken, target).mean(axis=0) * weight).mean(), taken

    (error, taken), gradient = jax.value_and_grad(loss, has_aux=True)(learner.network.value)
    network, went = learner.network.step(gradient, config.learning_rate, average)
    slow_network = optax.incremental_update(network.value, learner.slow_network, config.target_rate)
    learner = eqx.tree_at(
        lambda s: (s.network, s.slow_network, s.updates), learner, (network, slow_network, learner.updates + 1)
    )
    mean = head.mean(head.distribution(taken))
    surprise = jnp.abs(mean - head.mean(target)).mean(axis=0)
    return learner, {"critic_loss": error, "value": mean.mean(), "steps_skipped": 1.0 - went, SURPRISE: surprise}


def _chosen(of_choices: jax.Array, choice: jax.Array) -> jax.Array:
    """`[outputs, lanes]` of `[choices, outputs, lanes]`, by a one-hot product: quicker than a gather."""
    return (of_choices * jax.nn.one_hot(choice, len(of_choices), axis=0)[:, None]).sum(axis=0)
