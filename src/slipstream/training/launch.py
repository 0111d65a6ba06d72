"""A run in several processes of this machine: starting them, watching over them, and ending them.

Whoever calls `train_in_processes` is none of them. Each has a device of its own: a GPU, or an equal part of the
processor's cores, from which XLA and Dr.Jit take the number of their threads.

The job goes to process 0 by its standard input, which then stays open. When it closes, because the run is asked to stop
or because whoever started it is gone, the run saves itself and ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import queue
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from slipstream.arrays import BackendError, gpus
from slipstream.runs.checkpoint import newest
from slipstream.runs.directory import CONFIG, RunDirectory, RunError
from slipstream.training.cores import confined_to, share_cores
from slipstream.training.health import ProcessLost, TrainingFailed
from slipstream.training.interrupt import Interrupt
from slipstream.training.loop import Result, Row
from slipstream.training.team import Seat, assemble

GLANCE = 0.1
"""Seconds between two looks at the processes."""

GRACE = 10.0
"""Seconds in which processes end by themselves when one of them has ended too early."""

FINISHED, FAILED, STOPPED = 0, 1, 130
"""Exit codes of a process."""

ERRORS = {error.__name__: error for error in (ValueError, RunError, BackendError, TrainingFailed)}
"""What is raised here when process 0 raises it."""


def train_in_processes(
    job: Mapping[str, Any], path: Path, count: int, backend: str, callback: Callable[[Row], bool | None] | None
) -> Result:
    """Train in so many processes of this machine, and wait until they are done.

    Args:
        job: arguments of `slipstream.train` for process 0, as plain data.
        path: the run's directory.
        count: how many.
        backend: what compiles the worlds.
        callback: is given every row of metrics.
    """
    devices = _devices(count, backend)
    with tempfile.TemporaryDirectory(prefix="slipstream-") as folder, Interrupt() as interrupt:
        crew = _Crew(devices, Path(folder), {**job, "report": callback is not None})
        try:
            said = _attend(crew, interrupt, callback)
        finally:
            crew.kill()
        result = said.get("result")
        if result is not None and not any(crew.codes):
            return Result.of(result)
        if sys.stderr.isatty():
            sys.stderr.write("\x1b[?25h")  # whoever hid the cursor may have had no time to bring it back
        if interrupt.requested and not crew.lost():
            raise KeyboardInterrupt
        raise _explained(crew, said, path)


def _devices(count: int, backend: str) -> list[dict[str, str]]:
    """What to add to the environment of each process, so that it has a GPU of its own, if they have any."""
    found = gpus() if backend in ("auto", "cuda") else []
    if not found:
        return [{}] * count
    if len(found) < count:
        raise ValueError(
            f"{count} processes need a GPU each, and there are {len(found)}: take --processes {len(found)}, or "
            "--backend llvm and JAX_PLATFORMS=cpu."
        )
    return [{"CUDA_VISIBLE_DEVICES": name} for name in found[:count]]


def _attend(crew: _Crew, interrupt: Interrupt, callback: Callable[[Row], bool | None] | None) -> dict[str, Any]:
    """Be there until all processes have ended; what process 0 has said."""
    said: dict[str, Any] = {}
    deadline: float | None = None
    while crew.running or not crew.told.empty():
        with contextlib.suppress(queue.Empty):
            message = crew.told.get(timeout=GLANCE)
            if "row" in message and callback is not None:
                crew.answer(bool(callback(message["row"])))
            said |= message
        if interrupt.requested:
            crew.stop()
        if deadline is None and any(crew.codes):
            deadline = time.monotonic() + GRACE
        if deadline is not None and time.monotonic() > deadline:
            crew.kill()
    return said


def _explained(crew: _Crew, said: Mapping[str, Any], path: Path) -> Exception:
    """Why there is no result."""
    lost = crew.lost()
    if not lost and "error" in said:
        kind = ERRORS.get(said["kind"], TrainingFailed)
        return kind(said["error"])
    if lost:
        number, how = next(iter(lost.items()))
        text = f"Process {number} of {len(crew.codes)} was lost: {how}."
    elif "lost" in said:
        text = said["lost"]
    else:
        number, code = next((n, c) for n, c in enumerate(crew.codes) if c)
        text = f"Process {number} of {len(crew.codes)} failed: {crew.last_words(number) or f'exit code {code}'}"
    if not (path / CONFIG).exists():
        return ProcessLost(text)
    run = RunDirectory(path)
    with contextlib.suppress(RunError):
        run.log(f"failed: {text}")
        checkpoint = newest(run)
        where = "from its beginning" if checkpoint is None else f"from step {checkpoint.step:,}"
        text += f" Go on {where} with: slipstream train --resume {shlex.quote(str(path))}"
    return ProcessLost(text)


class _Crew:
    """The processes."""

    def __init__(self, devices: list[dict[str, str]], folder: Path, job: Mapping[str, Any]):
        count = len(devices)
        self.told: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._outputs = [folder / f"{number}.txt" for number in range(count)]
        self._killed: set[int] = set()
        seat = Seat("127.0.0.1", _two_free_ports(), count, 0, secrets.token_hex(16))
        places = share_cores(count) if not any(devices) else [None] * count
        report, write = os.pipe()
        self._processes: list[subprocess.Popen[bytes]] = []
        for number, (device, cores) in enumerate(zip(devices, places)):
            environment = {**os.environ, **dataclasses.replace(seat, number=number).as_environment(), **device}
            first = number == 0
            # In sessions of their own, a Ctrl-C on the terminal reaches them only through us.
            with confined_to(cores), self._outputs[number].open("wb") as output:
                self._processes.append(
                    subprocess.Popen(
                        [sys.executable, "-m", __name__, *([str(write)] if first else [])],
                        stdin=subprocess.PIPE if first else subprocess.DEVNULL,
                        stdout=output,
                        stderr=None if first else output,
                        start_new_session=True,
                        pass_fds=[write] if first else [],
                        env=environment,
                    )
                )
        os.close(write)
        line = self._processes[0].stdin
        assert line is not None
        self._line = line
        self._write(json.dumps(job))
        threading.Thread(target=self._listen, args=(report,), daemon=True).start()

    def _listen(self, report: int) -> None:
        with os.fdopen(report, "rb") as lines:
            for line in lines:
                with contextlib.suppress(ValueError):  # the half of a line that a killed process leaves
                    self.told.put(json.loads(line))

    def _write(self, text: str) -> None:
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._line.write(text.encode() + b"\n")
            self._line.flush()

    def answer(self, stop: bool) -> None:
        """Whether the run should end after the row that was reported."""
        self._write(json.dumps(stop))

    def stop(self) -> None:
        """Ask the run to save and end."""
        with contextlib.suppress(BrokenPipeError):
            self._line.close()

    def kill(self) -> None:
        """End whoever has not."""
        for number, process in enumerate(self._processes):
            if process.poll() is None:
                self._killed.add(number)
                process.kill()
                process.wait()

    @property
    def running(self) -> bool:
        return any(process.poll() is None for process in self._processes)

    @property
    def codes(self) -> list[int | None]:
        return [process.poll() for process in self._processes]

    def lost(self) -> dict[int, str]:
        """Who was ended by a signal that is not ours, and by which."""
        ended = {number: code for number, code in enumerate(self.codes) if code is not None and code < 0}
        return {n: f"ended by {signal.Signals(-code).name}" for n, code in ended.items() if n not in self._killed}

    def last_words(self, number: int) -> str:
        lines = self._outputs[number].read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""


def _two_free_ports() -> int:
    """A port that is free now, as is the next one."""
    while True:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            with contextlib.suppress(OSError, OverflowError):
                two.bind(("127.0.0.1", port + 1))
                return port


# The other side.


def main() -> int:
    """One of the processes; returns its exit code."""
    from slipstream.training.api import train_in_team

    seat = Seat.from_environment()
    assert seat is not None
    if seat.number:
        train_in_team(assemble(seat))  # what goes wrong is told by process 0
        return FINISHED
    with os.fdopen(int(sys.argv[1]), "w", buffering=1) as report, open(0, "rb", buffering=0, closefd=False) as line:
        job = json.loads(line.readline())
        answers: queue.SimpleQueue[bool] = queue.SimpleQueue()
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        threading.Thread(target=_heed, args=(answers,), daemon=True).start()

        def say(**message: Any) -> None:
            with contextlib.suppress(BrokenPipeError):
                report.write(json.dumps(message) + "\n")

        def ask(row: Row) -> bool:
            say(row=dict(row))
            return answers.get()

        callback = ask if job.pop("report") else None
        try:
            team = assemble(seat)
            team.on_lost = lambda text: say(lost=text)
            result = train_in_team(team, callback=callback, **job)
        except KeyboardInterrupt:
            return STOPPED
        except Exception as error:
            kind = next((name for name, known in ERRORS.items() if isinstance(error, known)), "")
            say(error=str(error) if kind else f"{type(error).__name__}: {error}", kind=kind)
            return FAILED
        say(result=result.to_json())
    return FINISHED


def _heed(answers: queue.SimpleQueue[bool]) -> None:
    """Pass on what comes by standard input, and stop when it closes."""
    for line in _lines(0):
        answers.put(json.loads(line))
    os.kill(os.getpid(), signal.SIGTERM)
    answers.put(False)


def _lines(descriptor: int) -> Iterator[bytes]:
    left = b""
    while data := os.read(descriptor, 4096):
        *whole, left = (left + data).split(b"\n")
        yield from whole


if __name__ == "__main__":
    sys.exit(main())
