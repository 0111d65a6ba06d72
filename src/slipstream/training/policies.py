"""Several policies in one run: who acts by which, and how their experience is put together."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from slipstream.algos.algo import Algorithm, Inputs, Rollout, WholeRollout
from slipstream.algos.ensemble import make_ensemble
from slipstream.algos.settings import ALGORITHMS
from slipstream.arrays import keep_compiled_programs
from slipstream.envs.env import Group
from slipstream.nets.average import Average
from slipstream.nets.memory import forget
from slipstream.spaces import to_json
from slipstream.training.config import PolicyConfig
from slipstream.training.networks import network_maker
from slipstream.training.shards import Shards

ByPolicy = dict[str, Any]
Views = Mapping[str, Any]
"""What a `Store` shows to JAX; of anything else that is played in, the same with a single slot."""

Dials = Mapping[str, Mapping[str, Any]]
"""By policy, numbers that take the place of those in its settings while it learns. Programs are compiled for any value
of a dial, so that turning one costs nothing."""


class Policies:
    """The policies of a run, by name. States and actors are kept by the caller: everything here is a pure function."""

    def __init__(self, groups: Sequence[Group], configs: Mapping[str, PolicyConfig], shards: Shards | None = None):
        """Args:
        groups: who there is.
        configs: the policies; each group has exactly one.
        shards: how lanes are shared out; by default there is a single share.
        """
        check_policies(groups, configs)
        keep_compiled_programs()
        named = {g.name: g for g in groups}
        self.configs = configs
        self.shards = Shards() if shards is None else shards
        self._average = self.shards.average
        self.groups: dict[str, list[Group]] = {n: [named[g] for g in config.groups] for n, config in configs.items()}
        self.algorithms: dict[str, Algorithm] = {
            name: _algorithm(configs[name], members[0], self._average) for name, members in self.groups.items()
        }
        self.learning = [name for name, config in configs.items() if not config.frozen]
        self.on_policy = [n for n in self.learning if isinstance(self.algorithms[n].experience, WholeRollout)]
        """Those that learn from whole rollouts."""
        self._act = jax.jit(self._act_all, static_argnames="explore", donate_argnames=("kept", "memory"))
        self._update = jax.jit(self._update_all, donate_argnames="states")

    def init(self, *, key: jax.Array) -> ByPolicy:
        """Fresh states of all policies."""
        keys = jax.random.split(key, len(self.configs))
        return {name: self.algorithms[name].init(key=k) for name, k in zip(self.configs, keys)}

    def actors(self, states: ByPolicy) -> ByPolicy:
        """What acts, of states."""
        return {name: self.algorithms[name].actor(state) for name, state in states.items()}

    def spaces(self) -> list[dict[str, Any]]:
        """What the groups see and do, as plain data: enough to load these policies without their world."""
        return [
            {"name": g.name, "size": g.size, "observation": to_json(g.observation), "action": to_json(g.action)}
            for members in self.groups.values()
            for g in members
        ]

    def lanes(self, name: str, num_worlds: int) -> int:
        return num_worlds * sum(g.size for g in self.groups[name])

    # Acting.

    def new_memory(self, num_worlds: int) -> ByPolicy:
        """What every policy remembers before anything has happened."""
        return committed({n: a.memory(self.lanes(n, num_worlds)) for n, a in self.algorithms.items()})

    def dealt_anew(self, name: str, lanes: np.ndarray, before: int, now: int) -> np.ndarray:
        """An array of a policy's lanes, `[..., lanes]`, for another number of shares: in each, group follows group."""
        sizes = [g.size for g in self.groups[name]]
        worlds = lanes.shape[-1] // sum(sizes)
        ends = np.cumsum(sizes)[:-1]
        by_group = np.split(lanes.reshape(*lanes.shape[:-1], before, -1), ends * (worlds // before), axis=-1)
        again = [part.reshape(*lanes.shape[:-1], now, -1) for part in by_group]
        return np.concatenate(again, axis=-1).reshape(lanes.shape)

    def room_to_keep(self, actors: ByPolicy, views: Views, memory: ByPolicy, steps: int) -> ByPolicy:
        """Room for what acting keeps over a rollout, of the policies that learn."""

        def choices() -> ByPolicy:
            return {
                name: self.algorithms[name]
                .act(actors[name], self._inputs(name, views, 0, memory), explore=True, key=jax.random.key(0))
                .kept
                for name in self.learning
            }

        room = jax.tree.map(lambda kept: jnp.zeros((steps, *kept.shape), kept.dtype), jax.eval_shape(choices))
        return committed(room)

    def act(
        self,
        actors: ByPolicy,
        views: Views,
        slot: int,
        kept: ByPolicy,
        memory: ByPolicy,
        *,
        explore: bool,
        key: jax.Array,
        iteration: int,
    ) -> tuple[dict[str, jax.Array], ByPolicy, ByPolicy]:
        """Choose every agent's action from what a slot shows.

        What is drawn depends on the key, the iteration and the slot, so one key serves a whole run.

        Args:
            actors: by policy.
            views: what there is to see.
            slot: where to look.
            kept: `room_to_keep`, to be filled in at this slot; what is given is used up. Empty: nothing is kept.
            memory: of all policies; used up as well.
            explore: act as in training, or as well as can be.
            key: randomness of the whole run.
            iteration: tells this call's randomness from others'.

        Returns:
            The actions by group, what was kept, and what is remembered.
        """
        return self._act(actors, views, slot, kept, memory, key, iteration, explore=explore)

    def _act_all(
        self, actors: ByPolicy, views: Views, slot: Any, kept: ByPolicy, memory: ByPolicy, key, iteration, explore: bool
    ) -> tuple[dict[str, jax.Array], ByPolicy, ByPolicy]:
        now = jax.random.fold_in(jax.random.fold_in(key, iteration), slot)

        def choose(number: Any, views: Views, memory: ByPolicy, slot: Any) -> tuple[Any, ByPolicy, ByPolicy]:
            actions: dict[str, jax.Array] = {}
            chosen, remembered = {}, {}
            keys = jax.random.split(self.shards.acting_key(now, number), len(self.groups))
            for name, k in zip(self.groups, keys):
                inputs = self._inputs(name, views, slot, memory)
                choice = self.algorithms[name].act(actors[name], inputs, explore=explore, key=k)
                actions |= self._deal(name, choice.action)
                remembered[name] = choice.memory
                if name in kept:
                    chosen[name] = choice.kept
            return actions, chosen, remembered

        if explore and self.shards.local > 1:  # only what is drawn differs between shares
            seen = jax.tree.map(lambda view: jax.lax.dynamic_slice_in_dim(view, slot, 1), views)
            actions, chosen, remembered = self.shards.each(lambda n, v, m: choose(n, v, m, 0), seen, memory)
        else:
            actions, chosen, remembered = choose(self.shards.first, views, memory, slot)
        filled = jax.tree.map(lambda room, value: room.at[slot].set(value), {n: kept[n] for n in chosen}, chosen)
        return actions, filled, remembered

    def _inputs(self, name: str, views: Views, slot: Any, memory: ByPolicy) -> Inputs:
        groups = self.groups[name]
        masks = _masks(views, groups)
        begins = _of_lanes([views["done"][slot]] * len(groups), groups)
        return Inputs(
            observation=_side_by_side([views["observation"][g.name][slot] for g in groups]),
            mask=None if masks is None else _side_by_side([m[slot] for m in masks]),
            active=_side_by_side([views["active"][g.name][slot] for g in groups])
            if _has_active(views, groups)
            else None,
            memory=forget(memory[name], begins),
        )

    def _deal(self, name: str, action: jax.Array) -> dict[str, jax.Array]:
        """Hand a policy's actions back to its groups."""
        dealt, start = {}, 0
        worlds = action.shape[-1] // sum(g.size for g in self.groups[name])
        for g in self.groups[name]:
            dealt[g.name] = action[..., start : start + worlds * g.size]
            start += worlds * g.size
        return dealt

    # Learning.

    def update(
        self,
        states: ByPolicy,
        views: Views,
        kept: ByPolicy,
        elapsed: Mapping[str, float],
        dials: Dials,
        *,
        key: jax.Array,
        iteration: int,
    ) -> tuple[ByPolicy, dict[str, dict[str, jax.Array]]]:
        """Let policies that learn from whole rollouts learn from a full store. The states that are given are used up.

        Args:
            states: of the policies in `on_policy`.
            views: of the store.
            kept: what acting kept.
            elapsed: by policy, how much of its schedules it has behind it, from 0 to 1.
            dials: what differs from the settings; empty: nothing.
            key: randomness of the whole run.
            iteration: tells this call's randomness from others'.
        """
        shards = self.shards
        states, key = shards.given_to_all((states, key))
        lanes = shards.put_together((views, kept))
        return shards.own_copy(self._update(states, lanes, elapsed, dials, key, iteration))

    def _update_all(self, states: ByPolicy, lanes: tuple[Views, ByPolicy], elapsed, dials, key, iteration):
        steps = lanes[0]["done"].shape[0] - 1  # one more than the last slot that actions were drawn for
        now = jax.random.fold_in(jax.random.fold_in(key, iteration), steps)
        return self.shards.together(self._update_share, (states, elapsed, dials, now), lanes)

    def _update_share(self, number: Any, shared: tuple[ByPolicy, Any, Dials, jax.Array], lanes: tuple[Views, ByPolicy]):
        (states, elapsed, dials, now), (views, kept) = shared, lanes
        updated, metrics = {}, {}
        keys = jax.random.split(self.shards.learning_key(now, number), max(len(self.on_policy), 1))
        for name, k in zip(self.on_policy, keys):
            rollout = self.rollout(name, views, kept[name])
            algorithm = self.with_dials(name, dials.get(name, {}))
            updated[name], metrics[name] = algorithm.update(states[name], rollout, elapsed=elapsed[name], key=k)
        return updated, metrics

    def with_dials(self, name: str, values: Mapping[str, Any]) -> Algorithm:
        """A policy's algorithm with some settings from elsewhere: numbers that are only known as it runs."""
        if not values:
            return self.algorithms[name]
        settings = copy.copy(self.configs[name].settings)
        for setting, value in values.items():
            object.__setattr__(settings, setting, value)  # whoever turns a dial has checked where to
        config = dataclasses.replace(self.configs[name], settings=settings)
        return _algorithm(config, self.groups[name][0], self._average)

    def rollout(self, name: str, views: Views, kept: Any) -> Rollout:
        """What a policy's agents went through, as a full store shows it."""
        groups = self.groups[name]

        def joined(kind: str, start: int) -> jax.Array:
            return _side_by_side([views[kind][g.name][start:] for g in groups])

        masks = _masks(views, groups)
        return Rollout(
            observation=joined("observation", 0),
            kept=kept,
            reward=joined("reward", 1),
            terminated=joined("terminated", 1),
            truncated=_of_lanes([views["truncated"][1:]] * len(groups), groups),
            final_observation=joined("final_observation", 1),
            begins=_of_lanes([views["done"]] * len(groups), groups),
            active=joined("active", 0) if _has_active(views, groups) else None,
            action_mask=None if masks is None else _side_by_side(masks),
        )


def _algorithm(config: PolicyConfig, group: Group, average: Average) -> Algorithm:
    if config.members:
        return make_ensemble([_algorithm(member, group, average) for member in config.members], group.action)
    make = ALGORITHMS[config.algo].load_maker()
    network = None if config.network is None else network_maker(config.network)
    return make(config.settings, group.observation, group.action, network=network, average=average)


def committed(tree: Any) -> Any:
    """JAX compiles anew for arrays that are not tied to a device, and those of a store are."""
    return jax.device_put(tree, jax.local_devices()[0])


def _has_active(views: Views, groups: list[Group]) -> bool:
    return groups[0].name in views["active"]


def _of_lanes(flags: list[jax.Array], groups: list[Group]) -> jax.Array:
    """Flags of worlds for all agents of some groups, `[..., lanes]`."""
    return _side_by_side([f if g.size == 1 else jnp.repeat(f, g.size, axis=-1) for f, g in zip(flags, groups)])


def _masks(views: Views, groups: list[Group]) -> list[jax.Array] | None:
    """The action masks of groups that share a policy, `[slots, choices, lanes]` each; None if none of them has any."""
    given = views["action_mask"]
    if not any(g.name in given for g in groups):
        return None
    choices = next(given[g.name].shape[1] for g in groups if g.name in given)

    def everything(g: Group) -> jax.Array:
        slots, _, lanes = views["observation"][g.name].shape
        return jnp.ones((slots, choices, lanes), bool)

    return [given[g.name] if g.name in given else everything(g) for g in groups]


def _side_by_side(parts: list[jax.Array]) -> jax.Array:
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=-1)


def check_policies(groups: Sequence[Group], configs: Mapping[str, PolicyConfig]) -> None:
    """Every group has exactly one policy, and groups of one policy fit together."""
    known = {g.name: g for g in groups}
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
        first, *others = (known[g] for g in config.groups)
        for other in others:
            if (other.observation, other.action) != (first.observation, first.action):
                raise ValueError(
                    f"Policy {name!r} cannot serve both {first.name!r} and {other.name!r}: their spaces differ."
                )
    if missing := [g for g in known if g not in taken]:
        raise ValueError(f"No policy for group {', '.join(missing)}.")
