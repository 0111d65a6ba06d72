"""Environments of PettingZoo (parallel ones) as worlds: `pettingzoo:mpe2.simple_tag_v3`, or any by `ParallelWorld`.

They run as they are, in Python: one after another in this process, or dealt to several processes that step their parts
at once. Around them is everything else: several policies, all algorithms of the fused loop, evaluations, opponents,
run directories. PettingZoo cannot save an environment, so a run that is resumed begins new episodes.
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from slipstream.arrays import ArrayTypes
from slipstream.capacity import usable_cores
from slipstream.envs.adapters.bookkeeping import Bookkeeping
from slipstream.envs.adapters.foreign import ForeignWorld
from slipstream.envs.adapters.parallel_processes import Processes, Recipe
from slipstream.envs.env import Env, Group, Leaf
from slipstream.envs.store import GroupLayout, Store, places
from slipstream.pettingzoo_part import Agents, Part, maker_named
from slipstream.shared_memory import Shapes
from slipstream.spaces import Box

WORLDS_EACH = 4
"""A process that nobody has asked for has so many worlds at the least: it takes a second to start."""


class ParallelWorlds:
    """A list of environments, stepped here or by several processes (see `Engine`)."""

    recordings = 0
    leaves: Sequence[Leaf] = ()

    def __init__(self, env: ParallelWorld, types: ArrayTypes, num_worlds: int, seed: int, first_world: int):
        self.env, self.num_worlds = env, num_worlds
        # Agents may leave before the others, in any environment.
        self.layouts = [GroupLayout(g, has_active=True, mask_size=0) for g in env.groups]
        self.clock = Bookkeeping([g.name for g in env.groups], num_worlds)
        shapes, count = self._shapes(), env.processes_for(num_worlds)
        self.stepping: Part | Processes
        if env.recipe is not None and count > 1:
            self.stepping = Processes(env.recipe, env.max_steps, shapes, num_worlds, first_world, count)
            self._arrays = self.stepping.arrays
        else:
            self._arrays = {name: np.zeros(shape, dtype) for name, (shape, dtype) in shapes.items()}
            self.stepping = Part(env.make, range(num_worlds), first_world, env.max_steps, self._arrays)
        self.restart(seed)

    def _shapes(self) -> Shapes:
        """Of the arrays that `Part` needs."""
        worlds = (self.num_worlds,)
        shapes: dict[str, Any] = {
            p.name: (p.shape, np.float32 if p.kind.real else np.bool_) for p in places(self.layouts, self.num_worlds)
        }
        for g in self.env.groups:
            number = np.float32 if isinstance(g.action, Box) else np.int32
            shapes[f"action/{g.name}"] = ((g.action.size, self.num_worlds * g.size), number)
            shapes[f"given/{g.name}"] = (worlds, np.float32)
        whole = {"step": (worlds, np.int32), "episode": (worlds, np.int32), "seed": ((1,), np.int64)}
        return {**shapes, **whole, "sound": (worlds, np.bool_)}

    def restart(self, seed: int) -> None:
        self.seed, self.age = seed, 0
        self._arrays["seed"][0] = seed
        self.clock.restart()
        self.reset()

    def reset(self) -> None:
        self.clock.begin_everywhere()
        self._show_clock()
        self.stepping.begin()

    def _show_clock(self) -> None:
        for name in ("step", "episode"):
            self._arrays[name][:] = self.clock.arrays[name]

    # Stepping.

    def step(self, store: Store, slot: int, actions: Mapping[str, jax.Array], full_final: bool) -> None:
        self._step({name: np.asarray(action) for name, action in actions.items()})
        for name, buffer in store.named_buffers().items():
            buffer.put(slot, self._arrays[name])

    def _step(self, actions: Mapping[str, np.ndarray]) -> None:
        for name, action in actions.items():
            self._arrays[f"action/{name}"][...] = action
        self._show_clock()
        self.stepping.step()
        given = {g.name: self._arrays[f"given/{g.name}"] for g in self.env.groups}
        self.clock.tick(given, self._arrays["done"], self._arrays["sound"])
        self.age += 1

    def step_random(self, num_steps: int) -> None:
        for _ in range(num_steps):
            rng = np.random.default_rng([self.seed, self.age])
            drawn = {g.name: _random_actions(g, self.num_worlds, rng) for g in self.env.groups}
            self._step(drawn)

    def observe(self, store: Store, slot: int) -> None:
        for name, buffer in store.named_buffers().items():
            if buffer.place.kind.chosen_from:
                buffer.put(slot, self._arrays[name])

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

    recipe: Recipe | None = None
    """How other processes make the environment; None if only this one can."""

    def __init__(self, make: Callable[[], Any], max_steps: int | None = None, processes: int | None = None):
        """Args:
        make: makes the environment, once for each world.
        max_steps: a time limit beside the environment's own.
        processes: how many processes step the worlds at once, each its part of them; 1 is this one. By default one for
            every core, each with at least four worlds. More than one need an environment that is made by its name.
        """
        if processes is not None and processes < 1:
            raise ValueError(f"processes must be at least 1, got {processes}.")
        if processes is not None and processes > 1 and self.recipe is None:
            raise ValueError(
                f"processes={processes}, but other processes cannot make this environment: they do so by a name, "
                "pettingzoo:MODULE:FUNCTION, and options that are plain data (numbers, texts, lists)."
            )
        self.make, self.max_steps, self.processes = make, max_steps, processes
        one = make()
        agents = Agents(one)
        one.close()
        self.groups = tuple(Group(name, *agents.spaces[name], len(members)) for name, members in agents.members.items())
        self.notes = ("PettingZoo cannot save environments: a run that is resumed begins new episodes.",)

    def processes_for(self, num_worlds: int) -> int:
        """How many step so many worlds."""
        if self.recipe is None:
            return 1
        if self.processes is not None:
            return min(self.processes, num_worlds)
        return max(1, min(usable_cores(), num_worlds // WORLDS_EACH))


def _random_actions(group: Group, num_worlds: int, rng: np.random.Generator) -> np.ndarray:
    """`[components, lanes]`"""
    lanes, space = num_worlds * group.size, group.action
    if isinstance(space, Box):
        low, high = np.maximum(space.lows, -1.0)[:, None], np.minimum(space.highs, 1.0)[:, None]
        return rng.uniform(low, high, (space.size, lanes)).astype(np.float32)
    return rng.integers(0, np.asarray(space.choices)[:, None], (space.size, lanes)).astype(np.int32)


def pettingzoo_class(name: str) -> type[Env]:
    """The world of `pettingzoo:MODULE` or `pettingzoo:MODULE:FUNCTION` (by default `parallel_env`)."""
    maker, where = maker_named(name), name.partition(":")[0]
    module: Any = importlib.import_module(where)

    def begin(self: Any, max_steps: int | None = None, processes: int | None = None, **options: Any) -> None:
        self.recipe = Recipe(name, options) if _is_plain(options) else None
        ParallelWorld.__init__(self, lambda: maker(**options), max_steps, processes)

    known = list(inspect.signature(maker).parameters.values())
    if any(p.kind is p.VAR_KEYWORD for p in known) and hasattr(module, "raw_env"):
        known = list(inspect.signature(module.raw_env).parameters.values())
    keyword = inspect.Parameter.KEYWORD_ONLY
    options = [p.replace(kind=keyword) for p in known if p.kind in (p.POSITIONAL_OR_KEYWORD, keyword)]
    own = list(inspect.signature(begin).parameters.values())[:-1]
    taken = {"render_mode", *(p.name for p in own)}
    signature = inspect.Signature([*own, *(p for p in options if p.name not in taken)])
    setattr(begin, "__signature__", signature)  # noqa: B010 (a function has no such attribute of its own)
    doc = f"{where} of PettingZoo, as it is."
    return type("PettingZoo", (ParallelWorld,), {"__init__": begin, "__doc__": doc, "known_as": f"pettingzoo:{name}"})


def _is_plain(options: Mapping[str, Any]) -> bool:
    """Whether another process can be told them, and would get the same (no tuples, which become lists)."""
    try:
        return json.loads(json.dumps(options)) == options
    except (TypeError, ValueError):
        return False
