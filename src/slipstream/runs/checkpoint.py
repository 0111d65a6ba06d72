"""Checkpoints: named arrays in a safetensors file, with a manifest that says what they should be.

A checkpoint is a directory `step-000000000000` with `arrays.safetensors` and `manifest.json` (step, checksum, and
whatever small facts belong to it). It appears under its name only when it is complete. No pickles anywhere.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as parse_arrays
from safetensors.numpy import save as serialize_arrays

from slipstream.runs.directory import RunDirectory, RunError, write_atomically

ARRAYS, MANIFEST, BEST = "arrays.safetensors", "manifest.json", "best.json"


@dataclass(frozen=True)
class Checkpoint:
    name: str
    step: int
    arrays: dict[str, np.ndarray]
    facts: dict[str, Any]


def save_checkpoint(
    run: RunDirectory,
    step: int,
    arrays: Mapping[str, np.ndarray],
    facts: Mapping[str, Any],
    keep: int,
    score: float | None = None,
) -> Path:
    """Write a checkpoint, remember it if it is the best so far, and drop old ones.

    Args:
        run: where to.
        step: environment steps so far.
        arrays: what to keep.
        facts: small things that JSON can hold.
        keep: how many of the newest to keep (the best is kept beside them).
        score: what "best" means; None never is.
    """
    name = f"step-{step:012d}"
    target = run.checkpoints / name
    temporary = run.checkpoints / f".{name}.{os.getpid()}"
    try:
        # Remains of a process that was killed while it wrote.
        for stale in run.checkpoints.glob(".step-*"):
            shutil.rmtree(stale)
        temporary.mkdir()
        data = serialize_arrays({k: np.asarray(v, order="C") for k, v in arrays.items()})
        _write_synced(temporary / ARRAYS, data)
        manifest = {
            "number": 1 + max((_number(run, n) or 0 for n in checkpoint_names(run)), default=0),
            "step": step,
            "sha256": hashlib.sha256(data).hexdigest(),
            "score": score,
            "facts": facts,
        }
        _write_synced(temporary / MANIFEST, json.dumps(manifest, indent=2).encode())
        _remove(target)
        temporary.rename(target)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise RunError(
            f"Could not write checkpoint {target}: {error.strerror}. Earlier checkpoints are untouched."
        ) from error
    if score is not None and np.isfinite(score) and score > best_score(run):
        write_atomically(run.checkpoints / BEST, json.dumps({"name": name, "score": score}) + "\n")
    _drop_old(run, keep)
    return target


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _remove(folder: Path) -> None:
    """Take a checkpoint away as a whole: a process killed meanwhile leaves no half of it under its name."""
    if folder.exists():
        hidden = folder.with_name(f".{folder.name}.{os.getpid()}.old")
        folder.rename(hidden)
        shutil.rmtree(hidden)


def _best(run: RunDirectory) -> dict[str, Any] | None:
    file = run.checkpoints / BEST
    if not file.exists():
        return None
    try:
        best = json.loads(file.read_text())
        return {"name": str(best["name"]), "score": float(best["score"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{file} is damaged: {error}. Remove it to go on without knowing the best.") from error


def best_score(run: RunDirectory) -> float:
    """Of the best checkpoint so far; minus infinity if there is none."""
    best = _best(run)
    return -float("inf") if best is None else best["score"]


def checkpoint_names(run: RunDirectory) -> list[str]:
    """Complete checkpoints in the order they were written: not that of steps, if a run went back to an earlier one.

    Those that do not say come last, so that damage to the latest one is not passed over.
    """
    names = sorted(p.name for p in run.checkpoints.glob("step-*") if (p / MANIFEST).exists())
    numbers = {name: _number(run, name) for name in names}
    return sorted(names, key=lambda name: (numbers[name] is None, numbers[name] or 0))


def _number(run: RunDirectory, name: str) -> int | None:
    """The how manieth checkpoint of the run this is."""
    try:
        return int(json.loads((run.checkpoints / name / MANIFEST).read_text())["number"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _drop_old(run: RunDirectory, keep: int) -> None:
    best = _best(run)
    sound = [name for name in checkpoint_names(run) if _number(run, name) is not None]
    for name in sound[:-keep]:
        if best is None or name != best["name"]:
            _remove(run.checkpoints / name)


def load_checkpoint(run: RunDirectory, which: str = "latest") -> Checkpoint:
    """Read a checkpoint and check that it is whole.

    Args:
        run: of which run.
        which: `latest`, `best`, or a checkpoint's name.
    """
    names = checkpoint_names(run)
    if not names:
        raise RunError(f"{run.path} has no checkpoint yet.")
    best = _best(run)
    name = names[-1] if which == "latest" or (which == "best" and best is None) else which
    if which == "best" and best is not None:
        name = best["name"]
    if name not in names:
        raise RunError(f"{run.path} has no checkpoint {which!r}; it has {', '.join(names)}.")
    folder = run.checkpoints / name
    others = [n for n in names if n != name]
    hint = f" Choose another one with --checkpoint: {', '.join(others)}." if others else ""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        data = (folder / ARRAYS).read_bytes()
        if hashlib.sha256(data).hexdigest() != manifest["sha256"]:
            raise RunError(f"Checkpoint {folder} is damaged: its checksum does not match.{hint}")
        return Checkpoint(name, manifest["step"], parse_arrays(data), manifest["facts"])
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise RunError(f"Checkpoint {folder} is damaged or not Slipstream's: {error}.{hint}") from error
