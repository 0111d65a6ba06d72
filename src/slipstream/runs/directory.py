"""A run's directory: where everything of it is, and who may write there."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from slipstream.runs.sealed import seal, unseal

FORMAT = 2
"""Version of the directory's layout."""

CONFIG, METRICS, LOG, LOCK, TENSORBOARD = "config.json", "metrics.jsonl", "log.txt", "run.lock", "tensorboard"
CHECKPOINTS, SOURCE, SOURCE_RECORD = "checkpoints", "source", "manifest.json"
FILM, TUNED, BACKTESTS, TRACKERS = "film.gif", "tuned.json", "backtests.json", "trackers.json"


class RunError(RuntimeError):
    """Something is wrong with a run directory; the message says what, and what to do."""


@contextmanager
def writing(path: Path, what: str = "write") -> Iterator[None]:
    """Inside, a disk that is full or must not be written to is one clear error."""
    try:
        yield
    except OSError as error:
        raise RunError(f"Could not {what} {path}: {error.strerror or error}.") from error


def write_atomically(path: Path, data: str | bytes) -> None:
    """Replace a file as a whole: a reader, or a crash, sees the old content or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with writing(path):
        try:
            with temporary.open("wb") as file:
                file.write(data.encode() if isinstance(data, str) else data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise


def append(path: Path, data: bytes) -> None:
    """Add to a file, all or nothing: what does not fit on the disk leaves no half of itself behind."""
    with writing(path), path.open("ab", buffering=0) as file:
        size, left = file.tell(), memoryview(data)
        try:
            while left:
                left = left[file.write(left) :]
        except OSError:
            file.truncate(size)
            raise


def new_run_name(env: str, algo: str, seed: int) -> str:
    """A name that sorts by time, such as `cartpole-ppo-20260101-120000-seed0`."""
    short = env.rpartition(":")[2].replace("/", "-")
    return f"{short}-{algo}-{time.strftime('%Y%m%d-%H%M%S')}-seed{seed}".lower()


@dataclass(frozen=True)
class SavedSource:
    """The file of a user's own world, as it was when the run kept it."""

    file: Path
    """The copy in the run."""
    original: Path
    """Where it came from."""
    sha256: str

    @property
    def changed(self) -> bool:
        """Whether the original is no longer what was copied, or is gone."""
        try:
            return _sha256(self.original.read_bytes()) != self.sha256
        except OSError:
            return True


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _remove_empty(folders: Iterable[Path]) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def find_runs(path: str | Path) -> list[RunDirectory]:
    """The run in a directory, or the runs in the directories in it (and in those in them), by name."""
    folder = Path(path)
    if (folder / CONFIG).exists() or not folder.is_dir():
        return [RunDirectory.open(path)]
    found = run_folders(folder)
    if not found:
        raise RunError(f"{path} is not a run directory, and has no runs in it: there is no {CONFIG}.")
    return [RunDirectory.open(run) for run in found]


def run_folders(folder: Path) -> list[Path]:
    """What looks like a run: the directory itself, or those in it (and in those in them), by name."""
    if (folder / CONFIG).exists():
        return [folder]
    return [file.parent for file in sorted((*folder.glob(f"*/{CONFIG}"), *folder.glob(f"*/*/{CONFIG}")))]


