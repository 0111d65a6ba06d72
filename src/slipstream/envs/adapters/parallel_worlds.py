"""Environments of PettingZoo (parallel ones) as worlds: `pettingzoo:mpe2.simple_tag_v3`, or any by `ParallelWorld`.

They run as they are, in Python, one after another; what is gained is everything around them: several policies, all
algorithms of the fused loop, evaluations, opponents, run directories. PettingZoo cannot save an environment, so a run
that is resumed begins new episodes.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from slipstream.arrays import ArrayTypes
from slipstream.envs.adapters.bookkeeping import Bookkeeping
from slipstream.envs.adapters.foreign import ForeignWorld
from slipstream.envs.env import Env, Group, Leaf
from slipstream.envs.store import GroupLayout, Store, places
from slipstream.gymnasium_spaces import Act, Observe, action_of, observation_of
from slipstream.names import UnknownEnvironment
from slipstream.spaces import Box


class ParallelWorlds:
    """A list of environments, stepped in a loop (see `Engine`)."""

    recordings = 0
    leaves: Sequence[Leaf] = ()

    def __init__(self, env: ParallelWorld, types: ArrayTypes, num_worlds: int, seed: int, first_world: int):
        self.env, self.num_worlds, self.first_world = env, num_worlds, first_world
        # Agents may leave before the others, in any environment.
        self.layouts = [GroupLayout(g, has_active=True, mask_size=0) for g in env.groups]
        self._environments = [env.make() for _ in range(num_worlds)]
        self.clock = Bookkeeping([g.name for g in env.groups], num_worlds)
        self._rows = {p.name: np.zeros(p.shape, np.float32 if p.kind.real else bool) for p in self._places()}
        self.restart(seed)

    def _places(self) -> list[Any]:
        return list(places(self.layouts, self.num_worlds))

    def restart(self, seed: int) -> None:
        self.seed, self.age = seed, 0
        self.clock.restart()
        self.reset()

    def reset(self) -> None:
        self.clock.begin_everywhere()
        for world in range(self.num_worlds):
            self._begin(world)

    def _begin(self, world: int) -> None:
        """The first observations of the world's episode, into the rows."""
        entropy = [self.seed, self.first_world + world, int(self.clock.arrays["episode"][world])]
        seed = int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1)
        seen, _ = self._environments[world].reset(seed=seed)
        self._show(world, "observation", seen)
        here = set(self._environments[world].agents)
        for agent, group, lane in self._lanes(world):
            self._rows[f"active/{group}"][lane] = agent in here
        self._rows["done"][world] = True

    def _lanes(self, world: int) -> list[tuple[str, str, int]]:
        """Every agent of a world, its group and its lane."""
        return [
            (agent, name, world * len(agents) + i)
            for name, agents in self.env.members.items()
            for i, agent in enumerate(agents)
        ]

    def _show(self, world: int, kind: str, seen: Mapping[str, Any]) -> None:
        """Observations of a world, zeros for those who are gone."""
        for agent, group, lane in self._lanes(world):
            shown = self.env.observe_as[agent](seen[agent]) if agent in seen else 0.0
            self._rows[f"{kind}/{group}"][:, lane] = shown

    # Stepping.

    def step(self, store: Store, slot: int, actions: Mapping[str, jax.Array], full_final: bool) -> None:
        self._step({name: np.asarray(action) for name, action in actions.items()})
        for name, buffer in store.named_buffers().items():
            buffer.put(slot, self._rows[name])

    def _step(self, actions: Mapping[str, np.ndarray]) -> None:
        sound = np.ones(self.num_worlds, bool)
        given = {g.name: np.zeros(self.num_worlds, np.float32) for g in self.env.groups}
        for world in range(self.num_worlds):
            sound[world] = self._step_world(world, actions, given)
        done = self._rows["done"].copy()
        self.clock.tick(given, done, sound)
        for world in np.flatnonzero(done).tolist():
            self._begin(world)
        self.age += 1

    def _step_world(self, world: int, actions: Mapping[str, np.ndarray], given: dict[str, np.ndarray]) -> bool:
        """Step one environment, into the rows; whether its observations are finite."""
        environment, rows = self._environments[world], self._rows
        before = set(environment.agents)
        lanes = self._lanes(world)
        chosen = {a: self.env.act_as[a](self._within(g, actions[g][:, lane])) for a, g, lane in lanes if a in before}
        seen, rewards, terminated, truncated, _ = environment.step(chosen)
        after = set(environment.agents)
        cut = self.env.max_steps is not None and self.clock.arrays["step"][world] + 1 >= self.env.max_steps
        over = not after or cut
        self._show(world, "final_observation", seen)
        finite = all(np.isfinite(rows[f"final_observation/{g}"][:, lane]).all() for _, g, lane in lanes)
        limit = cut or (over and any(truncated.get(a, False) and not terminated.get(a, False) for a in before))
        for agent, group, lane in lanes:
            reward = float(rewards.get(agent, 0.0))
            given[group][world] += reward / len(self.env.members[group])
            rows[f"reward/{group}"][lane] = reward if np.isfinite(reward) and finite else 0.0
            # Who leaves before the others, for whatever reason, is done: only a world as a whole is truncated.
            left = agent in before and agent not in after and not (over and truncated.get(agent, False))
            rows[f"terminated/{group}"][lane] = (terminated.get(agent, False) or left) or not finite
            rows[f"active/{group}"][lane] = agent in after
            observed = rows[f"final_observation/{group}"][:, lane]
            observed[...] = observed if finite else 0.0
            rows[f"observation/{group}"][:, lane] = observed
        rows["truncated"][world], rows["done"][world] = limit and finite, over or not finite
        return finite

    def _within(self, group: str, action: np.ndarray) -> np.ndarray:
        space = self.env.group(group).action
        return np.clip(action, space.lows, space.highs) if isinstance(space, Box) else action

    def step_random(self, num_steps: int) -> None:
        for _ in range(num_steps):
            rng = np.random.default_rng([self.seed, self.age])
            drawn = {g.name: _random_actions(g, self.num_worlds, rng) for g in self.env.groups}
            self._step(drawn)

    def observe(self, store: Store, slot: int) -> None:
        for name, buffer in store.named_buffers().items():
            if buffer.place.kind.chosen_from:
                buffer.put(slot, self._rows[name])

    # Exchanging state: there is none but the clock.

    @property
    def clock_names(self) -> Sequence[str]:
        return list(self.clock.arrays)

    def clock_arrays(self, *names: str) -> dict[str, np.ndarray]:
        return self.clock.some(names)

    def set_clock(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Set some of it; with the numbers of other episodes, those begin."""
        self.clock.set(arrays)
        if "episode" in arrays:
            self.clock.arrays["episode"] -= 1
            self.reset()

    def state_arrays(self) -> list[np.ndarray]:
        return []

    def set_state_arrays(self, arrays: Sequence[np.ndarray]) -> None:
        """There is nothing to set."""


class ParallelWorld(ForeignWorld):
    """A `pettingzoo.ParallelEnv` as a world. Agents whose names differ by a number, and who see and do alike, are a
    group: `adversary_0` and `adversary_1` are the group `adversary`."""

    written_for = "an environment of PettingZoo"

    engine = ParallelWorlds

    def __init__(self, make: Callable[[], Any], max_steps: int | None = None):
        """Args:
        make: makes the environment, once for each world.
        max_steps: a time limit beside the environment's own.
        """
        self.make, self.max_steps = make, max_steps
        one = make()
        name = type(one.unwrapped).__name__
        if not hasattr(one, "possible_agents"):
            raise ValueError(f"{name} does not say who its agents are (possible_agents).")
        sees = {a: observation_of(one.observation_space(a), f"{name} ({a})") for a in one.possible_agents}
        does = {a: action_of(one.action_space(a), f"{name} ({a})") for a in one.possible_agents}
        one.close()
        self.observe_as: dict[str, Observe] = {a: observe for a, (_, observe) in sees.items()}
        self.act_as: dict[str, Act] = {a: act for a, (_, act) in does.items()}
        self.members = _groups({a: (sees[a][0], does[a][0]) for a in sees})
        """The agents of each group."""
        self.groups = tuple(
            Group(group, sees[agents[0]][0], does[agents[0]][0], len(agents)) for group, agents in self.members.items()
        )
        self.notes = ("PettingZoo cannot save environments: a run that is resumed begins new episodes.",)


def _groups(spaces: Mapping[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for agent in spaces:
        found.setdefault(re.sub(r"_?\d+$", "", agent) or agent, []).append(agent)
    groups: dict[str, list[str]] = {}
    for name, agents in found.items():
        alike = all(spaces[agent] == spaces[agents[0]] for agent in agents)
        groups |= {name: agents} if alike else {agent: [agent] for agent in agents}
    return groups


def _random_actions(group: Group, num_worlds: int, rng: np.random.Generator) -> np.ndarray:
    """`[components, lanes]`"""
    lanes, space = num_worlds * group.size, group.action
    if isinstance(space, Box):
        low, high = np.maximum(space.lows, -1.0)[:, None], np.minimum(space.highs, 1.0)[:, None]
        return rng.uniform(low, high, (space.size, lanes)).astype(np.float32)
    return rng.integers(0, np.asarray(space.choices)[:, None], (space.size, lanes)).astype(np.int32)


def pettingzoo_class(name: str) -> type[Env]:
    """The world of `pettingzoo:MODULE` or `pettingzoo:MODULE:FUNCTION` (by default `parallel_env`)."""
    where, _, function = name.partition(":")
    try:
        module: Any = importlib.import_module(where)
    except ModuleNotFoundError as error:
        raise UnknownEnvironment(
            f"pettingzoo:{name} cannot be made: there is no module {error.name!r}. Such a name is pettingzoo:MODULE, "
            "for example pettingzoo:mpe2.simple_tag_v3 (pip install mpe2)."
        ) from error
    maker = getattr(module, function or "parallel_env", None)
    if maker is None:
        raise UnknownEnvironment(f"{where} has no {function or 'parallel_env'}: it makes no parallel environment.")

    def begin(self: Any, max_steps: int | None = None, **options: Any) -> None:
        ParallelWorld.__init__(self, lambda: maker(**options), max_steps)

    known = list(inspect.signature(maker).parameters.values())
    if any(p.kind is p.VAR_KEYWORD for p in known) and hasattr(module, "raw_env"):
        known = list(inspect.signature(module.raw_env).parameters.values())
    keyword = inspect.Parameter.KEYWORD_ONLY
    options = [p.replace(kind=keyword) for p in known if p.kind in (p.POSITIONAL_OR_KEYWORD, keyword)]
    own = list(inspect.signature(begin).parameters.values())[:2]
    signature = inspect.Signature([*own, *(p for p in options if p.name not in ("render_mode", "max_steps"))])
    setattr(begin, "__signature__", signature)  # noqa: B010 (a function has no such attribute of its own)
    doc = f"{where} of PettingZoo, as it is."
    return type("PettingZoo", (ParallelWorld,), {"__init__": begin, "__doc__": doc, "known_as": f"pettingzoo:{name}"})
