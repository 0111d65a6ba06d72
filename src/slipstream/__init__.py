"""Slipstream: massively parallel reinforcement learning on the machine you have."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from slipstream.llvm import llvm_for_drjit

__version__ = "0.1.0"

if TYPE_CHECKING:
    from slipstream.envs.env import Env, Group
    from slipstream.envs.registry import make
    from slipstream.envs.worlds import Worlds
    from slipstream.runs.metrics import metrics
    from slipstream.spaces import Box, Discrete, MultiDiscrete
    from slipstream.training.api import train
    from slipstream.training.config import PolicyConfig, TrainConfig
    from slipstream.training.export.api import export
    from slipstream.training.loading import Policy, load
    from slipstream.training.loop import Result

_HOMES = {
    "Box": "slipstream.spaces",
    "Discrete": "slipstream.spaces",
    "Env": "slipstream.envs.env",
    "Group": "slipstream.envs.env",
    "MultiDiscrete": "slipstream.spaces",
    "Policy": "slipstream.training.loading",
    "PolicyConfig": "slipstream.training.config",
    "Result": "slipstream.training.loop",
    "TrainConfig": "slipstream.training.config",
    "Worlds": "slipstream.envs.worlds",
    "export": "slipstream.training.export.api",
    "load": "slipstream.training.loading",
    "make": "slipstream.envs.registry",
    "metrics": "slipstream.runs.metrics",
    "train": "slipstream.training.api",
}

__all__ = [
    "Box",
    "Discrete",
    "Env",
    "Group",
    "MultiDiscrete",
    "Policy",
    "PolicyConfig",
    "Result",
    "TrainConfig",
    "Worlds",
    "__version__",
    "export",
    "load",
    "make",
    "metrics",
    "train",
]

llvm_for_drjit()  # Dr.Jit looks for LLVM when it is imported, and every module that imports it comes after this one.


def __getattr__(name: str) -> Any:
    """Import the public names when they are first used: `import slipstream` itself costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'slipstream' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
