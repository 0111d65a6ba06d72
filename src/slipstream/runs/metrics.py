"""Metrics of a run: JSON lines for programs, TensorBoard events for people.

Both are sinks: `report` takes a row of metrics (flat names to numbers, with `step`, `iteration` and `seconds` among
them), and `close` ends it.
"""

from __future__ import annotations

import json
import math
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.runs.directory import RunDirectory, append, write_atomically, writing
from slipstream.runs.events import first_event, restart_event, scalars_event


class MetricsFile:
    """Appends every row to `metrics.jsonl`, as a whole or not at all."""

    def __init__(self, run: RunDirectory):
        self._path = run.metrics_file

    def report(self, row: Mapping[str, float]) -> None:
        append(self._path, (json.dumps({name: _plain(value) for name, value in row.items()}) + "\n").encode())

    def close(self) -> None:
        """Nothing is left to do: a row is on its way to the disk when `report` returns."""


class TensorBoard:
    """Appends every row to an event file in `tensorboard/`."""

    def __init__(self, run: RunDirectory, from_step: int | None = None):
        """Args:
        run: where to.
        from_step: of a resumed run; what TensorBoard already has from later steps no longer counts.
        """
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self._path = run.tensorboard / name
        with writing(run.tensorboard):
            run.tensorboard.mkdir(exist_ok=True)
        append(self._path, first_event() + (b"" if from_step is None else restart_event(from_step + 1)))

    def report(self, row: Mapping[str, float]) -> None:
        values = {name: float(value) for name, value in row.items() if name not in ("step", "iteration")}
        append(self._path, scalars_event(int(row["step"]), values))

    def close(self) -> None:
        """Nothing is left to do."""


def _plain(value: float) -> float | int | None:
    """JSON has no NaN: what is not finite becomes null."""
    if not math.isfinite(value):
        return None
    return value if isinstance(value, int) else float(value)


def read_metrics(run: RunDirectory) -> list[dict[str, Any]]:
    """All rows; a half-written last line (of a process that was killed) is left out."""
    rows = []
    if run.metrics_file.exists():
        for line in run.metrics_file.read_text().splitlines():
            try:
                rows.append(json.loads(line))
            except ValueError:
                break
    return rows


def read_columns(run: RunDirectory) -> dict[str, np.ndarray]:
    """All metrics by name, `[rows]` each, in the order of the run; NaN where a row has no (finite) value."""
    return as_columns(read_metrics(run))


def as_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """Rows of metrics by name, `[rows]` each; NaN where a row has no (finite) value."""
    names = dict.fromkeys(name for row in rows for name in row)
    # NumPy reads None as NaN.
    return {name: np.array([row.get(name) for row in rows], np.float64) for name in names}


class MetricsTail:
    """The metrics of a run that goes on: what is new is read, and the rest remembered.

    Attributes:
        rows: all that have been read.
    """

    def __init__(self, run: RunDirectory):
        self.rows: list[dict[str, Any]] = []
        self._path = run.metrics_file
        self._file: tuple[int, int] = (0, 0)

    def read(self) -> bool:
        """Read what is new: whether anything is. A file that was replaced, or that lost rows, is read anew."""
        try:
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                number, end = self._file
                if status.st_ino == number and status.st_size == end:
                    return False
                if status.st_ino != number or status.st_size < end:
                    self.rows, end = [], 0
                file.seek(end)
                whole = file.read().rpartition(b"\n")[0]
        except OSError:
            changed, self.rows, self._file = bool(self.rows), [], (0, 0)
            return changed
        try:
            new = [json.loads(line) for line in whole.splitlines()]
        except ValueError:
            self.rows, self._file = [], (0, 0)
            return True
        self.rows += new
        self._file = (status.st_ino, end + len(whole) + (1 if whole else 0))
        return bool(new)


def metrics(run: str | Path) -> dict[str, np.ndarray]:
    """The metrics of a run as arrays of equal length, by name: `metrics("runs/NAME")["return/cart"]` over `["step"]`.

    Where a row lacks a value, there is NaN.
    """
    return read_columns(RunDirectory.open(run))


def forget_after(run: RunDirectory, iteration: int) -> None:
    """Drop rows later than an iteration, so that a resumed run writes them anew."""
    kept = [row for row in read_metrics(run) if row["iteration"] <= iteration]
    write_atomically(run.metrics_file, "".join(json.dumps(row) + "\n" for row in kept))
