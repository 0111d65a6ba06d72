"""Rollouts out of random numbers, acted by a real learner: what the tests of algorithms update on."""

import dataclasses
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from slipstream.algos.a2c import A2CConfig, make_a2c
from slipstream.algos.actor_critic import ActorCriticConfig, Learner, act, prepare
from slipstream.algos.algo import Algorithm, Rollout
from slipstream.algos.ppo import PPOConfig, make_ppo
from slipstream.spaces import Box, Discrete, MultiDiscrete, Space

STEPS, FEATURES, LANES = 5, 3, 8
OBSERVATION = Box(FEATURES)
SMALL = dict(hidden=(8,), learning_rate=0.01)
SPACES = {"discrete": Discrete(3), "multi-discrete": MultiDiscrete((2, 3)), "continuous": Box(2, -1.0, 1.0)}

_act = jax.jit(act)
prepared = jax.jit(prepare, static_argnums=0)


@cache
def algorithm(config: ActorCriticConfig, space: Space = SPACES["discrete"]) -> Algorithm:
    """The algorithm of a configuration, with its update compiled once for all tests."""
    made = make_ppo(config, space) if isinstance(config, PPOConfig) else make_a2c(config, space)
    return dataclasses.replace(made, update=jax.jit(made.update))


@cache
def new_learner(config: ActorCriticConfig, space: Space = SPACES["discrete"]) -> Learner:
    return jax.jit(lambda key: algorithm(config, space).init(OBSERVATION, space, key=key))(jax.random.key(0))


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
    chosen = [_act(learner, observation[t], None if masks is None else masks[t], key=keys[t]) for t in range(STEPS)]
    end = rng.random((STEPS, LANES))
    return Rollout(
        observation=observation,
        action=jnp.stack([c.action for c in chosen]),
        log_prob=jnp.stack([c.log_prob for c in chosen]),
        reward=jnp.asarray(rng.normal(size=(STEPS, LANES)), jnp.float32),
        terminated=jnp.asarray(end < 0.15),
        truncated=jnp.asarray(end > 0.85),
        final_observation=jnp.asarray(rng.normal(size=(STEPS, FEATURES, LANES)), jnp.float32),
        active=None if active is None else jnp.asarray(active),
        action_mask=masks,
    )


def with_fields(rollout: Rollout, **fields) -> Rollout:
    for name, value in fields.items():
        rollout = eqx.tree_at(lambda r, n=name: getattr(r, n), rollout, jnp.asarray(value), is_leaf=lambda x: x is None)
    return rollout


def learn(config: ActorCriticConfig, learner: Learner, rollout: Rollout, progress: float = 0.0, seed: int = 0):
    """The learner and the metrics after an update."""
    space = next(s for s in SPACES.values() if _fits(s, learner))
    return algorithm(config, space).update(learner, rollout, jnp.float32(progress), key=jax.random.key(seed))


def _fits(space: Space, learner: Learner) -> bool:
    from slipstream.nets.distributions import distribution_for

    return distribution_for(space) == learner.network.distribution


def leaves(tree) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array))]


def same_bits(a, b) -> bool:
    return all(x.tobytes() == y.tobytes() for x, y in zip(leaves(a), leaves(b), strict=True))


PPO = PPOConfig(epochs=2, minibatches=2, **SMALL)
A2C = A2CConfig(**SMALL)
