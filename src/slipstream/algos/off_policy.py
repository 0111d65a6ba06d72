"""What the algorithms share that learn from replay: what acts, statistics, optimiser steps, slow copies."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from slipstream.algos.algo import SURPRISE, Replay, Transitions
from slipstream.algos.descent import descend
from slipstream.algos.settings import OffPolicyConfig
from slipstream.nets.average import Average
from slipstream.nets.normalizer import Normalizer, normalized
from slipstream.spaces import Box

ADAM = optax.scale_by_adam()


class Actor(eqx.Module):
    """What acting needs."""

    normalizer: Normalizer | None
    network: Any
    untrained: jax.Array
    """Whether it has not learned anything yet: then it explores by acting at random."""
    noise: jax.Array
    """How much it explores."""


class Kept(eqx.Module):
    """What acting leaves behind for learning."""

    action: jax.Array
    """In the policy's own units, `[components, lanes]`."""


class Trained(eqx.Module):
    """Parameters, and the state of their optimiser.

    The optimiser sees all of them as one vector: networks are small, and every array of its own would cost a loop of
    its own, which takes time to compile and to start.
    """

    value: Any
    optimizer: Any

    @staticmethod
    def fresh(value: Any) -> Trained:
        return Trained(value, ADAM.init(ravel_pytree(value)[0]))

    def step(self, gradient: Any, rate: float, average: Average) -> tuple[Trained, jax.Array]:
        """Parameters one step further, and whether the step was taken."""
        flat, parts = ravel_pytree(average(gradient))
        moved, state, taken = descend(jnp.zeros_like(flat), self.optimizer, flat, ADAM, rate)
        return Trained(jax.tree.map(jnp.add, self.value, parts(moved)), state), taken


def replay_of(config: OffPolicyConfig) -> Replay:
    return Replay(
        capacity=config.replay_size,
        batch=config.batch_size,
        updates_per_step=config.updates_per_step,
        warm_up=config.warm_up,
        n_step=config.n_step,
        discount=config.discount,
        priority=config.priority,
        priority_correction=config.priority_correction,
    )


def fresh_normalizer(config: OffPolicyConfig, observation: Box) -> Normalizer | None:
    wanted = config.normalize_observation and observation.image is None
    return Normalizer.create(observation.size) if wanted else None


def with_seen(normalizer: Normalizer | None, batch: Transitions, average: Average) -> Normalizer | None:
    """Statistics with what a stack of batches has seen in them."""
    if normalizer is None:
        return None
    return normalizer.merge(batch.observation, jnp.ones_like(batch.reward), average)


def prepared(normalizer: Normalizer | None, batch: Transitions, reward_scale: float) -> Transitions:
    """A stack of batches as the networks want it, with weights."""

    def seen(observation: jax.Array) -> jax.Array:
        return jax.vmap(lambda o: normalized(normalizer, o))(observation)

    return eqx.tree_at(
        lambda b: (b.observation, b.next_observation, b.reward, b.weight),
        batch,
        (
            seen(batch.observation),
            seen(batch.next_observation),
            batch.reward * reward_scale,
            jnp.ones_like(batch.reward) if batch.weight is None else batch.weight,
        ),
        is_leaf=lambda leaf: leaf is None,
    )


def summary(history: dict[str, jax.Array], unlearned: jax.Array, average: Average) -> dict[str, jax.Array]:
    """Metrics of an update from those of its gradient steps, `[updates, ...]`."""
    means = average({name: values.mean() for name, values in history.items() if name != SURPRISE})
    surprise = {SURPRISE: history[SURPRISE]} if SURPRISE in history else {}
    return means | {"updates_skipped_in_a_row": unlearned} | surprise


def count_unlearned(unlearned: jax.Array, skipped: jax.Array) -> jax.Array:
    """How many updates in a row had no gradient that was finite; `skipped`: by gradient step, `[updates]`."""
    return jnp.where((skipped >= 1.0).all(), unlearned + 1, 0)
