"""Networks of the user's own, found by name: `path/to/file.py:Class` or `module:Class`."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from slipstream.envs.registry import module_in_file
from slipstream.nets.agent import NetworkMaker
from slipstream.nets.per_lane import network_of


def network_maker(name: str) -> NetworkMaker:
    """How networks of a named class are made."""
    where, _, attribute = name.rpartition(":")
    if not where:
        raise ValueError(f"A network is named path/to/file.py:Class or module:Class, got {name!r}.")
    try:
        module = module_in_file(where) if where.endswith(".py") else importlib.import_module(where)
    except ModuleNotFoundError as error:
        raise ValueError(f"There is no module {where!r} (from network {name!r}).") from error
    found = getattr(module, attribute, None)
    if not callable(found):
        made = [n for n, v in vars(module).items() if inspect.isclass(v) and v.__module__ == module.__name__]
        raise ValueError(f"{where} has no network {attribute!r}; it defines {', '.join(made) or 'no class'}.")
    return network_of(found)


def network_name(network: Any) -> str:
    """The name of a network class, or an error if it cannot be found again by name."""
    if isinstance(network, str):
        return network
    module = inspect.getmodule(network)
    file = getattr(module, "__file__", None)
    if module is None or "<locals>" in network.__qualname__ or (module.__name__ == "__main__" and file is None):
        raise ValueError(
            f"The network {network.__qualname__} cannot be found again by name: define it at the top of a file "
            "or module, so that the run can be loaded later."
        )
    importable = module.__name__ != "__main__" and not module.__name__.startswith("slipstream_user_")
    return f"{module.__name__ if importable else file}:{network.__qualname__}"