class RunDirectory:
    """A run on disk. Reading needs no lock; `claim` before writing."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._lock: FileIO | None = None

    @staticmethod
    def create(path: str | Path, config: Mapping[str, Any]) -> RunDirectory:
        """A new, empty run; the directory may exist, but must be empty. What could not be completed is removed."""
        run = RunDirectory(path)
        made = run._make_folder()
        try:
            run.claim()
            # Only now is it certain that nobody else was quicker.
            run._refuse_another_run()
        except BaseException:
            run.release()
            _remove_empty(made)
            raise
        try:
            with writing(run.path, "create"):
                run.checkpoints.mkdir()
            run.write_config(config)
        except BaseException:
            _remove_empty([run.checkpoints])
            (run.path / LOCK).unlink()
            run.release()
            _remove_empty(made)
            raise
        return run

    def _make_folder(self) -> list[Path]:
        """Returns the directories that had to be made, the innermost first."""
        made = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        with writing(self.path, "create"):
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                foreign = next(self.path.iterdir(), None)
            except OSError:
                _remove_empty(made)
                raise
        if foreign is not None:
            self._refuse_another_run()
            what = f"{self.path} is not empty, and what is in it ({foreign.name}) is no run"
            raise RunError(f"{what}. Choose another --run directory.")
        return made

    def _refuse_another_run(self) -> None:
        if (self.path / CONFIG).exists():
            raise RunError(
                f"{self.path} already holds a run. Continue it with --resume {shlex.quote(str(self.path))}, "
                "or choose another --run directory."
            )

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
        except OSError as error:
            raise RunError(f"Could not read {file}: {error.strerror}.") from error
        version = config.get("format") if isinstance(config, dict) else None
        if version != FORMAT:
            raise RunError(f"{self.path} has run format {version!r}; this version of Slipstream reads {FORMAT}.")
        return config

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Replace the configuration, as a whole."""
        content = {"format": FORMAT, **{name: value for name, value in config.items() if name != "format"}}
        write_atomically(self.path / CONFIG, json.dumps(content, indent=2) + "\n")

    def claim(self) -> None:
        """Take the run for this process, until it ends."""
        file = self.path / LOCK
        new = not file.exists()
        with writing(self.path, "claim"):
            lock = file.open("a+b", buffering=0)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                lock.truncate(0)
                lock.write(f"process {os.getpid()}".encode())
            except BlockingIOError:
                lock.seek(0)
                owner = lock.read().decode(errors="replace").strip() or "another process"
                lock.close()
                raise RunError(f"{self.path} is already in use by {owner}.") from None
            except OSError:
                lock.close()
                if new:
                    file.unlink()
                raise
        self._lock = lock

    def release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def log(self, message: str) -> None:
        """Add a line with the time to the run's log."""
        append(self.path / LOG, f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {message}\n".encode())

    # The file of a user's own world.

    def save_source(self, file: Path) -> None:
        """Keep a copy of a file, under its name, in place of an earlier one."""
        try:
            data = file.read_bytes()
        except OSError as error:
            raise RunError(f"Could not read {file}: {error.strerror}.") from error
        with writing(self.source_dir):
            self.source_dir.mkdir(exist_ok=True)
            # Without its record a copy does not count, so a crash leaves no half of one.
            (self.source_dir / SOURCE_RECORD).unlink(missing_ok=True)
        write_atomically(self.source_dir / file.name, data)
        record = {"file": file.name, "original": str(file.resolve()), "sha256": _sha256(data)}
        write_atomically(self.source_dir / SOURCE_RECORD, seal(record))

    def saved_source(self) -> SavedSource | None:
        """The copy that was kept, checked to be what it was; None if there is none."""
        record = self.source_dir / SOURCE_RECORD
        if not record.exists():
            return None
        try:
            content = unseal(record.read_bytes())
            saved = SavedSource(self.source_dir / content["file"], Path(content["original"]), content["sha256"])
            data = saved.file.read_bytes()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{record} is damaged: {error}.") from error
        if _sha256(data) != saved.sha256:
            raise RunError(f"{saved.file} is damaged: it is not the copy of {saved.original} that the run kept.")
        return saved

    @property
    def metrics_file(self) -> Path:
        return self.path / METRICS

    @property
    def tensorboard(self) -> Path:
        return self.path / TENSORBOARD

    @property
    def film(self) -> Path:
        """An episode of a policy that was new not long ago."""
        return self.path / FILM

    @property
    def tuned(self) -> Path:
        """How many processes were found to be best."""
        return self.path / TUNED

    @property
    def backtests(self) -> Path:
        """When the test period of a market was looked at, and what came out."""
        return self.path / BACKTESTS

    @property
    def trackers(self) -> Path:
        """Under which ids Weights & Biases and MLflow know the run."""
        return self.path / TRACKERS

    @property
    def checkpoints(self) -> Path:
        return self.path / CHECKPOINTS

    @property
    def source_dir(self) -> Path:
        return self.path / SOURCE
