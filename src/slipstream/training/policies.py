"""Several policies in one training run: who acts by which, and how their experience is put together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from slipstream.algos.algo import Algorithm, Extras, Rollout
from slipstream.arrays import keep_compiled_programs
from slipstream.envs.env import Env, Group
from slipstream.training.config import PolicyConfig

States = dict[str, Any]
Views = dict[str, Any]


class Policies:
    """The policies of a run, by name. Their states are kept by the caller: everything here is a pure function."""

    def __init__(self, env: Env, configs: Mapping[str, PolicyConfig]):
        check_policies(env, configs)
        keep_compiled_programs()
        self.configs = configs
        self.groups: dict[str, list[Group]] = {
            name: [env.group(g) for g in config.groups] for name, config in configs.items()
        }
        self.algorithms: dict[str, Algorithm] = {
            name: config.algorithm(self.groups[name][0].action) for name, config in configs.items()
        }
        self.learning = [name for name, config in configs.items() if not config.frozen]
        self._act = jax.jit(self._act_all, donate_argnames="extras")
        self._update = jax.jit(self._update_all)
        self.act_best = jax.jit(self._act_best_all)
        """`(states, views) -> actions by group`, without exploration, from slot 0."""

    def init(self, *, key: jax.Array) -> States:
        keys = jax.random.split(key, len(self.configs))
        return {
            name: self.algorithms[name].init(groups[0].observation, groups[0].action, key=k)
            for (name, groups), k in zip(self.groups.items(), keys)
        }

    def empty_extras(self, steps: int, num_worlds: int) -> dict[str, Extras]:
        """Room for what acting leaves behind over a rollout, of the policies that learn."""
        extras = {}
        for name in self.learning:
            groups = self.groups[name]
            lanes = num_worlds * sum(g.size for g in groups)
            space = groups[0].action
            kind = np.int32 if hasattr(space, "choices") else np.float32
            action, log_prob = np.zeros((steps, space.size, lanes), kind), np.zeros((steps, lanes), np.float32)
            extras[name] = Extras(*jax.device_put((action, log_prob), jax.devices()[0]))
        return extras

    def _act_all(
        self, states: States, views: Views, slot: int, extras: dict[str, Extras], key: jax.Array, iteration: int
    ) -> tuple[dict[str, Extras], dict[str, jax.Array]]:
        actions: dict[str, jax.Array] = {}
        kept = {}
        now = jax.random.fold_in(jax.random.fold_in(key, iteration), slot)
        keys = jax.random.split(now, len(self.groups))
        for (name, groups), k in zip(self.groups.items(), keys):
            observation, mask = self._inputs(views, groups, slot)
            new = self.algorithms[name].act(states[name], observation, mask, key=k)
            actions |= self._deal(name, self.algorithms[name].to_env(new.action))
            if name in extras:
                kept[name] = jax.tree.map(lambda room, value: room.at[slot].set(value), extras[name], new)
        return kept, actions

    def act(
        self,
        states: States,
        views: Views,
        slot: int,
        extras: dict[str, Extras],
        *,
        key: jax.Array,
        iteration: int = 0,
    ) -> tuple[dict[str, Extras], dict[str, jax.Array]]:
        """Choose every agent's action from what a slot of the store shows.

        What is drawn depends on the key, the iteration and the slot, so one key serves a whole run.

        Returns:
            The extras with this slot's filled in (the given ones are used up), and the actions by group.
        """
        return self._act(states, views, slot, extras, key, iteration)

    def _act_best_all(self, states: States, views: Views) -> dict[str, jax.Array]:
        actions: dict[str, jax.Array] = {}
        for name, groups in self.groups.items():
            observation, mask = self._inputs(views, groups, 0)
            action = self.algorithms[name].act_best(states[name], observation, mask)
            actions |= self._deal(name, self.algorithms[name].to_env(action))
        return actions

    def _inputs(self, views: Views, groups: list[Group], slot: Any) -> tuple[jax.Array, jax.Array | None]:
        observation = _side_by_side([views["observation"][g.name][slot] for g in groups])
        masks = _masks(views, groups)
        return observation, None if masks is None else _side_by_side([m[slot] for m in masks])

    def _deal(self, name: str, action: jax.Array) -> dict[str, jax.Array]:
        """Hand a policy's actions back to its groups."""
        dealt, start = {}, 0
        worlds = action.shape[-1] // sum(g.size for g in self.groups[name])
        for g in self.groups[name]:
            dealt[g.name] = action[..., start : start + worlds * g.size]
            start += worlds * g.size
        return dealt

    def _update_all(self, states: States, views: Views, extras: dict[str, Extras], progress, key, iteration):
        updated, metrics = dict(states), {}
        steps = views["truncated"].shape[0] - 1  # one more than the last slot that actions were drawn for
        key = jax.random.fold_in(jax.random.fold_in(key, iteration), steps)
        for name, k in zip(self.learning, jax.random.split(key, max(len(self.learning), 1))):
            rollout = self._rollout(name, views, extras[name])
            updated[name], metrics[name] = self.algorithms[name].update(states[name], rollout, progress, key=k)
        return updated, metrics

    def update(
        self,
        states: States,
        views: Views,
        extras: dict[str, Extras],
        progress: float,
        *,
        key: jax.Array,
        iteration: int = 0,
    ) -> tuple[States, dict[str, dict[str, jax.Array]]]:
        """Let every policy that learns learn from a full store."""
        return self._update(states, views, extras, progress, key, iteration)

    def _rollout(self, name: str, views: Views, extras: Extras) -> Rollout:
        groups = self.groups[name]

        def of_lanes(flags: jax.Array, g: Group, lanes: int) -> jax.Array:
            return flags if flags.shape[-1] == lanes else jnp.repeat(flags, g.size, axis=-1)

        def joined(kind: str, start: int) -> jax.Array:
            return _side_by_side([views[kind][g.name][start:] for g in groups])

        lanes = {g.name: views["reward"][g.name].shape[-1] for g in groups}
        ended = {
            kind: _side_by_side([of_lanes(flags(g)[1:], g, lanes[g.name]) for g in groups])
            for kind, flags in (
                ("terminated", lambda g: views["terminated"][g.name]),
                ("truncated", lambda g: views["truncated"]),
            )
        }
        active, masks = views["active"], _masks(views, groups)
        return Rollout(
            observation=joined("observation", 0),
            action=extras.action,
            log_prob=extras.log_prob,
            reward=joined("reward", 1),
            terminated=ended["terminated"],
            truncated=ended["truncated"],
            final_observation=joined("final_observation", 1),
            active=joined("active", 0) if groups[0].name in active else None,
            action_mask=None if masks is None else _side_by_side(masks),
        )


