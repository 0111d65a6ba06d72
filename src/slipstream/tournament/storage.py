"""Where agents are kept: any path that fsspec understands. An agent is an ordinary run directory with one checkpoint.

So whatever takes a run takes an agent: `slipstream eval`, `slipstream.load`, an opponent in training.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstream.runs.checkpoint import load_checkpoint, save_checkpoint, sync_folder
from slipstream.runs.directory import CHECKPOINTS, CONFIG, LOCK, RunDirectory, RunError
from slipstream.runs.reading import MANIFEST
from slipstream.training.fused import Parts

KEPT = ("actor", "learner")
"""The parts of a checkpoint that somebody who goes on with an agent needs."""


class StorageError(RunError):
    """Weights cannot be written or read; the message says which, and why."""


@dataclass(frozen=True)
class Stored:
    """Where an agent is, and what it must be to be the one that was stored."""

    path: str
    checksum: str


class Storage:
    """A folder of agents."""

    def __init__(self, url: str):
        """Args:
        url: a path, or whatever else fsspec understands: `s3://bucket/folder`, `gs://...`, `memory://...`.
        """
        import fsspec
        from fsspec.implementations.local import LocalFileSystem

        self.url = url
        try:
            self._files, self._root = fsspec.core.url_to_fs(url)
        except (ValueError, ImportError) as error:
            raise StorageError(f"There is no way to store weights at {url}: {error}.") from error
        self.local = isinstance(self._files, LocalFileSystem)
        with self._explained("use", url):
            self._files.makedirs(self._root, exist_ok=True)

    @contextlib.contextmanager
    def _explained(self, what: str, path: str) -> Iterator[None]:
        try:
            yield
        except RunError:
            raise
        except Exception as error:  # every file system has errors of its own
            reason = getattr(error, "strerror", None) or error or type(error).__name__
            raise StorageError(f"Could not {what} {path}: {reason}.") from error

    def put(self, id: str, config: Mapping[str, Any], step: int, parts: Parts, facts: Mapping[str, Any]) -> Stored:
        """Keep an agent. When this returns it is there for good, whatever happens to this process.

        Args:
            id: of the agent; nobody else has it.
            config: of the run it comes from.
            step: environment steps behind it.
            parts: of a checkpoint; more than `KEPT` is left out.
            facts: of the checkpoint.
        """
        target = f"{self._root}/{id}"
        with self._explained("write", target), tempfile.TemporaryDirectory(**self._staging()) as folder:
            made = Path(folder) / id
            run = RunDirectory.create(made, config)
            save_checkpoint(run, step, {name: parts[name] for name in KEPT}, facts, keep=1)
            run.release()
            (made / LOCK).unlink()
            checksum = checksum_of(made)
            if self.local:
                _sync_folders(made)
                made.rename(target)
                sync_folder(Path(self._root))
            else:
                self._upload(made, target)
        return Stored(target if self.local else self._files.unstrip_protocol(target), checksum)

    def _staging(self) -> dict[str, Any]:
        """Where an agent is put together: beside its place, so that it can be moved there in one go."""
        return {"dir": self._root, "prefix": "."} if self.local else {}

    def _upload(self, folder: Path, target: str) -> None:
        files = [f for f in folder.rglob("*") if f.is_file()]
        for file in sorted(files, key=lambda f: f.name == MANIFEST):  # it vouches for the others, so it comes last
            name = f"{target}/{file.relative_to(folder)}"
            self._files.makedirs(name.rpartition("/")[0], exist_ok=True)
            self._files.put_file(str(file), name)

    @contextlib.contextmanager
    def fetched(self, path: str, checksum: str) -> Iterator[Path]:
        """Inside, an agent is here as a run directory and is what was stored: parts are checked as they are read."""
        if self.local:
            _check(Path(path), path, checksum)
            yield Path(path)
            return
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / path.rstrip("/").rpartition("/")[2]
            with self._explained("read", path):
                self._files.get(self._files._strip_protocol(path), str(made), recursive=True)
            _check(made, path, checksum)
            yield made

    def verify(self, path: str, checksum: str) -> None:
        """Read all of an agent, and raise an error if any of it is not what was stored."""
        with self.fetched(path, checksum) as folder:
            checkpoint = load_checkpoint(RunDirectory.open(folder))
            for part in KEPT:
                checkpoint.part(part)

    def remove(self, path: str) -> None:
        """Take an agent away, as a whole; one that is not there is no error."""
        with self._explained("remove", path):
            if not self.local:
                with contextlib.suppress(FileNotFoundError):
                    self._files.rm(self._files._strip_protocol(path), recursive=True)
                return
            hidden = Path(path).with_name(f".{Path(path).name}.{os.getpid()}.old")
            with contextlib.suppress(FileNotFoundError):
                Path(path).rename(hidden)
                shutil.rmtree(hidden)

    def sweep(self, kept: Collection[str]) -> int:
        """Take away everything but these agents: what processes have left that were killed. How many there were.

        Nobody may be storing anything meanwhile.
        """
        names = {path.rstrip("/").rpartition("/")[2] for path in kept}
        with self._explained("tidy", self.url):
            found = [path.rstrip("/") for path in self._files.ls(self._root, detail=False)]
            stale = [path for path in found if path.rpartition("/")[2] not in names]
            for path in stale:
                self._files.rm(path, recursive=True)
        return len(stale)


def checksum_of(folder: Path) -> str:
    """Of an agent: of its configuration and its manifest, which has those of its weights."""
    (manifest,) = folder.glob(f"{CHECKPOINTS}/*/{MANIFEST}")
    return hashlib.sha256((folder / CONFIG).read_bytes() + manifest.read_bytes()).hexdigest()


def _check(folder: Path, shown: str, checksum: str) -> None:
    try:
        found = checksum_of(folder)
    except (OSError, ValueError) as error:
        raise StorageError(f"The weights in {shown} are gone or incomplete.") from error
    if found != checksum:
        raise StorageError(f"The weights in {shown} are damaged: their checksum is not the one that was submitted.")


def _sync_folders(folder: Path) -> None:
    for inner in (*(f for f in folder.rglob("*") if f.is_dir()), folder):
        sync_folder(inner)
