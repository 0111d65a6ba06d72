"""Policies out of run directories: to act with, to play against, or to go on from."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from slipstream.algos.algo import Algorithm
from slipstream.envs.registry import make_env
from slipstream.runs.checkpoint import Checkpoint, load_checkpoint
from slipstream.runs.directory import RunDirectory, RunError
from slipstream.spaces import Box, Discrete, Space
from slipstream.training.config import TrainConfig
from slipstream.training.policies import Policies, States
from slipstream.training.saving import from_named_arrays


class Policy:
    """A trained policy.

    Attributes:
        name: its name in the run.
        observation_space: what it looks at.
        action_space: what it returns.
    """

    def __init__(self, name: str, algorithm: Algorithm, state: Any, observation: Box, action: Space):
        self.name, self.observation_space, self.action_space = name, observation, action
        self.state = state
        self._key = jax.random.key(0)
        self._best = jax.jit(lambda s, o, m: algorithm.to_env(algorithm.act_best(s, o, m)))
        self._sample = jax.jit(lambda s, o, m, k: algorithm.to_env(algorithm.act(s, o, m, key=k).action))

    def act(self, observation: Any, *, explore: bool = False, action_mask: Any = None) -> np.ndarray:
        """Actions for observations.

        Args:
            observation: `[features, lanes]`, or `[features]` of a single agent.
            explore: sample an action instead of taking the best one.
            action_mask: `[choices, lanes]` (or `[choices]`), which choices are allowed.

        Returns:
            `[components, lanes]` (for `Discrete`: `[lanes]`), without the lane axis for a single agent.
        """
        given = jnp.asarray(observation, jnp.float32)
        single = given.ndim == 1
        batch = given[:, None] if single else given
        if batch.ndim != 2 or batch.shape[0] != self.observation_space.size:
            raise ValueError(
                f"Observations must be [{self.observation_space.size}, lanes] (features first), "
                f"got {list(given.shape)}."
            )
        mask = None if action_mask is None else self._checked_mask(action_mask, batch.shape[1])
        if explore:
            self._key, key = jax.random.split(self._key)
            action = self._sample(self.state, batch, mask, key)
        else:
            action = self._best(self.state, batch, mask)
        result = np.asarray(action[0] if isinstance(self.action_space, Discrete) else action)
        return result[..., 0] if single else result

    def _checked_mask(self, given: Any, lanes: int) -> jax.Array:
        mask = jnp.asarray(given, bool)
        shape = (sum(getattr(self.action_space, "choices", ())), lanes)
        if mask.shape != shape and not (lanes == 1 and mask.shape == shape[:1]):
            raise ValueError(f"An action mask must be {list(shape)} (choices first), got {list(mask.shape)}.")
        return mask.reshape(shape)


def load(run: str, policy: str | None = None, checkpoint: str = "best") -> Policy:
    """A policy of a run, ready to act.

    Args:
        run: the run's directory.
        policy: which one, if the run has several.
        checkpoint: `best`, `latest`, or a checkpoint's name.
    """
    directory = RunDirectory.open(run)
    policies, states = load_policies(directory, checkpoint)
    name = choose_policy(str(run), list(states), policy)
    group = policies.groups[name][0]
    return Policy(name, policies.algorithms[name], states[name], group.observation, group.action)


def choose_policy(run: str, names: list[str], wanted: str | None) -> str:
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted not in names:
        what = "has several policies" if wanted is None else f"has no policy {wanted!r}"
        raise RunError(f"{run} {what}: choose one of {', '.join(names)}.")
    return wanted


def load_policies(run: RunDirectory, which: str = "best") -> tuple[Policies, States]:
    """All policies of a run with their weights."""
    config = TrainConfig.from_json(run.config())
    policies = Policies(make_env(config.env, **dict(config.env_options)), config.policies)
    return policies, restored_states(policies, load_checkpoint(run, which), str(run.path))


def restored_states(policies: Policies, checkpoint: Checkpoint, source: str) -> States:
    template = jax.eval_shape(lambda: policies.init(key=jax.random.key(0)))
    return from_named_arrays(
        template, checkpoint.part("learner"), "policy", f"Checkpoint {checkpoint.name} of {source}"
    )


def initial_states(policies: Policies, *, key: jax.Array) -> States:
    """Fresh states, or those of an earlier run where a policy is to begin from one."""
    states = jax.jit(lambda k: policies.init(key=k))(key)
    for name, config in policies.configs.items():
        if config.load is not None:
            states[name] = _state_from(config.load, states[name])
    return states


def _state_from(source: str, template: Any) -> Any:
    path, _, wanted = source.rpartition(":") if not RunDirectory(source).path.is_dir() else (source, "", "")
    run = RunDirectory.open(path or source)
    names = list(TrainConfig.from_json(run.config()).policies)
    name = choose_policy(path or source, names, wanted or None)
    checkpoint = load_checkpoint(run, "best")
    arrays = {
        f"policy{rest}": a
        for key, a in checkpoint.part("learner").items()
        if key.startswith("policy") and (rest := key.removeprefix(f"policy['{name}']")) != key
    }
    return from_named_arrays(template, arrays, "policy", f"Policy {name!r} of {path or source}")
