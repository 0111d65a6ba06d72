"""Names of worlds, and how a world is made from its name, or from its class.

A name is one of `NAMES`, or `path/to/file.py:Class` for a world of the user's own.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import os
import sys
from typing import Any

from slipstream.envs.env import Env
from slipstream.envs.extras import robots_extra
from slipstream.envs.options import check_options, options_of
from slipstream.envs.worlds import Worlds
from slipstream.names import OTHERS, UnknownEnvironment, is_gymnasium, module_in_file, nearest_names

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
    "legged": "slipstream.envs.legged.legged:Legged",
    "tag-gridworld": "slipstream.envs.tag.gridworld:TagGridworld",
    "tag-continuous": "slipstream.envs.tag.continuous:TagContinuous",
    "simple-tag": "slipstream.envs.particles.simple_tag:SimpleTag",
    "simple-spread": "slipstream.envs.particles.simple_spread:SimpleSpread",
    "stock-trading": "slipstream.envs.trading.stock_trading:StockTrading",
}

CONTROL_SUITE = {
    "pendulum": ("swingup",),
    "cartpole": ("balance", "balance-sparse", "swingup", "swingup-sparse"),
    "acrobot": ("swingup", "swingup-sparse"),
    "reacher": ("easy", "hard"),
    "finger": ("spin", "turn-easy", "turn-hard"),
    "ball-in-cup": ("catch",),
    "point-mass": ("easy", "hard"),
    "walker": ("stand", "walk", "run"),
    "cheetah": ("run",),
    "hopper": ("stand", "hop"),
    "fish": ("upright", "swim"),
    "swimmer": ("swimmer6", "swimmer15"),
    "humanoid": ("stand", "walk", "run"),
    "quadruped": ("walk", "run"),
}
"""Tasks of DeepMind's control suite, by what they are done with."""


def suite_class(name: str) -> str:
    """The class of a world of the suite, such as `DmWalkerWalk` for `dm-walker-walk`."""
    return name.title().replace("-", "")


for _domain, _tasks in CONTROL_SUITE.items():
    for _name in (f"dm-{_domain}-{_task}" for _task in _tasks):
        NAMES[_name] = f"slipstream.envs.dm_control.worlds:{suite_class(_name)}"


AnyEnv = str | type[Env] | Env
"""A world by its name, by its class, or made already."""

INTERACTIVE = "<interactive>"
"""In place of a file, in the name of a class that is in none."""


class GymnasiumOnly(ValueError):
    """An environment of Gymnasium where only a world of ours will do."""

    def __init__(self, name: str):
        super().__init__(
            f"{name} is an environment of Gymnasium and cannot be compiled: `slipstream train` takes it, and eval, "
            "video, plot and load take its runs. Everything else needs a world of ours (docs/your-first-world.md)."
        )


def env_class(env: AnyEnv) -> type[Env]:
    """The class of a world."""
    if isinstance(env, Env):
        return type(env)
    if inspect.isclass(env) and issubclass(env, Env):
        return env
    if inspect.isclass(env) and is_gymnasium(env):
        raise GymnasiumOnly(str(getattr(env, "__name__", env)))
    if not isinstance(env, str):
        raise UnknownEnvironment(
            f"A world is a name, a subclass of Env or an instance of one (of a gymnasium.Env: its name or its class), "
            f"not {env!r} of type {type(env).__name__}."
        )
    if env.startswith(f"{INTERACTIVE}:"):
        raise UnknownEnvironment(
            f"{env.partition(':')[2]} was defined interactively and cannot be found by name; pass the class itself."
        )
    if ".py:" in env:
        with robots_extra():
            return _class_in_file(env)
    if env.startswith(OTHERS):
        return _class_of_others(env)
    if env not in NAMES:
        if is_gymnasium(env):
            raise GymnasiumOnly(env)
        raise UnknownEnvironment(
            f"Unknown environment {env!r}: {nearest_names(env, list(NAMES))} "
            "A world of your own is named path/to/file.py:Class, an environment of Gymnasium gym:ID."
        )
    module, _, attribute = NAMES[env].partition(":")
    with robots_extra():
        return getattr(importlib.import_module(module), attribute)


