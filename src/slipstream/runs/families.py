"""Which runs belong together (they differ only in their seed), and what to call them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.runs.directory import RunDirectory
from slipstream.runs.metrics import read_columns

BOOKKEEPING = ("format", "seed", "report_every", "checkpoint_every", "keep_checkpoints")
"""What runs that belong together may differ in: none of it changes what is learned, but for chance."""

SAID = 3
"""At most so many differences are named in a label."""

ABSENT = object()

Path = tuple[str, ...]
"""To a setting within settings."""


@dataclass(frozen=True)
class Family:
    """Runs of one configuration."""

    label: str
    count: str
    """How many there are, such as `3 seeds`; empty for a single one."""
    columns: list[dict[str, np.ndarray]]
    """The metrics of each run, by name."""


def find_families(runs: Sequence[RunDirectory]) -> list[Family]:
    """Runs by family, under labels that say how the families of a world differ."""
    members: dict[str, list[RunDirectory]] = {}
    for run in runs:
        members.setdefault(json.dumps(_learned_from(run), sort_keys=True), []).append(run)
    configs = [_learned_from(group[0]) for group in members.values()]
    labels = [_label(c, [other for other in configs if other.get("env") == c.get("env")]) for c in configs]
    families = []
    for label, group in zip(labels, members.values()):
        unique = label if labels.count(label) == 1 else f"{label} ({group[0].path.name})"
        families.append(Family(unique, _count(group), [read_columns(run) for run in group]))
    return families


def _learned_from(run: RunDirectory) -> dict[str, Any]:
    return {name: value for name, value in run.config().items() if name not in BOOKKEEPING}


def _count(runs: Sequence[RunDirectory]) -> str:
    if len(runs) == 1:
        return ""
    seeds = {run.config().get("seed") for run in runs}
    return f"{len(runs)} {'seeds' if len(seeds) == len(runs) else 'runs'}"


def _label(config: Mapping[str, Any], all_configs: Sequence[Mapping[str, Any]]) -> str:
    """The world, and what of this configuration is not the same in all."""
    flat = [_flat(c) for c in all_configs]
    mine = _flat(config)
    # The shallow ones first: another algorithm explains why settings differ.
    differ = [p for p in sorted(mine, key=len) if any(other.get(p, ABSENT) != mine[p] for other in flat)]
    said = {_name(p, flat): mine[p] for p in differ}
    words = [f"{name}={_word(value)}" for name, value in said.items()]
    more = [f"{len(words) - SAID} more"] if len(words) > SAID else []
    return ", ".join([_word(config.get("env", "run")), *words[:SAID], *more])


def _flat(config: Mapping[str, Any], prefix: Path = ()) -> dict[Path, Any]:
    """Nested settings by the path to them."""
    flat: dict[Path, Any] = {}
    for name, value in config.items():
        path = (*prefix, name)
        flat |= _flat(value, path) if isinstance(value, Mapping) else {path: value}
    return flat


def _name(path: Path, configs: Sequence[Mapping[Path, Any]]) -> str:
    """`learning_rate`; or `tagger.learning_rate`, as `--set` takes it, where that is not the same for all policies."""
    if all(len({_word(value) for p, value in c.items() if p[-1] == path[-1]}) <= 1 for c in configs):
        return path[-1]
    return f"{path[1]}.{path[-1]}" if path[0] == "policies" else ".".join(path)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
