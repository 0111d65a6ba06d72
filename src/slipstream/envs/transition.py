"""One step of a world, with its time limit, its reset and its bookkeeping: the only place with reset logic.

The same code runs on compiled arrays (all worlds at once) and on Python numbers (one world at a time), because
it is arithmetic like the rules themselves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import drjit as dr
import numpy as np

from slipstream.arrays import ArrayTypes
from slipstream.envs.clock import Clock, PerGroup
from slipstream.envs.env import Env, remembering, state_leaves, with_leaves, with_step
from slipstream.envs.nearest import searching_only
from slipstream.envs.rules import RulesError, plain
from slipstream.random import RESET, STEP, Rng

LARGEST = float(np.finfo(np.float32).max)
"""Beyond it a number is infinite, on the scalar backend too. (Dr.Jit takes `x * 0` for 0, whatever x is.)"""


@dataclass
class Outcome:
    """What one step leads to. Observations are sequences of features by group."""

    state: Any
    clock: Callable[[], Clock]
    """Reads sums over the agents, so it is best called when everything of the agents has been computed."""
    observation: dict[str, list[Any]]
    final_observation: dict[str, list[Any]]
    reward: PerGroup
    terminated: PerGroup
    truncated: Any
    done: Any
    active: PerGroup | None
    action_mask: dict[str, list[Any]] | None


@dataclass(frozen=True)
class Choice:
    """What an action is chosen from, by group."""

    observation: dict[str, list[Any]]
    active: PerGroup | None
    action_mask: dict[str, list[Any]] | None
    done: Any
    """Whether an episode begins here."""


@dataclass(frozen=True)
class Here:
    """Which worlds run, on what."""

    env: Env
    types: ArrayTypes
    seed: Any
    first_world: Any
    """The number of the first one, over all processes that share a run."""
    num_worlds: int
    """Always 1 on the scalar backend."""

    def settle(self, state: Any, step: Any) -> Any:
        """Numbers that the rules used for short become arrays of the width of their field; the counter is put right."""
        leaves = (
            self._full(plain(array, f"State field {leaf.field!r}"), leaf.group) for leaf, array in state_leaves(state)
        )
        return with_step(with_leaves(state, leaves), self._full(step, None))

    def _full(self, value: Any, group: str | None) -> Any:
        size = 1 if group is None else self.env.group(group).size
        if not self.types.compiled and group is None:
            return value
        if not dr.is_array_v(value):
            array_type = {bool: self.types.Bool, int: self.types.Int, float: self.types.Float}[type(value)]
            return dr.full(array_type, value, self.num_worlds * size)
        if not self.types.compiled and len(value) != size:
            return type(value)([value[0]] * size)
        return value

    def rng(self, time: Any, purpose: int) -> Rng:
        time = time if isinstance(time, int) else self.types.UInt(time)
        groups = {g.name: g for g in self.env.groups}
        return Rng(self.types, self.seed, self.first_world, self.num_worlds, time, purpose, groups)


def begin(here: Here, episode: Any) -> Any:
    """The first state of the given episode."""
    state = here.env.reset(here.rng(episode, RESET))
    if not dataclasses.is_dataclass(state):
        raise RulesError(f"{type(here.env).__name__}.reset must return a dataclass, not {type(state).__name__}.")
    known = {g.name for g in here.env.groups}
    for leaf, _ in state_leaves(state):
        if leaf.group is not None and leaf.group not in known:
            raise RulesError(
                f"State field {leaf.field!r} is of a group {leaf.group!r}; the groups are {sorted(known)}."
            )
    return here.settle(state, 0)


def advance(here: Here, age: Any, state: Any, clock: Clock, action: Any) -> Outcome:
    """Step once, and begin a new episode where this one has ended.

    Args:
        here: which worlds.
        age: how many steps all worlds have taken, of the whole run: what makes every step's randomness different.
        state: as `begin` or the last `advance` returned it; its step counter is taken from the clock.
        clock: what the last `advance` made of it.
        action: what `Env.step` expects.
    """
    with remembering():
        return _advance(here, age, state, clock, action)


def _advance(here: Here, age: Any, state: Any, clock: Clock, action: Any) -> Outcome:
    env = here.env
    step = clock.step + 1
    was_active = active_agents(env, with_step(state, clock.step))
    result = env.step(with_step(state, step), action, here.rng(age, STEP))
    if not isinstance(result, tuple) or len(result) != 3:
        raise RulesError(f"{type(env).__name__}.step must return (state, reward, terminated).")
    after, reward, terminated = result
    after = here.settle(_same_form(after, state), step)
    name = type(env).__name__
    terminated = plain(terminated, f"The flag of termination that {name}.step returned")
    reward = {g: plain(r, f"The reward that {name}.step returned") for g, r in (by_group(env, reward) or {}).items()}
    if missing := {g.name for g in env.groups} - set(reward):
        raise RulesError(f"{type(env).__name__}.step returned no reward for {', '.join(sorted(missing))}.")

    sound = _is_finite(env, after)
    given, reward = reward, {g.name: _clean(g.spread(sound), reward[g.name]) for g in env.groups}
    terminated = dr.select(sound, terminated, True)
    truncated = step >= env.max_steps if env.max_steps is not None else step < 0
    done = terminated | truncated

    final = observe(env, after)
    begun = clock.episode + dr.select(done, 1, 0)
    first = here.settle(_match(env.next_episode(after, begin(here, begun)), after), 0)
    needed = {g.name: g.spread(done) for g in env.groups}
    with searching_only(needed):
        fresh = observe(env, first)
    observation = {g: _choose(needed[g], fresh[g], final[g]) for g in final}
    final = {g.name: _choose(g.spread(sound), final[g.name], [0.0] * g.observation.size) for g in env.groups}
    now = with_step(_select_state(env, done, first, after), dr.select(done, 0, step))

    active = active_agents(env, now)
    mask = action_mask(env, now)
    report = reports(env, after)
    left = None if was_active is None else active_agents(env, after)
    return Outcome(
        state=now,
        clock=lambda: _tick(env, clock, step, begun, given, done, sound, report),
        observation=observation,
        final_observation=final,
        reward=reward,
        terminated=_terminated_agents(env, terminated, was_active, left),
        truncated=truncated,
        done=done,
        active=active,
        action_mask=mask,
    )


def choice(env: Env, state: Any, step: Any) -> Choice:
    """What an action is chosen from in this state, after so many steps of its episode."""
    return Choice(observe(env, state), active_agents(env, state), action_mask(env, state), step == 0)


def by_group(env: Env, value: Any) -> PerGroup | None:
    """A user's per-agent value as a dictionary by group name, whichever way they wrote it."""
    if value is None or isinstance(value, Mapping):
        return value if value is None else dict(value)
    if len(env.groups) > 1:
        names = ", ".join(g.name for g in env.groups)
        raise RulesError(
            f"{type(env).__name__} has several groups ({names}): return a dictionary by group name, "
            f"not {type(value).__name__}."
        )
    return {next(iter(env.groups)).name: value}


