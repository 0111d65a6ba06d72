"""The files of a user's own worlds and networks: found from any directory, and kept with the run.

Loading such a run executes the file that defines its world or network, as importing it would.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slipstream.envs.registry import INTERACTIVE, env_class
from slipstream.runs.directory import RunDirectory
from slipstream.training.config import PipelineConfig, TrainConfig


def from_anywhere(config: TrainConfig) -> TrainConfig:
    """A configuration whose files are found from any directory."""
    policies = {
        name: dataclasses.replace(p, network=None if p.network is None else _absolute(p.network))
        for name, p in config.policies.items()
    }
    return dataclasses.replace(
        config, env=_absolute(config.env), policies=policies, env_options=_with_absolute_files(config)
    )


def _with_absolute_files(config: TrainConfig) -> dict[str, Any]:
    """The options of the world, with those made absolute that name files."""
    options = dict(config.env_options)
    texts = [name for name, value in options.items() if isinstance(value, str)]
    if not texts or isinstance(config.driver, PipelineConfig) or config.env.startswith(INTERACTIVE):
        return options
    files = env_class(config.env).file_options
    paths = {name: Path(options[name]).expanduser() for name in texts if name in files}
    # Some also take names, of robots that come with the system, say.
    return options | {name: str(path.resolve()) for name, path in paths.items() if path.exists()}


def _absolute(name: str) -> str:
    file, _, attribute = name.rpartition(":")
    return f"{Path(file).resolve()}:{attribute}" if file.endswith(".py") else name


def keep_source(run: RunDirectory, config: TrainConfig) -> None:
    """Keep a copy of the file that defines a user's own world."""
    file, _, _ = config.env.rpartition(":")
    if file.endswith(".py"):
        run.save_source(Path(file))


def world_of(run: RunDirectory, config: TrainConfig, saved_source: bool, warn: Callable[[str], None]) -> str:
    """The name of a run's world: the file it was, or with `saved_source` the copy that the run has kept.

    Args:
        run: the run.
        config: its configuration.
        saved_source: take the copy.
        warn: is told when the file has changed since.
    """
    file, _, attribute = config.env.rpartition(":")
    if not file.endswith(".py"):
        if saved_source:
            raise ValueError(f"{run.path} keeps no source: {config.env} is one of Slipstream's own worlds.")
        return config.env
    saved = run.saved_source()
    if saved is None:
        if saved_source:
            raise ValueError(f"{run.path} has kept no copy of {file}.")
        return config.env
    if saved_source:
        return f"{saved.file}:{attribute}"
    if not saved.original.exists():
        raise ValueError(f"{file} is gone. --saved-source takes the copy that the run has kept: {saved.file}")
    if saved.changed:
        warn(f"{file} has changed since the run was started; --saved-source takes it as it was: {saved.file}")
    return config.env
