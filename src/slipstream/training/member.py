"""A run in a process of its own: both ends of the line between it and whoever started it.

The job comes in by standard input, which then stays open. When it closes, because the run is asked to stop or because
whoever started it is gone, the run saves itself and ends.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Collection
from pathlib import Path

from slipstream.runs.directory import CONFIG, RunDirectory, writing
from slipstream.training.api import RESUMABLE, train
from slipstream.training.config import TrainConfig
from slipstream.training.config_json import from_json, to_json
from slipstream.training.cores import confined_to
from slipstream.training.loop import Result, Row

FINISHED, FAILED, STOPPED = 0, 1, 130
"""Exit codes of a member."""


class Member:
    """A run that has been started, seen from outside."""

    def __init__(self, config: TrainConfig, path: Path, cores: Collection[int] | None = None):
        """Args:
        config: what to train.
        path: its directory; a run that is there already is gone on with.
        cores: the processor's cores that it may use; by default those that we may use.
        """
        self.cores = cores
        self._output = path.with_name(f"{path.name}.error.txt")
        with writing(self._output):
            path.parent.mkdir(parents=True, exist_ok=True)
            output = self._output.open("wb")
        # In a session of its own, a Ctrl-C on the terminal reaches it only through us, and when it is ready for it.
        with output, confined_to(cores):
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # JAX would take three quarters of a GPU's memory for whichever run comes first.
                env={"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **os.environ} if cores is not None else None,
            )
        assert self._process.stdin is not None
        self._line = self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._line.write(json.dumps({"config": to_json(config), "run": str(path)}).encode() + b"\n")
            self._line.flush()
        self._rows = _NewRows(RunDirectory(path).metrics_file)

    def stop(self) -> None:
        """Ask it to save and end."""
        with contextlib.suppress(BrokenPipeError):
            self._line.close()

    def kill(self) -> None:
        self._process.kill()
        self.end()

    def new_rows(self) -> list[Row]:
        """The metrics it has reported since they were last asked for."""
        return self._rows()

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def end(self) -> tuple[int, str | None]:
        """Wait until it is over; its exit code, and in one line what went wrong."""
        self.stop()
        code = self._process.wait()
        said = self._output.read_text(errors="replace").strip()
        if code in (FINISHED, STOPPED) or not said:
            self._output.unlink()
        if code in (FINISHED, STOPPED):
            return code, None
        how = [f"ended by {signal.Signals(-code).name}"] if code < 0 else []
        how += [f"{said.splitlines()[-1]} (all it said: {self._output})"] if said else []
        return code, ": ".join(how) or f"exit code {code}"


class _NewRows:
    """The rows that are added to a file of metrics. A run that is resumed first replaces it by what it keeps of it."""

    def __init__(self, file: Path):
        self._file = file
        self._old = file.stat().st_ino if file.exists() else None
        self._place: int | None = None

    def __call__(self) -> list[Row]:
        try:
            with self._file.open("rb") as file:
                now = os.fstat(file.fileno())
                if now.st_ino == self._old:
                    return []
                if self._place is None:
                    self._place = 0 if self._old is None else now.st_size
                file.seek(self._place)
                whole, newline, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return []
        self._place += len(whole) + len(newline)
        rows = [json.loads(line) for line in whole.splitlines()]
        return [{name: math.nan if value is None else value for name, value in row.items()} for row in rows]


def holds_run(path: Path) -> bool:
    return (path / CONFIG).exists()


def main() -> int:
    """The run's own side; returns its exit code."""
    with open(0, "rb", buffering=0, closefd=False) as line:
        job = json.loads(line.readline())
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    threading.Thread(target=_end_with_the_line, daemon=True).start()
    try:
        result = _train(from_json(job["config"]), Path(job["run"]))
    except KeyboardInterrupt:
        return STOPPED
    except Exception as error:
        traceback.print_exc()
        print(" ".join(f"{type(error).__name__}: {error}".split()), file=sys.stderr)
        return FAILED
    return FINISHED if result.finished else STOPPED


def _end_with_the_line() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _train(config: TrainConfig, path: Path) -> Result:
    if not holds_run(path):
        return train(config, run=path, quiet=True)
    before = from_json(RunDirectory.open(path).config())
    changes = {n: getattr(config, n) for n in RESUMABLE if getattr(config, n) != getattr(before, n)}
    return train(resume=path, quiet=True, **changes)


if __name__ == "__main__":
    sys.exit(main())
