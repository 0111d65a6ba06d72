"""A run's directory: where everything of it is, and who may write there."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

FORMAT = 2
"""Version of the directory's layout."""

CONFIG, METRICS, LOG, LOCK, TENSORBOARD = "config.json", "metrics.jsonl", "log.txt", "run.lock", "tensorboard"
CHECKPOINTS = "checkpoints"


class RunError(RuntimeError):
    """Something is wrong with a run directory; the message says what, and what to do."""


def write_atomically(path: Path, text: str) -> None:
    """Replace a file as a whole: a reader, or a crash, sees the old text or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise RunError(f"Could not write {path}: {error.strerror}.") from error


def new_run_name(env: str, algo: str, seed: int) -> str:
    """A name that sorts by time, such as `cartpole-ppo-20260101-120000-seed0`."""
    short = Path(env.rpartition(":")[2]).stem if ".py:" in env else env
    return f"{short}-{algo}-{time.strftime('%Y%m%d-%H%M%S')}-seed{seed}".lower()


class RunDirectory:
    """A run on disk. Reading needs no lock; `claim` before writing."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._lock: TextIO | None = None

    @staticmethod
    def create(path: str | Path, config: Mapping[str, Any]) -> RunDirectory:
        """A new, empty run; the directory may exist, but not hold a run already."""
        run = RunDirectory(path)
        if (run.path / CONFIG).exists():
            raise RunError(
                f"{path} already holds a run. Continue it with --resume {path}, or choose another --run directory."
            )
        try:
            (run.path / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"Could not create {path}: {error.strerror}.") from error
        run.claim()
        write_atomically(run.path / CONFIG, json.dumps({"format": FORMAT, **config}, indent=2) + "\n")
        return run

    @staticmethod
    def open(path: str | Path) -> RunDirectory:
        """An existing run."""
        run = RunDirectory(path)
        if not run.path.is_dir():
            raise RunError(f"There is no run directory {path}.")
        run.config()
        return run

    def config(self) -> dict[str, Any]:
        """The configuration the run was started with."""
        file = self.path / CONFIG
        try:
            config = json.loads(file.read_text())
        except FileNotFoundError:
            raise RunError(f"{self.path} is not a run directory: it has no {CONFIG}.") from None
        except ValueError as error:
            raise RunError(f"{file} is damaged: {error}.") from error
        version = config.get("format") if isinstance(config, dict) else None
        if version != FORMAT:
            raise RunError(f"{self.path} has run format {version!r}; this version of Slipstream reads {FORMAT}.")
        return config

    def claim(self) -> None:
        """Take the run for this process, until it ends."""
        try:
            self._lock = (self.path / LOCK).open("a+")
        except OSError as error:
            raise RunError(f"Could not claim {self.path}: {error.strerror}.") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.seek(0)
            owner = self._lock.read().strip() or "another process"
            self._lock.close()
            raise RunError(f"{self.path} is already in use by {owner}.") from None
        self._lock.truncate(0)
        self._lock.write(f"process {os.getpid()}")
        self._lock.flush()

    def release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def log(self, message: str) -> None:
        """Add a line with the time to the run's log."""
        try:
            with (self.path / LOG).open("a") as file:
                file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {message}\n")
        except OSError as error:
            raise RunError(f"Could not write {self.path / LOG}: {error.strerror}.") from error

    @property
    def metrics_file(self) -> Path:
        return self.path / METRICS

    @property
    def tensorboard(self) -> Path:
        return self.path / TENSORBOARD

    @property
    def checkpoints(self) -> Path:
        return self.path / CHECKPOINTS
