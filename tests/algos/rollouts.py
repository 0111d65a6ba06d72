"""Rollouts out of random numbers, acted by a real learner: what the tests of algorithms update on."""

import dataclasses
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from slipstream.algos.a2c import make_a2c
from slipstream.algos.actor_critic import Learner, act, actor
from slipstream.algos.actor_critic import prepare as prepare_samples
from slipstream.algos.algo import Algorithm, Inputs, Rollout
from slipstream.algos.ppo import make_ppo
from slipstream.algos.settings import A2CConfig, ActorCriticConfig, PPOConfig
from slipstream.nets.average import alone
from slipstream.spaces import Box, Discrete, MultiDiscrete, Space

STEPS, FEATURES, LANES = 5, 3, 8
OBSERVATION = Box(FEATURES)
SMALL = dict(hidden=(8,), learning_rate=0.01)
SPACES = {"discrete": Discrete(3), "multi-discrete": MultiDiscrete((2, 3)), "continuous": Box(2, -1.0, 1.0)}

_act = jax.jit(act, static_argnames="explore")
_prepare = jax.jit(prepare_samples, static_argnums=(0, 1))


def prepared(config: ActorCriticConfig, learner: Learner, rollout: Rollout):
    return _prepare(config, alone, learner, rollout)


@cache
def algorithm(config: ActorCriticConfig, space: Space = SPACES["discrete"]) -> Algorithm:
    """The algorithm of a configuration, with its update compiled once for all tests."""
    maker = make_ppo if isinstance(config, PPOConfig) else make_a2c
    made = maker(config, OBSERVATION, space)  # type: ignore[arg-type]
    return dataclasses.replace(made, update=jax.jit(made.update))


@cache
def new_learner(config: ActorCriticConfig, space: Space = SPACES["discrete"]) -> Learner:
    return jax.jit(lambda key: algorithm(config, space).init(key=key))(jax.random.key(0))


def new_rollout(
    learner: Learner, seed: int = 0, *, active: np.ndarray | None = None, mask: np.ndarray | None = None
) -> Rollout:
    """Random observations, rewards and ends; actions by the learner.

    Args:
        learner: who acts.
        seed: of everything.
        active: `[steps + 1, lanes]`.
        mask: `[steps + 1, choices, lanes]`.
    """
    rng = np.random.default_rng(seed)
    observation = jnp.asarray(rng.normal(size=(STEPS + 1, FEATURES, LANES)), jnp.float32)
    masks = None if mask is None else jnp.asarray(mask)
    keys = jax.random.split(jax.random.key(seed), STEPS)
    choices = []
    player, memory = actor(learner), learner.network.memory and learner.network.memory.empty(LANES)
    for t in range(STEPS):
        inputs = Inputs(observation[t], None if masks is None else masks[t], None, memory)
        choices.append(_act(player, inputs, explore=True, key=keys[t]))
        memory = choices[-1].memory
    end = rng.random((STEPS, LANES))
    return Rollout(
        observation=observation,
        kept=jax.tree.map(lambda *parts: jnp.stack(parts), *(c.kept for c in choices)),
        reward=jnp.asarray(rng.normal(size=(STEPS, LANES)), jnp.float32),
        terminated=jnp.asarray(end < 0.15),
        truncated=jnp.asarray(end > 0.85),
        final_observation=jnp.asarray(rng.normal(size=(STEPS, FEATURES, LANES)), jnp.float32),
        begins=jnp.zeros((STEPS + 1, LANES), bool),
        active=None if active is None else jnp.asarray(active),
        action_mask=masks,
    )


def with_fields(rollout: Rollout, **fields) -> Rollout:
    """The rollout with other fields; `action` and `log_prob` are those of what was kept."""
    for name in ("action", "log_prob"):
        if name in fields:
            kept = dataclasses.replace(rollout.kept, **{name: jnp.asarray(fields.pop(name))})
            rollout = dataclasses.replace(rollout, kept=kept)
    for name, value in fields.items():
        rollout = eqx.tree_at(lambda r, n=name: getattr(r, n), rollout, jnp.asarray(value), is_leaf=lambda x: x is None)
    return rollout


def learn(config: ActorCriticConfig, learner: Learner, rollout: Rollout, elapsed: float = 0.0, seed: int = 0):
    """The learner and the metrics after an update."""
    space = next(s for s in SPACES.values() if _fits(s, learner))
    return algorithm(config, space).update(learner, rollout, elapsed=jnp.float32(elapsed), key=jax.random.key(seed))


def _fits(space: Space, learner: Learner) -> bool:
    from slipstream.nets.distributions import distribution_for

    return distribution_for(space) == learner.network.policy.distribution


def leaves(tree) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array))]


def same_bits(a, b) -> bool:
    return all(x.tobytes() == y.tobytes() for x, y in zip(leaves(a), leaves(b), strict=True))


PPO = PPOConfig(epochs=2, minibatches=2, **SMALL)
A2C = A2CConfig(**SMALL)