def env_name(env: AnyEnv) -> str:
    """The name of a world: a registered one, `path/to/file.py:Class`, or `<interactive>:Class`.

    The last is for reading only: a class in a notebook or a function cannot be found again by its name.
    """
    if isinstance(env, str):
        return env
    kind = env_class(env)
    if kind.known_as is not None:
        return kind.known_as
    place = f"{kind.__module__}:{kind.__qualname__}"
    if (registered := next((name for name, known in NAMES.items() if known == place), None)) is not None:
        return registered
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None)
    if file is None or not os.path.isfile(file) or getattr(module, kind.__qualname__, None) is not kind:
        return f"{INTERACTIVE}:{kind.__name__}"
    relative = os.path.relpath(file)
    return f"{file if relative.startswith('..') else relative}:{kind.__qualname__}"


def _class_in_file(name: str) -> type[Env]:
    file, _, attribute = name.rpartition(":")
    module = module_in_file(file)
    if is_gymnasium(getattr(module, attribute, None)):
        raise GymnasiumOnly(name)
    own = {n: c for n, c in vars(module).items() if inspect.isclass(c) and c.__module__ == module.__name__}
    found = own.get(attribute)
    if found is None or not issubclass(found, Env):
        worlds = [n for n, c in own.items() if issubclass(c, Env) or is_gymnasium(c)]
        raise UnknownEnvironment(
            f"{file} has no world {attribute!r}; it defines {', '.join(worlds) or 'no subclass of Env'}."
        )
    return found


MADE_BY = {
    "gymnax": "slipstream.envs.adapters.jax_styles:gymnax_class",
    "brax": "slipstream.envs.adapters.jax_styles:brax_class",
    "pettingzoo": "slipstream.envs.adapters.parallel_worlds:pettingzoo_class",
}
"""Who makes the worlds of other libraries, by what their names begin with."""


def _class_of_others(name: str) -> type[Env]:
    library, _, rest = name.partition(":")
    module, _, maker = MADE_BY[library].partition(":")
    with robots_extra():
        return getattr(importlib.import_module(module), maker)(rest)


def env_options(env: AnyEnv) -> dict[str, inspect.Parameter]:
    """The options of a world: the parameters of its `__init__`.

    If that takes `**others`, they are the keyword-only parameters of the class it derives from.
    """
    return options_of(env_class(env))


def make_env(env: AnyEnv, **options: Any) -> Env:
    """One world, with its options.

    Args:
        env: its name, its class, or a world (of which a copy is made, so that several can be used at once).
        **options: of the world; none for a world that is made already.
    """
    name = env_name(env)
    if isinstance(env, Env):
        if options:
            raise ValueError(f"{name} is made already: give {', '.join(options)} where it is made.")
        return copy.copy(env)
    chosen = env_class(env)
    known = options_of(chosen)
    for option in options:
        if option not in known:
            hint = nearest_names(option, list(known)) if known else "it has none."
            raise ValueError(f"Unknown option {option!r} of {name}: {hint}")
    check_options(name, chosen, options)
    if missing := sorted(getattr(chosen, "__abstractmethods__", ())):
        raise ValueError(f"{name} is not finished: write its {', '.join(missing)}.")
    try:
        return chosen(**options)
    except Exception as error:  # it may be someone else's code
        if isinstance(error, ValueError) and type(error) is not ValueError:
            raise  # one of ours, which says what to do
        what = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        raise ValueError(f"{name} cannot be made: {what}") from error


def make(
    env: AnyEnv,
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
        env: one of `slipstream envs`, `path/to/file.py:Class`, a subclass of `Env`, or an instance of one.
        num_worlds: how many copies.
        seed: the same seed gives the same bits.
        backend: `auto` (cuda with an NVIDIA GPU, else llvm), `llvm`, `cuda`, or `scalar` for plain Python.
        first_world: the number of the first world, for worlds that are a part of more (see `Worlds`).
        stagger: begin at different points of the time limit (see `Worlds`).
        **env_options: options of the world.
    """
    world = make_env(env, **env_options)
    return Worlds(world, num_worlds, seed, backend, first_world=first_world, stagger=stagger)
