"""The runs that there are to watch, in directories that change."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipstream.runs.directory import CONFIG, RunDirectory, RunError, run_folders
from slipstream.runs.metrics import MetricsTail

QUIET = 20.0
"""Seconds without a row of metrics after which a run counts as stopped."""


class Run:
    """A run as it is looked at.

    Attributes:
        name: what it is called on the page.
        directory: where it is.
        metrics: what is known of it.
    """

    def __init__(self, name: str, folder: Path):
        self.name, self.directory = name, RunDirectory(folder)
        self.metrics = MetricsTail(self.directory)

    @property
    def exists(self) -> bool:
        return self.directory.path.is_dir()

    @property
    def is_training(self) -> bool:
        """Whether it has reported something not long ago."""
        try:
            return time.time() - self.directory.metrics_file.stat().st_mtime < QUIET
        except OSError:
            return False

    def settings(self) -> Mapping[str, Any]:
        """Of its configuration; empty if it cannot be read."""
        try:
            return self.directory.config()
        except RunError:
            return {}

    def described(self) -> str:
        """How it is doing, in a few words."""
        if not self.exists:
            return "gone"
        rows = self.metrics.rows
        if not rows:
            return "it has reported nothing yet"
        return f"{'training' if self.is_training else 'stopped'}, {rows[-1]['step']:,.0f} steps"


class Catalogue:
    """The runs in a directory: itself, or those within it. Runs may come and go.

    Attributes:
        folder: the directory.
        runs: by name, the newest first.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.runs: dict[str, Run] = {}
        self.scan()

    def scan(self) -> bool:
        """Look again: whether there are other runs than before."""
        folders = run_folders(self.folder)
        found = {self._name(folder): folder for folder in sorted(folders, key=_age)}
        if list(found) == list(self.runs):
            return False
        self.runs = {name: self.runs.get(name) or Run(name, folder) for name, folder in found.items()}
        return True

    def _name(self, folder: Path) -> str:
        return folder.resolve().name if folder == self.folder else str(folder.relative_to(self.folder))


def _age(folder: Path) -> float:
    """Sorts the runs that were started last first, and those that are gone last."""
    try:
        return -(folder / CONFIG).stat().st_mtime
    except OSError:
        return 0.0
