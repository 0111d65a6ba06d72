"""Policies that begin from earlier runs: opponents as they were, and agents that go on learning."""

from __future__ import annotations

import dataclasses
from typing import Any

from slipstream.runs.checkpoint import load_checkpoint
from slipstream.runs.directory import RunDirectory, RunError
from slipstream.training.config import PolicyConfig, TrainConfig
from slipstream.training.config_json import from_json
from slipstream.training.saving import from_named_arrays, under


def choose_policy(run: str, names: list[str], wanted: str | None) -> str:
    """The policy of a run that is meant by a name, or by none."""
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted not in names:
        what = "has several policies" if wanted is None else f"has no policy {wanted!r}"
        raise RunError(f"{run} {what}: choose one of {', '.join(names)}.")
    return wanted


def find_policy(source: str) -> tuple[RunDirectory, str, PolicyConfig]:
    """The run, name and configuration that `RUN` or `RUN:POLICY` means."""
    path, _, wanted = source.rpartition(":") if not RunDirectory(source).path.is_dir() else (source, "", "")
    run = RunDirectory.open(path or source)
    policies = from_json(run.config()).policies
    name = choose_policy(str(run.path), list(policies), wanted or None)
    return run, name, policies[name]


def as_it_was(config: PolicyConfig) -> PolicyConfig:
    """A policy that does not learn and comes from an earlier run, with the algorithm and the network it has there."""
    if config.load is None:
        return config
    _, _, origin = find_policy(config.load)
    if not config.frozen:
        return config
    return dataclasses.replace(config, algo=origin.algo, settings=origin.settings, network=origin.network)


def with_opponents(config: TrainConfig) -> TrainConfig:
    """A configuration in which opponents from earlier runs are what they were there."""
    return dataclasses.replace(config, policies={name: as_it_was(p) for name, p in config.policies.items()})


def starting_actor(source: str, template: Any) -> Any:
    """What acts, of a policy of an earlier run."""
    return _part(source, "actor", template)


def starting_state(source: str, template: Any) -> Any:
    """All that a policy of an earlier run has learned. Its schedules begin anew."""
    return _part(source, "learner", template)


def _part(source: str, part: str, template: Any) -> Any:
    run, name, _ = find_policy(source)
    arrays = under(load_checkpoint(run, "best").part(part), name)
    return from_named_arrays(template, arrays, f"Policy {name!r} of {run.path}")
