"""Checkpoints: finding and reading them, also while the run's own process writes new ones and drops old ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.runs.array_file import Seen, check_file, map_arrays, read_arrays
from slipstream.runs.directory import RunDirectory, RunError
from slipstream.runs.sealed import unseal

MANIFEST = "manifest.json"

REPLAY = "replay"
"""The part that is so large that only the newest checkpoint which has one keeps it."""

TRIES = 200
"""How often a reader looks again when the run's own process drops what is being read."""


class _Gone(Exception):
    """A checkpoint was dropped between being listed and being read."""


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A checkpoint whose manifest has been read; its parts are read when they are asked for."""

    name: str
    step: int
    """Environment steps so far."""
    facts: dict[str, Any]
    score: float | None
    number: int
    """The how manieth checkpoint of its run this is: a run may go back to an earlier step."""
    run: RunDirectory = field(repr=False)
    files: Mapping[str, Seen] = field(repr=False)
    """What the file of each part must be."""
    _read: dict[str, dict[str, np.ndarray]] = field(default_factory=dict, repr=False)

    @property
    def folder(self) -> Path:
        return self.run.checkpoints / self.name

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts that are there to be read."""
        return tuple(p for p in self.files if p != REPLAY or part_file(self.folder, p).exists())

    def part(self, name: str) -> dict[str, np.ndarray]:
        """The arrays of a part, read from its file (and no other) and checked against the manifest."""
        return self._read[name] if name in self._read else self._open(name, read_arrays)

    def open_part(self, name: str) -> dict[str, np.ndarray]:
        """The same, but read-only and left on disk: an array takes memory only as it is looked at."""
        return self._open(name, map_arrays)

    def _open(self, name: str, read: Callable[[BufferedReader], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        if name not in self.files:
            raise RunError(f"Checkpoint {self.folder} has no part {name!r}; it has {', '.join(self.files)}.")
        try:
            with part_file(self.folder, name).open("rb") as file:
                check_file(file, self.files[name])
                return read(file)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._explained(name, error) from error

    def _explained(self, part: str, error: Exception) -> RunError:
        """Why a part could not be read: it was dropped, or it is damaged."""
        checkpoints, _ = survey(self.run)
        if not any(self.is_same(c) for c in checkpoints):
            return RunError(f"Checkpoint {self.folder} was dropped or replaced while it was being read.")
        later = [c.name for c in checkpoints if c.number > self.number and part in c.parts]
        if isinstance(error, FileNotFoundError) and part == REPLAY and later:
            return RunError(
                f"Checkpoint {self.folder} no longer has its {part}: only the newest copy is kept. "
                f"Choose the one that has it with --checkpoint: {later[-1]}."
            )
        reason = error.strerror if isinstance(error, OSError) else error
        hint = _others(c.name for c in checkpoints if c.name != self.name)
        return RunError(f"Checkpoint {self.folder} is damaged: {part_file(Path(), part)}: {reason}.{hint}")

    def is_same(self, other: Checkpoint) -> bool:
        """Whether two readings are of one checkpoint, and not of two that had the same name after one another."""
        return (self.name, self.number, self.files) == (other.name, other.number, other.files)


def step_name(step: int) -> str:
    return f"step-{step:012d}"


def part_file(folder: Path, part: str) -> Path:
    return folder / f"{part}.safetensors"


def _others(names: Iterable[str]) -> str:
    listed = ", ".join(names)
    return f" Choose another one with --checkpoint: {listed}." if listed else ""


def checkpoint_names(run: RunDirectory) -> list[str]:
    """Names of checkpoints in the order they were written: not that of steps, if a run went back to an earlier one.

    Those that do not say come last, so that damage to the latest one is not passed over.
    """
    checkpoints, damaged = survey(run)
    return [c.name for c in checkpoints] + list(damaged)


def load_checkpoint(run: RunDirectory, which: str = "latest") -> Checkpoint:
    """Read a checkpoint's manifest and check that it is whole.

    Args:
        run: of which run.
        which: `latest`, `best` (the highest score, of equal ones the earliest; the latest if none has a score), or a
            checkpoint's name.
    """
    checkpoint = _choose(run, which)
    if checkpoint is None:
        raise RunError(f"{run.path} has no checkpoint yet.")
    return checkpoint


def newest(run: RunDirectory) -> Checkpoint | None:
    """The latest checkpoint; None if there is none yet."""
    return _choose(run, "latest")


def read_newest(run: RunDirectory, parts: Sequence[str] = ("actor",), which: str = "latest") -> Checkpoint | None:
    """A checkpoint with some of its parts already read; None if there is none yet.

    This is how another process looks at a run that goes on meanwhile: if the checkpoint is dropped before all of it has
    been read, the one that is the latest (or the best) by then is read instead. All that is returned belongs together.

    Args:
        run: of which run.
        parts: which parts to read.
        which: `latest`, `best`, or a checkpoint's name.
    """
    checkpoint = _choose(run, which)
    for _ in range(TRIES):
        if checkpoint is None:
            return None
        try:
            for name in parts:
                checkpoint._read[name] = checkpoint.part(name)
            return checkpoint
        except RunError:
            tried, checkpoint = checkpoint, _choose(run, which)
            if checkpoint is not None and checkpoint.is_same(tried):
                raise
    raise RunError(f"The checkpoints of {run.path} come and go faster than they can be read.")


def best_score(run: RunDirectory) -> float:
    """Of the best checkpoint so far; minus infinity if there is none."""
    best = best_of(survey(run)[0])
    return -float("inf") if best is None or best.score is None else best.score


def _choose(run: RunDirectory, which: str) -> Checkpoint | None:
    """What is asked for; None if there is nothing at all."""
    checkpoints, damaged = survey(run)
    by_name = {c.name: c for c in checkpoints}
    if not checkpoints and not damaged:
        return None
    if which in by_name:
        return by_name[which]
    if which not in ("latest", "best", *damaged):
        raise RunError(f"{run.path} has no checkpoint {which!r}; it has {', '.join([*by_name, *damaged])}.")
    if damaged:
        # Which one is the latest, or the best, nobody knows.
        name = which if which in damaged else list(damaged)[-1]
        raise RunError(f"Checkpoint {run.checkpoints / name} is damaged: {damaged[name]}.{_others(by_name)}")
    return checkpoints[-1] if which == "latest" else best_of(checkpoints) or checkpoints[-1]


def best_of(checkpoints: Sequence[Checkpoint]) -> Checkpoint | None:
    """The one with the highest score; of equal ones the earliest."""
    return max((c for c in checkpoints if c.score is not None), key=lambda c: (c.score, -c.number), default=None)


def survey(run: RunDirectory) -> tuple[list[Checkpoint], dict[str, str]]:
    """All checkpoints in the order they were written, and what is wrong with those that cannot be read."""
    for _ in range(TRIES):
        checkpoints, damaged = [], {}
        try:
            for folder in sorted(run.checkpoints.glob("step-*")):
                try:
                    checkpoints.append(_read_manifest(run, folder))
                except ValueError as error:
                    damaged[folder.name] = str(error)
        except _Gone:
            # What came in its place may not have been there when we listed: list again.
            continue
        return sorted(checkpoints, key=lambda c: c.number), damaged
    raise RunError(f"The checkpoints of {run.path} come and go faster than they can be read.")


def _read_manifest(run: RunDirectory, folder: Path) -> Checkpoint:
    """Raises a ValueError with what is wrong, or `_Gone`."""
    try:
        manifest = unseal((folder / MANIFEST).read_bytes())
        files = {part: Seen(**seen) for part, seen in manifest["parts"].items()}
        rest = {name: manifest[name] for name in ("step", "facts", "score", "number")}
        if not folder.name.startswith(step_name(manifest["step"])):
            raise ValueError(f"it is that of step {manifest['step']}")
        return Checkpoint(folder.name, run=run, files=files, **rest)
    except OSError as error:
        if not folder.exists():
            raise _Gone from error
        missing = isinstance(error, FileNotFoundError)
        raise ValueError(f"it has no {MANIFEST}" if missing else f"{MANIFEST}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{MANIFEST}: {error}") from error