def observe(env: Env, state: Any) -> dict[str, list[Any]]:
    """The features of every group's observation, checked against its space."""
    observed = by_group(env, env.observe(state)) or {}
    for group in env.groups:
        features = observed.get(group.name)
        count = len(features) if isinstance(features, list | tuple) else -1
        if count != group.observation.size:
            got = f"{count} features" if count >= 0 else f"{type(features).__name__}"
            raise RulesError(
                f"{type(env).__name__}.observe returned {got} for group {group.name!r}, "
                f"which declares Box({group.observation.size}); return a tuple of so many features."
            )
    return {
        name: _plain_list(features, f"A feature that {type(env).__name__}.observe returned")
        for name, features in observed.items()
    }


def active_agents(env: Env, state: Any) -> PerGroup | None:
    """Who is in the game, by group; None if the world does not say."""
    active = by_group(env, env.active(state))
    if active is not None and (missing := [g.name for g in env.groups if g.name not in active]):
        raise RulesError(
            f"{type(env).__name__}.active says nothing of group {', '.join(missing)}: give every group a flag "
            "(True for all that never leave)."
        )
    what = f"The flag that {type(env).__name__}.active returned"
    return None if active is None else {name: plain(flag, what) for name, flag in active.items()}


def action_mask(env: Env, state: Any) -> dict[str, list[Any]] | None:
    """For every group, whether each choice of each component is allowed, flat over components."""
    masks = by_group(env, env.action_mask(state))
    if masks is None:
        return None
    for name, mask in masks.items():
        choices = sum(getattr(env.group(name).action, "choices", ()))
        if not choices or len(mask) != choices:
            raise RulesError(
                f"{type(env).__name__}.action_mask returned {len(mask)} flags for group {name!r}, "
                f"whose discrete actions have {choices} choices."
            )
    what = f"A flag that {type(env).__name__}.action_mask returned"
    return {name: _plain_list(mask, what) for name, mask in masks.items()}


