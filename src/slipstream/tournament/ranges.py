"""Within which ranges settings are varied: `ranges.json`, or a file of the user's own."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from slipstream.algos.settings import ALGORITHMS, Settings
from slipstream.envs.registry import nearest_names
from slipstream.training.config_json import field_names

FILE = Path(__file__).with_name("ranges.json")

Scale = Literal["log", "linear"]

STEPS = (0.8, 1.25)
"""By what a setting is multiplied when it is perturbed (Jaderberg et al. 2017)."""


@dataclass(frozen=True)
class Range:
    """Where a setting may be."""

    low: float
    high: float
    scale: Scale

    def sample(self, rng: np.random.Generator) -> float:
        """Any value, on a linear or a logarithmic scale."""
        if self.scale == "log":
            return math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
        return rng.uniform(self.low, self.high)

    def perturb(self, value: float, rng: np.random.Generator) -> float:
        """A value nearby, within the range."""
        return min(max(value * float(rng.choice(STEPS)), self.low), self.high)


def read_ranges(algo: str, settings: Settings, file: str | None = None) -> dict[str, Range]:
    """What may be varied of an algorithm's settings. A setting that is None does not count, and is not varied; nor is a
    learning rate that adapts by itself.

    Args:
        algo: the algorithm.
        settings: as they are.
        file: JSON like that of `ranges.json`; None: that one.
    """
    path = FILE if file is None else Path(file)
    try:
        content = json.loads(path.read_text())
    except OSError as error:
        raise ValueError(f"Could not read {path}: {error.strerror}.") from error
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}.") from error
    if not isinstance(content, Mapping) or not all(isinstance(v, Mapping) for v in content.values()):
        raise ValueError(f"{path} must say by algorithm and setting from where to where, such as {_EXAMPLE}.")
    for name in content:
        if name not in ALGORITHMS:
            raise ValueError(f"{path}: unknown algorithm {name!r}: {nearest_names(name, list(ALGORITHMS))}")
    ranges = {name: _range(path, algo, name, value) for name, value in content.get(algo, {}).items()}
    adapts = getattr(settings, "target_kl", None) is not None
    fixed = [n for n in ranges if getattr(settings, n) is None or (n == "learning_rate" and adapts)]
    return {name: found for name, found in ranges.items() if name not in fixed}


_EXAMPLE = '{"ppo": {"learning_rate": {"from": 0.0001, "to": 0.01, "scale": "log"}}}'


def _range(path: Path, algo: str, name: str, value: Any) -> Range:
    known = field_names(ALGORITHMS[algo].settings)
    if name not in known:
        raise ValueError(f"{path}: {algo} has no setting {name!r}: {nearest_names(name, known)}")
    try:
        found = Range(float(value["from"]), float(value["to"]), value.get("scale", "linear"))
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise ValueError(f"{path}: {name} of {algo} must look like {_EXAMPLE}, got {value!r}.") from error
    if found.scale not in get_args(Scale):
        raise ValueError(f"{path}: the scale of {name} must be log or linear, got {found.scale!r}.")
    if not found.low < found.high or (found.scale == "log" and found.low <= 0):
        raise ValueError(f"{path}: {name} of {algo} must go from a lower to a higher (positive) value, got {value!r}.")
    return found
