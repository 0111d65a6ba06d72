"""What a user names: the nearest of the known names, and modules in files of the user's own.

Nothing here imports Dr.Jit or JAX: sampler processes find their environments with it.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

OPTIONAL = ("mujoco", "gymnasium")
"""Packages that somebody's file may need and that are not always installed."""


class UnknownEnvironment(ValueError):
    """No world of that name; the message has the nearest ones."""


def nearest_names(name: str, known: list[str]) -> str:
    """How to go on after a wrong name."""
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else f"choose from {', '.join(known)}."


def module_in_file(file: str) -> ModuleType:
    """The module that a Python file of the user's defines, or an error that says why there is none."""
    path = Path(file).resolve()
    if not path.is_file():
        raise UnknownEnvironment(f"There is no file {file}.")
    # Files of the same name in different folders are different modules.
    module_name = f"slipstream_user_{path.stem}_{hashlib.sha256(bytes(path)).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise UnknownEnvironment(f"{file} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses look their module up by name
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # it is someone else's code
        if isinstance(error, ModuleNotFoundError) and error.name in OPTIONAL:
            raise
        raise ValueError(f"{file} cannot be imported: {type(error).__name__}: {error}") from error
    return module


GYM = "gym:"
"""Begins the name of an environment that is registered with Gymnasium."""


OTHERS = ("gymnax:", "brax:", "pettingzoo:")
"""Begin the names of worlds that other libraries have made, and that run in the fused loop."""


def is_gymnasium(env: Any) -> bool:
    """Whether an environment is one of Gymnasium's, and not a world of ours: `gym:ID`, `module:Class` or
    `path/to/file.py:Class` (or a class) where the class is a `gymnasium.Env`, or a function that makes one."""
    if not isinstance(env, str):
        return _is_maker(env)
    if env.startswith(GYM):
        return True
    if env.startswith(OTHERS):
        return False
    where, colon, attribute = env.rpartition(":")
    if where.endswith(".py"):
        return _is_maker(getattr(module_in_file(where), attribute, None))
    return bool(colon) and not where.startswith("<")


def _is_maker(found: Any) -> bool:
    gymnasium = sys.modules.get("gymnasium")  # whoever defines one has imported it
    if inspect.isclass(found):
        return gymnasium is not None and issubclass(found, gymnasium.Env)
    return inspect.isfunction(found) and gymnasium is not None


def named_object(name: str) -> Any:
    """What `module:Name` or `path/to/file.py:Name` stands for."""
    where, _, attribute = name.rpartition(":")
    module = module_in_file(where) if where.endswith(".py") else module_of(where, name)
    if not hasattr(module, attribute):
        made = [n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module.__name__]
        raise UnknownEnvironment(f"{where} has no {attribute!r}; it defines {', '.join(made) or 'nothing to call'}.")
    return getattr(module, attribute)


def module_of(module: str, name: str) -> ModuleType:
    """The module that is part of a name: installed, or in the current directory (as for `python -m`)."""
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise ValueError(f"{module} cannot be imported: {error}") from error
        raise UnknownEnvironment(f"There is no module {module!r} (from {name!r}).") from error


def object_name(found: Any, what: str) -> str:
    """The name by which `named_object` finds a class or function, or an error if it cannot be found by name.

    Args:
        found: the class or function.
        what: what it is, for the error.
    """
    module = inspect.getmodule(found)
    file = getattr(module, "__file__", None)
    if module is None or "<locals>" in found.__qualname__ or (module.__name__ == "__main__" and file is None):
        raise ValueError(
            f"The {what} {found.__qualname__} cannot be found again by name: define it at the top of a file "
            "or module, so that the run can be loaded later."
        )
    importable = module.__name__ != "__main__" and not module.__name__.startswith("slipstream_user_")
    return f"{module.__name__ if importable else file}:{found.__qualname__}"