def reports(env: Env, state: Any) -> PerGroup:
    """What the world reports at the end of an episode, by name."""
    what = f"What {type(env).__name__}.report returned"
    left_out = {f"{name}_left_out": count for name, count in env.left_out(state).items()}
    return {name: plain(value, what) for name, value in (dict(env.report(state)) | left_out).items()}


def _plain_list(values: Any, what: str) -> list[Any]:
    return [plain(value, what) for value in values]


def _same_form(after: Any, before: Any) -> Any:
    form = [leaf for leaf, _ in state_leaves(after)] if type(after) is type(before) else None
    if form != [leaf for leaf, _ in state_leaves(before)]:
        raise RulesError(f"Env.step must return a {type(before).__name__} with the fields it was given.")
    return after


def _match(state: Any, like: Any) -> Any:
    """Order dictionaries of a fresh state as in `like`, so that leaves correspond."""
    fields = {}
    for f in dataclasses.fields(state):
        value, other = getattr(state, f.name), getattr(like, f.name)
        fields[f.name] = {g: value[g] for g in other} if isinstance(other, Mapping) else value
    return dataclasses.replace(state, **fields)


def _select_state(env: Env, which: Any, a: Any, b: Any) -> Any:
    leaves = (
        dr.select(which if leaf.group is None else env.group(leaf.group).spread(which), x, y)
        for (leaf, x), (_, y) in zip(state_leaves(a), state_leaves(b))
    )
    return with_leaves(b, leaves)


def _choose(which: Any, a: list[Any], b: list[Any]) -> list[Any]:
    return [dr.select(which, x, y) for x, y in zip(a, b)]


def _clean(sound: Any, reward: Any) -> Any:
    """The reward, or 0 where the world is broken or the reward itself is not finite."""
    return dr.select(sound & (abs(reward) <= LARGEST), reward, 0.0)


def _is_finite(env: Env, state: Any) -> Any:
    """Whether every real quantity of a world is finite: no comparison with an undefined number is true."""
    sound: Any = True
    of_agents: PerGroup = {}
    for leaf, array in state_leaves(state):
        if not (isinstance(array, float) or (dr.is_array_v(array) and dr.is_float_v(array))):
            continue
        finite = abs(array) <= LARGEST
        if leaf.group is None:
            sound = sound & finite
        else:
            of_agents[leaf.group] = of_agents[leaf.group] & finite if leaf.group in of_agents else finite
    for name, finite in of_agents.items():
        sound = sound & env.group(name).all(finite)
    return sound


def _terminated_agents(env: Env, terminated: Any, was_active, now_active) -> PerGroup:
    """An agent's episode terminates with its world's, or when it leaves the game."""
    with_world = {g.name: g.spread(terminated) for g in env.groups}
    if was_active is None or now_active is None:
        return with_world
    return {name: ended | dr.select(now_active[name], False, was_active[name]) for name, ended in with_world.items()}


def _tick(env, clock: Clock, step, episode, reward: PerGroup, done, sound, report) -> Clock:
    # The mean tells whether any reward is not finite, so that the agents are gone through only once.
    mean = {g.name: g.mean(reward[g.name]) for g in env.groups}
    paid = {name: abs(value) <= LARGEST for name, value in mean.items()}
    returns = {n: clock.running_return[n] + dr.select(sound & paid[n], mean[n], 0.0) for n in mean}

    def finished(value: Any) -> Any:
        return dr.select(done, value, 0.0)

    def add(sums: PerGroup, values: PerGroup) -> PerGroup:
        return {name: total + finished(values[name]) for name, total in sums.items()}

    return Clock(
        step=dr.select(done, 0, step),
        episode=episode,
        running_return={name: dr.select(done, 0.0, value) for name, value in returns.items()},
        episodes=clock.episodes + dr.select(done, 1, 0),
        length_sum=clock.length_sum + dr.select(done, step, 0),
        return_sum=add(clock.return_sum, returns),
        return_square_sum=add(clock.return_square_sum, {n: _wide(v) * _wide(v) for n, v in returns.items()}),
        report_sum={n: t + dr.select(done & sound, report[n], 0.0) for n, t in clock.report_sum.items()},
        broken=clock.broken + dr.select(sound, 0, 1),
        unpaid={n: count + dr.select(paid[n], 0, dr.select(sound, 1, 0)) for n, count in clock.unpaid.items()},
    )


def _wide(value: Any) -> Any:
    """As float64, for a sum that goes on for as long as the run does (see `Clock`)."""
    wide: Any = dr.float64_array_t(value)
    return wide(value)
