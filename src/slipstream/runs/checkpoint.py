"""Checkpoints: named arrays in parts that can be read apart, with a manifest that says what they should be.

A checkpoint is a directory `step-000000000000` with one safetensors file for each part (`actor`, `learner`, `worlds`,
`replay`, or whatever a trainer has) and `manifest.json`. It appears under its name only when it is complete, and what
is in it never changes; only its replay is taken away when a newer one has another. No pickles anywhere.

This module writes them; how they are read is in `reading`, and can be imported from here.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from slipstream.runs.array_file import Streamed, write_arrays
from slipstream.runs.directory import RunDirectory, RunError
from slipstream.runs.reading import (
    MANIFEST,
    REPLAY,
    Checkpoint,
    best_of,
    best_score,
    checkpoint_names,
    load_checkpoint,
    newest,
    part_file,
    read_newest,
    step_name,
    survey,
)
from slipstream.runs.sealed import seal

__all__ = [
    "Checkpoint",
    "Streamed",
    "best_score",
    "checkpoint_names",
    "load_checkpoint",
    "newest",
    "read_newest",
    "save_checkpoint",
]

PART = re.compile("[a-z_]+")

REPLACED = "-replaced"
"""Added to the name of a checkpoint while another one of the same step takes its place."""

DAMAGED = "damaged-"
"""Before the name of a checkpoint with an unreadable manifest that was set aside when a newer one was written."""


def save_checkpoint(
    run: RunDirectory,
    step: int,
    parts: Mapping[str, Mapping[str, ArrayLike | Streamed]],
    facts: Mapping[str, Any],
    keep: int,
    score: float | None = None,
) -> Path:
    """Write a checkpoint, and drop old ones.

    A crash at any moment leaves the earlier checkpoints or this one, whole, and one of them with its replay.

    Args:
        run: where to; this process has claimed it.
        step: environment steps so far. A checkpoint of the same step is replaced.
        parts: the arrays of each part.
        facts: small things that JSON can hold.
        keep: how many of the newest to keep. The best one, and the newest that has a replay, are kept beside them.
        score: what "best" means; None, or what is not finite, never is.
    """
    for part in parts:
        if not PART.fullmatch(part):
            raise ValueError(f"A part of a checkpoint is named by small letters and underscores, not {part!r}.")
    target = run.checkpoints / step_name(step)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        earlier = _tidy(run)
        temporary.mkdir()
        seen = {part: vars(write_arrays(part_file(temporary, part), arrays)) for part, arrays in parts.items()}
        manifest = {
            "number": 1 + max((c.number for c in earlier), default=0),
            "step": step,
            "score": float(score) if score is not None and np.isfinite(score) else None,
            "parts": seen,
            "facts": dict(facts),
        }
        _write_synced(temporary / MANIFEST, seal(manifest))
        sync_folder(temporary)
        _put_in_place(temporary, target)
    except Exception as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError):
            raise RunError(
                f"Could not write checkpoint {target}: {error.strerror}. Earlier checkpoints are untouched."
            ) from error
        raise
    try:
        _drop_old(run, keep)
    except OSError as error:
        raise RunError(f"Could not drop old checkpoints of {run.path}: {error.strerror}.") from error
    return target


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """What has a name in the folder now has it after a power cut, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _tidy(run: RunDirectory) -> list[Checkpoint]:
    """Mend what a process that was killed has left, and return the checkpoints there are."""
    for stale in run.checkpoints.glob(".step-*"):
        shutil.rmtree(stale)
    _settle_replaced(run)
    return survey(run)[0]


def _put_in_place(temporary: Path, target: Path) -> None:
    """Give a complete checkpoint its name; one that has it stays readable under another until then."""
    if target.exists():
        target.rename(target.with_name(target.name + REPLACED))
    temporary.rename(target)
    sync_folder(target.parent)


def _settle_replaced(run: RunDirectory) -> None:
    """Drop checkpoints that have been replaced; one whose successor did not come gets its name back."""
    for old in run.checkpoints.glob(f"step-*{REPLACED}"):
        target = old.with_name(old.name.removesuffix(REPLACED))
        if target.exists():
            _remove(old)
        else:
            old.rename(target)


def _remove(folder: Path) -> None:
    """Take a checkpoint away as a whole: a process killed meanwhile leaves no half of it under its name."""
    hidden = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    folder.rename(hidden)
    shutil.rmtree(hidden)


def _drop_old(run: RunDirectory, keep: int) -> None:
    """Keep the newest, the best, and the newest that has a replay; no other keeps its replay."""
    _settle_replaced(run)
    checkpoints, damaged = survey(run)
    holder = next((c for c in reversed(checkpoints) if REPLAY in c.parts), None)
    kept = [*checkpoints[-keep:], best_of(checkpoints), holder]
    for checkpoint in checkpoints:
        if checkpoint not in kept:
            _remove(checkpoint.folder)
        elif REPLAY in checkpoint.parts and checkpoint is not holder:
            part_file(checkpoint.folder, REPLAY).unlink()
    for name, reason in damaged.items():
        # Now that there is a newer one, damage to this one no longer hides which is the latest.
        aside = run.checkpoints / (DAMAGED + name)
        shutil.rmtree(aside, ignore_errors=True)
        (run.checkpoints / name).rename(aside)
        run.log(f"checkpoint {name} is damaged ({reason}): set aside as {aside.name}")