def _masks(views: Views, groups: list[Group]) -> list[jax.Array] | None:
    """The action masks of groups that share a policy, `[slots, choices, lanes]` each; None if none of them has any."""
    given = views["action_mask"]
    if not any(g.name in given for g in groups):
        return None
    choices = next(given[g.name].shape[1] for g in groups if g.name in given)

    def everything(g: Group) -> jax.Array:
        slots, lanes = views["reward"][g.name].shape
        return jnp.ones((slots, choices, lanes), bool)

    return [given[g.name] if g.name in given else everything(g) for g in groups]


def _side_by_side(parts: list[jax.Array]) -> jax.Array:
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=-1)


def check_policies(env: Env, configs: Mapping[str, PolicyConfig]) -> None:
    """Every group has exactly one policy, and groups of one policy fit together."""
    known = [g.name for g in env.groups]
    taken: dict[str, str] = {}
    for name, config in configs.items():
        if not config.groups:
            raise ValueError(f"Policy {name!r} has no groups; the groups are {', '.join(known)}.")
        for group in config.groups:
            if group not in known:
                raise ValueError(f"Policy {name!r} names a group {group!r}; the groups are {', '.join(known)}.")
            if group in taken:
                raise ValueError(f"Group {group!r} has two policies, {taken[group]!r} and {name!r}.")
            taken[group] = name
        first, *others = (env.group(g) for g in config.groups)
        for other in others:
            if (other.observation, other.action) != (first.observation, first.action):
                raise ValueError(
                    f"Policy {name!r} cannot serve both {first.name!r} and {other.name!r}: their spaces differ."
                )
    if missing := [g for g in known if g not in taken]:
        raise ValueError(f"No policy for group {', '.join(missing)}.")
