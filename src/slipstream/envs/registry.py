"""Names of worlds, and how a world is made from its name.

A name is one of `NAMES`, or `path/to/file.py:Class` for a world of the user's own.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from slipstream.envs.env import Env
from slipstream.envs.extras import robots_extra
from slipstream.envs.worlds import Worlds

NAMES = {
    "cartpole": "slipstream.envs.classic.cartpole:CartPole",
    "mountain-car": "slipstream.envs.classic.mountain_car:MountainCar",
    "mountain-car-continuous": "slipstream.envs.classic.mountain_car:MountainCarContinuous",
    "pendulum": "slipstream.envs.classic.pendulum:Pendulum",
    "acrobot": "slipstream.envs.classic.acrobot:Acrobot",
    "humanoid": "slipstream.envs.locomotion.humanoid:Humanoid",
    "humanoid-standup": "slipstream.envs.locomotion.humanoid_standup:HumanoidStandup",
    "ant": "slipstream.envs.locomotion.ant:Ant",
    "half-cheetah": "slipstream.envs.locomotion.half_cheetah:HalfCheetah",
    "hopper": "slipstream.envs.locomotion.hopper:Hopper",
    "walker2d": "slipstream.envs.locomotion.walker2d:Walker2d",
    "swimmer": "slipstream.envs.locomotion.swimmer:Swimmer",
    "reacher": "slipstream.envs.locomotion.reacher:Reacher",
    "inverted-pendulum": "slipstream.envs.locomotion.inverted_pendulum:InvertedPendulum",
    "inverted-double-pendulum": "slipstream.envs.locomotion.inverted_double_pendulum:InvertedDoublePendulum",
    "humanoid-run": "slipstream.envs.locomotion.humanoid_run:HumanoidRun",
    "humanoid-flagrun": "slipstream.envs.locomotion.humanoid_flagrun:HumanoidFlagrun",
    "humanoid-flagrun-harder": "slipstream.envs.locomotion.humanoid_flagrun_harder:HumanoidFlagrunHarder",
    "humanoid-flagrun-harder-terrain": "slipstream.envs.locomotion.humanoid_flagrun_harder_terrain:"
    "HumanoidFlagrunHarderTerrain",
    "ant-run": "slipstream.envs.locomotion.ant_run:AntRun",
    "tag-gridworld": "slipstream.envs.tag.gridworld:TagGridworld",
    "tag-continuous": "slipstream.envs.tag.continuous:TagContinuous",
}


World = str | type[Env] | Env
"""How a world may be given: by its name, as its class, or as an object."""

INTERACTIVE = "<interactive>"
"""Where classes come from that are in no file."""


class UnknownEnvironment(ValueError):
    """No world of that name; the message has the nearest ones."""


def nearest_names(name: str, known: list[str]) -> str:
    """How to go on after a wrong name."""
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else f"choose from {', '.join(known)}."


def env_class(name: str) -> type[Env]:
    """The class behind a name."""
    if ".py:" in name:
        with robots_extra():
            return _class_in_file(name)
    if name.startswith(INTERACTIVE):
        raise UnknownEnvironment(
            f"{name.partition(':')[2]} was defined interactively, not in a file: pass the class itself."
        )
    if name not in NAMES:
        raise UnknownEnvironment(
            f"Unknown environment {name!r}: {nearest_names(name, list(NAMES))} "
            "A world of your own is named path/to/file.py:Class."
        )
    module, _, attribute = NAMES[name].partition(":")
    with robots_extra():
        return getattr(importlib.import_module(module), attribute)


def _class_in_file(name: str) -> type[Env]:
    file, _, attribute = name.rpartition(":")
    module = module_in_file(file)
    found = {
        n: c
        for n, c in vars(module).items()
        if inspect.isclass(c) and issubclass(c, Env) and c.__module__ == module.__name__
    }
    if attribute not in found:
        raise UnknownEnvironment(
            f"{file} has no world {attribute!r}; it defines {', '.join(found) or 'no subclass of Env'}."
        )
    return found[attribute]


def module_in_file(file: str) -> ModuleType:
    """A user's own file, imported (and so executed)."""
    path = Path(file).resolve()
    if not path.is_file():
        raise UnknownEnvironment(f"There is no file {file}.")
    module_name = f"slipstream_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise UnknownEnvironment(f"{file} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


def env_name(env: World) -> str:
    """The name by which a world can be made again, as far as there is one."""
    if isinstance(env, str):
        return env
    kind = env if isinstance(env, type) else type(env)
    known = {where: name for name, where in NAMES.items()}
    if (where := f"{kind.__module__}:{kind.__qualname__}") in known:
        return known[where]
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if file is None or "." in kind.__qualname__:
        return f"{INTERACTIVE}:{kind.__qualname__.rpartition('.')[2]}"
    return f"{file}:{kind.__qualname__}"


def env_options(name: World) -> dict[str, inspect.Parameter]:
    """The options of a world: the parameters of its `__init__`.

    If that takes `**others`, they are the keyword-only parameters of the class it derives from.
    """
    options: dict[str, inspect.Parameter] = {}
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    kind = env_class(name) if isinstance(name, str) else name if isinstance(name, type) else type(name)
    for base in kind.__mro__:
        init = vars(base).get("__init__")
        if init is None or base is object:
            continue
        parameters = list(inspect.signature(init).parameters.values())[1:]
        options |= {p.name: p for p in parameters if p.kind in kinds and p.name not in options}
        if all(p.kind is not p.VAR_KEYWORD for p in parameters):
            break
        kinds = (inspect.Parameter.KEYWORD_ONLY,)
    return options


def make_env(env: World, **options: Any) -> Env:
    """One world, with its options; an object is taken as it is."""
    if isinstance(env, Env):
        if options:
            raise ValueError(f"{type(env).__name__} is an object already: options cannot be given beside it.")
        return env
    known = env_options(env)
    for option in options:
        if option not in known:
            hint = nearest_names(option, list(known)) if known else "it has none."
            raise ValueError(f"Unknown option {option!r} of {env_name(env)}: {hint}")
    chosen = env_class(env) if isinstance(env, str) else env
    if missing := sorted(getattr(chosen, "__abstractmethods__", ())):
        raise ValueError(f"{env_name(env)} is not finished: write its {', '.join(missing)}.")
    return chosen(**options)


def make(
    env: World,
    num_worlds: int = 1024,
    seed: int = 0,
    backend: str = "auto",
    *,
    first_world: int = 0,
    stagger: bool = False,
    **env_options: Any,
) -> Worlds:
    """Many copies of a world, stepped together.

    Args:
        env: one of `slipstream envs`, `path/to/file.py:Class`, an `Env` class, or an `Env` object.
        num_worlds: how many copies.
        seed: the same seed gives the same bits.
        backend: `auto` (cuda with an NVIDIA GPU, else llvm), `llvm`, `cuda`, or `scalar` for plain Python.
        first_world: the number of the first world, for worlds that are a part of more (see `Worlds`).
        stagger: begin at different points of the time limit (see `Worlds`).
        **env_options: options of the world.
    """
    world = make_env(env, **env_options)
    return Worlds(world, num_worlds, seed, backend, first_world=first_world, stagger=stagger)
