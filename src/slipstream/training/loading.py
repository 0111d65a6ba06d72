"""Policies out of run directories, ready to act: the actor's part of a checkpoint, and no world."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from slipstream.algos.algo import Algorithm, Inputs
from slipstream.envs.env import Group
from slipstream.nets.memory import forget
from slipstream.runs.checkpoint import Checkpoint, load_checkpoint, read_newest
from slipstream.runs.directory import RunDirectory, RunError
from slipstream.runs.export import is_shared_folder, read_shared_folder
from slipstream.spaces import Box, Discrete, Space, describe, from_json
from slipstream.training import config_json
from slipstream.training.config import PolicyConfig
from slipstream.training.policies import ByPolicy, Policies
from slipstream.training.saving import from_named_arrays, under
from slipstream.training.starting import as_it_was, choose_policy, find_policy


class Policy:
    """A trained policy.

    Attributes:
        name: its name in the run.
        observation_space: what it looks at.
        action_space: what it returns.
    """

    def __init__(self, name: str, algorithm: Algorithm, actor: Any, observation: Box, action: Space, origin: str):
        self.name, self.observation_space, self.action_space = name, observation, action
        self.actor, self.origin = actor, origin
        self._algorithm = algorithm
        self._key = jax.random.key(0)
        self._act = jax.jit(algorithm.act, static_argnames="explore")
        self._memory: Any = None
        self._lanes = 0

    def __repr__(self) -> str:
        spaces = f"{describe(self.observation_space)} -> {describe(self.action_space)}"
        return f"Policy({self.name!r}: {spaces}, from {self.origin})"

    def act(self, observation: Any, *, explore: bool = False, action_mask: Any = None) -> np.ndarray:
        """Actions for observations.

        A policy with a memory remembers what it has seen since `reset`, lane by lane.

        Args:
            observation: `[features, lanes]`, or `[features]` of a single agent.
            explore: sample an action instead of taking the best one.
            action_mask: `[choices, lanes]` (or `[choices]`), which choices are allowed.

        Returns:
            `[components, lanes]` (for `Discrete`: `[lanes]`), without the lane axis for a single agent.
        """
        given = np.asarray(observation, np.float32)
        single = given.ndim == 1
        batch = given[:, None] if single else given
        if batch.ndim != 2 or batch.shape[0] != self.observation_space.size:
            raise ValueError(
                f"Observations must be [{self.observation_space.size}, lanes] (features first), "
                f"got {list(given.shape)}."
            )
        if not np.isfinite(batch).all():
            feature, lane = np.argwhere(~np.isfinite(batch))[0]
            raise ValueError(
                f"Feature {feature} of lane {lane} is {batch[feature, lane]}: observations must be finite."
            )
        lanes = batch.shape[1]
        mask = None if action_mask is None else self._checked_mask(action_mask, lanes)
        self._key, key = jax.random.split(self._key)
        inputs = Inputs(jnp.asarray(batch), mask, None, self._remembered(lanes))
        choice = self._act(self.actor, inputs, explore=explore, key=key)
        self._memory = choice.memory
        result = np.asarray(choice.action[0] if isinstance(self.action_space, Discrete) else choice.action)
        return result[..., 0] if single else result

    def reset(self, where: Any = None) -> None:
        """Forget the past: of all lanes, or of those whose flag in `where` (`[lanes]`) is set."""
        if where is None:
            self._lanes = 0
        elif self._lanes:
            self._memory = forget(self._memory, jnp.asarray(where, bool))

    def _remembered(self, lanes: int) -> Any:
        if self._lanes != lanes:
            self._lanes, self._memory = lanes, self._algorithm.memory(lanes)
        return self._memory

    def _checked_mask(self, given: Any, lanes: int) -> jax.Array:
        mask = jnp.asarray(given, bool)
        shape = (sum(getattr(self.action_space, "choices", ())), lanes)
        if mask.shape != shape and not (lanes == 1 and mask.shape == shape[:1]):
            raise ValueError(f"An action mask must be {list(shape)} (choices first), got {list(mask.shape)}.")
        return mask.reshape(shape)


def load(run: str | Path, policy: str | None = None, checkpoint: str = "best") -> Policy:
    """A policy of a run, ready to act. The world is not needed.

    Args:
        run: the run's directory, or a folder that `slipstream export` has written.
        policy: which one, if there are several.
        checkpoint: `best`, `latest`, or a checkpoint's name (of a run; a folder has one set of weights).
    """
    if is_shared_folder(run):
        policies, actors = _load_shared(run)
    else:
        policies, actors = load_policies(RunDirectory.open(run), checkpoint)
    name = choose_policy(str(run), list(actors), policy)
    return bare_policy(policies, actors, name, str(run))


def _load_shared(folder: str | Path) -> tuple[Policies, ByPolicy]:
    """All policies of a folder that was exported."""
    config, arrays = read_shared_folder(folder)
    policies = Policies(_groups(config, str(folder)), config_json.from_json(config["training"]).policies)
    templates = jax.eval_shape(lambda: policies.actors(policies.init(key=jax.random.key(0))))
    return policies, {n: from_named_arrays(t, under(arrays, n), str(folder)) for n, t in templates.items()}


def bare_policy(policies: Policies, actors: ByPolicy, name: str, origin: str) -> Policy:
    """One of several policies on its own."""
    group = policies.groups[name][0]
    return Policy(name, policies.algorithms[name], actors[name], group.observation, group.action, origin)


def load_policies(
    run: RunDirectory, which: str = "best", opponents: Mapping[str, str] | None = None
) -> tuple[Policies, ByPolicy]:
    """All policies of a run, and what acts by them.

    Args:
        run: the run.
        which: `best`, `latest`, or a checkpoint's name.
        opponents: by group, `RUN` or `RUN:POLICY` that takes the place of the run's own policy.
    """
    # Where there is none, the second one says so.
    checkpoint = read_newest(run, ("actor",), which) or load_checkpoint(run, which)
    groups = groups_of_checkpoint(checkpoint, str(run.path))
    own = config_json.from_json(run.config()).policies
    configs, sources = _with_opponents(own, dict(opponents or {}), [g.name for g in groups])
    policies = Policies(groups, configs)
    return policies, read_actors(policies, checkpoint, sources)


def read_actors(policies: Policies, checkpoint: Checkpoint, sources: Mapping[str, str] | None = None) -> ByPolicy:
    """What acts by the policies of a run, as it was at a checkpoint.

    Args:
        policies: of that run.
        checkpoint: which one.
        sources: by policy, `RUN` or `RUN:POLICY` to take instead.
    """
    templates = jax.eval_shape(lambda: policies.actors(policies.init(key=jax.random.key(0))))
    arrays = checkpoint.part("actor")
    actors = {}
    for name, template in templates.items():
        if sources and name in sources:
            origin, there, _ = find_policy(sources[name])
            found = under(load_checkpoint(origin, "best").part("actor"), there)
            actors[name] = from_named_arrays(template, found, f"Policy {there!r} of {origin.path}")
        else:
            actors[name] = from_named_arrays(
                template, under(arrays, name), f"Checkpoint {checkpoint.name} of {checkpoint.run.path}"
            )
    return actors


def groups_of_checkpoint(checkpoint: Checkpoint, source: str) -> list[Group]:
    """Who acts by the policies of a checkpoint."""
    return _groups(checkpoint.facts, f"Checkpoint {checkpoint.name} of {source}")


def _groups(facts: Mapping[str, Any], source: str) -> list[Group]:
    try:
        return [
            Group(g["name"], _box(from_json(g["observation"])), from_json(g["action"]), g["size"])
            for g in facts["groups"]
        ]
    except (KeyError, TypeError) as error:
        raise RunError(f"{source} does not say what its policies see and do.") from error


def _box(space: Space) -> Box:
    assert isinstance(space, Box)
    return space


def _with_opponents(
    own: Mapping[str, PolicyConfig], opponents: dict[str, str], known: list[str]
) -> tuple[dict[str, PolicyConfig], dict[str, str]]:
    """The policies with some groups handed over, and where the new ones come from."""
    if unknown := [group for group in opponents if group not in known]:
        raise ValueError(f"There is no group {unknown[0]!r} to play for; the groups are {', '.join(known)}.")
    configs: dict[str, PolicyConfig] = {}
    for name, config in own.items():
        left = tuple(g for g in config.groups if g not in opponents)
        if left:
            configs[name] = dataclasses.replace(config, groups=left)
    sources = {f"{group} of {source}": source for group, source in opponents.items()}
    for (name, source), group in zip(sources.items(), opponents):
        configs[name] = as_it_was(PolicyConfig((group,), frozen=True, load=source))
    return configs, sources
