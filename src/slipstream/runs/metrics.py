"""Metrics of a run: JSON lines for programs, TensorBoard events for people."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from typing import Any

from slipstream.runs.directory import RunDirectory, RunError, write_atomically


class MetricsWriter:
    """Appends one row per report: flat names to numbers, with `step`, `iteration` and `seconds` among them."""

    def __init__(self, run: RunDirectory, from_step: int | None = None):
        """Args:
        run: where to.
        from_step: of a resumed run; what TensorBoard already has from later steps no longer counts.
        """
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        # Generated modules: their classes exist only at run time.
        events: Any = event_pb2
        summaries: Any = summary_pb2
        self._event, self._summary = events.Event, summaries.Summary
        self._file = run.metrics_file.open("a")
        self._board = EventFileWriter(str(run.tensorboard))
        if from_step is not None:
            restart = events.SessionLog(status=events.SessionLog.START)
            self._board.add_event(events.Event(wall_time=time.time(), step=from_step, session_log=restart))

    def write(self, row: Mapping[str, float]) -> None:
        try:
            self._file.write(json.dumps({k: _plain(v) for k, v in row.items()}) + "\n")
            self._file.flush()
        except OSError as error:
            raise RunError(f"Could not write metrics to {self._file.name}: {error.strerror}.") from error
        values = [
            self._summary.Value(tag=name, simple_value=value)
            for name, value in row.items()
            if name not in ("step", "iteration") and math.isfinite(value)
        ]
        event = self._event(wall_time=time.time(), step=int(row["step"]), summary=self._summary(value=values))
        self._board.add_event(event)

    def close(self) -> None:
        self._file.close()
        self._board.close()


def _plain(value: float) -> float | int | None:
    """JSON has no NaN: what is not finite becomes null."""
    return value if math.isfinite(value) else None


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


def forget_after(run: RunDirectory, iteration: int) -> None:
    """Drop rows later than an iteration, so that a resumed run writes them anew."""
    kept = [row for row in read_metrics(run) if row["iteration"] <= iteration]
    write_atomically(run.metrics_file, "".join(json.dumps(row) + "\n" for row in kept))
