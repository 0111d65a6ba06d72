"""Policies of every kind that can be exported, with weights and statistics that leave nothing at its default."""

import jax
import jax.numpy as jnp
import numpy as np

from slipstream.envs.env import Group
from slipstream.spaces import Box, Discrete, MultiDiscrete
from slipstream.training.config import PolicyConfig
from slipstream.training.config_json import make_settings
from slipstream.training.loading import bare_policy
from slipstream.training.policies import Policies
from slipstream.training.saving import from_named_arrays, named_arrays

SEEN = Box(5)
ARM = Box(2, (-2.0, 0.0), (2.0, 1.0))
PICTURE = Box(40 * 44 * 2, 0.0, 255.0, image=(40, 44, 2))

KINDS = {
    "ppo choices": ("ppo", {"activation": "tanh"}, SEEN, Discrete(3)),
    "ppo several choices": ("ppo", {"activation": "elu"}, SEEN, MultiDiscrete((3, 2))),
    "ppo arm": ("ppo", {"activation": "swish"}, SEEN, ARM),
    "ppo unbounded": ("ppo", {"normalize_observation": False}, SEEN, Box(2)),
    "ppo gru": ("ppo", {"memory": "gru", "memory_size": 6}, SEEN, ARM),
    "a2c lstm": ("a2c", {"memory": "lstm", "memory_size": 6}, SEEN, Discrete(3)),
    "sac": ("sac", {}, SEEN, ARM),
    "td3": ("td3", {}, SEEN, ARM),
    "dqn": ("dqn", {"layer_norm": True}, SEEN, Discrete(4)),
    "dqn dueling": ("dqn", {"dueling": True}, SEEN, MultiDiscrete((3, 2))),
    "dqn atoms": ("dqn", {"dueling": True, "atoms": 11, "value_range": (-3.0, 5.0)}, SEEN, Discrete(3)),
    "ppo picture": ("ppo", {}, PICTURE, Discrete(3)),
}


def made(kind: str, hidden=(16, 8)):
    """The policy as JAX has it, its configuration, and its actor's arrays."""
    algo, settings, observation, action = KINDS[kind]
    config = PolicyConfig(("agent",), algo, make_settings(algo, {"hidden": hidden, **settings}))
    policies = Policies([Group("agent", observation, action)], {"agent": config})
    actor = policies.actors(policies.init(key=jax.random.key(1)))["agent"]
    rng = np.random.default_rng(0)
    arrays = {name: _stirred(name, a, rng) for name, a in named_arrays(actor).items()}
    policy = bare_policy(policies, {"agent": from_named_arrays(actor, arrays, kind)}, "agent", kind)
    return policy, config, arrays


def _stirred(name: str, array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    leaf = name.rpartition("/")[2]
    if leaf == "untrained":
        return np.zeros_like(array)
    if leaf == "noise":
        return np.float32(0.3) * np.ones_like(array)
    if leaf == "count":
        return np.full_like(array, 100.0)
    if leaf == "varied":
        return np.where(np.arange(array.size) == 1, 0.0, 100.0).astype(np.float32)  # one feature never varied
    if leaf == "variance":
        return rng.uniform(0.2, 2.0, array.shape).astype(np.float32)
    scale = 0.2 if leaf in ("log_std", "mean", "bias") else 1.0 / max(array.shape[-1], 1) ** 0.5
    return (array + scale * rng.normal(size=array.shape)).astype(np.float32)


def observations(kind: str, lanes: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    box = KINDS[kind][2]
    if box.image is not None:
        return rng.integers(0, 256, (box.size, lanes)).astype(np.float32)
    seen = rng.normal(size=(box.size, lanes)).astype(np.float32)
    seen[0, 0] = 100.0  # beyond where normalised features are cut off
    return seen


def outcomes(policy, seen, steps: int = 3):
    """What a policy does, step after step: with a memory, the past counts."""
    policy.reset()
    return [np.asarray(policy.act(jnp.asarray(seen * (1.0 - 0.2 * i)))) for i in range(steps)]
