"""What the page of `slipstream train --watch` costs: training with it and without it, in turns, within one run.

    .venv/bin/python benchmarks/studio.py
    .venv/bin/python benchmarks/studio.py --env half-cheetah --turns 6

One training with a page beside it, as `--watch` starts it. In turns, the page is asleep (its process is stopped, as if
it were not there), nobody looks at it, and one viewer does. A viewer is a client that takes every frame as a browser
would, but draws nothing: drawing is the browser's work, on a graphics card or on another machine.

Where other things go on, steps per second are noisy: every turn is shown, and compared with the one beside it in time.
The processor time that training needs for a step is less noisy, and shows what the page takes of shared caches; what it
takes of the processor itself shows in the steps per second.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import tyro
from rich.console import Console
from rich.table import Table

from slipstream.studio.ports import HOST, choose_port

ASLEEP, ALONE, WATCHED = "asleep", "nobody looks", "one viewer"
PATIENCE = 300.0
"""Seconds until the page must play."""
SETTLED = 1.0
"""Seconds after a change before anything is counted."""


@dataclass(frozen=True)
class Options:
    env: str = "humanoid"
    """The world to train in, with its preset."""
    turns: int = 4
    """How often each state of the page is measured."""
    seconds: float = 10.0
    """How long each time."""
    json: bool = False
    """Print JSON instead of a table."""


@dataclass(frozen=True)
class Moment:
    """Where training is: when, how many steps it has made, and how much processor time it and the page have taken."""

    at: float
    step: float
    training: float
    page: float


class Viewer:
    """Somebody who looks at the page."""

    def __init__(self, port: int):
        import msgspec
        import viser
        from websockets.sync.client import connect
        from websockets.typing import Subprotocol

        self.frames = 0
        version = Subprotocol(f"viser-v{viser.__version__}")
        self._socket = connect(f"ws://{HOST}:{port}", subprotocols=[version], max_size=None, compression=None)
        # A client counts as a viewer when it has said where it looks from.
        camera = {
            "type": "ViewerCameraMessage",
            "wxyz": (1.0, 0.0, 0.0, 0.0),
            "position": (0.0, -5.0, 2.0),
            "fov": 1.0,
            "near": 0.1,
            "far": 1000.0,
            "image_height": 700,
            "image_width": 900,
            "look_at": (0.0, 0.0, 0.0),
            "up_direction": (0.0, 0.0, 1.0),
        }
        self._socket.send(msgspec.msgpack.encode(camera))
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        for _ in self._socket:
            self.frames += 1

    def close(self) -> None:
        self._socket.close()


class Measured:
    """A training that goes on, and the page beside it."""

    def __init__(self, process: subprocess.Popen, run: Path, port: int):
        self.run, self.port = run, port
        self.training = psutil.Process(process.pid)
        self.page = wait_for(self._find_page, "the page")
        self.viewer: Viewer | None = None

    def _find_page(self) -> psutil.Process | None:
        pages = [child for child in self.training.children() if "watch" in child.cmdline()]
        return pages[0] if pages else None

    def look(self) -> None:
        self.viewer = Viewer(self.port)

    def look_away(self) -> None:
        if self.viewer is not None:
            self.viewer.close()
            self.viewer = None

    def put(self, state: str) -> None:
        """Put the page into a state."""
        self.page.resume()
        self.look_away()
        if state == WATCHED:
            self.look()
        time.sleep(SETTLED)
        if state == ASLEEP:
            self.page.suspend()

    def moment(self) -> Moment:
        """When the next report of training comes."""
        known = self._last_step()
        step = wait_for(lambda: (found := self._last_step()) > known and found, "a report of training")
        return Moment(time.monotonic(), step, _spent(self.training), _spent(self.page))

    def _last_step(self) -> float:
        file = self.run / "metrics.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        with contextlib.suppress(IndexError, json.JSONDecodeError):
            return json.loads(lines[-1])["step"]
        return 0.0


def _spent(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def wait_for(happens: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if found := happens():
            return found
        time.sleep(0.02)
    raise TimeoutError(f"Waited in vain for {what}.")


@contextlib.contextmanager
def training(options: Options) -> Iterator[Measured]:
    """Inside, a training goes on, and its page plays."""
    with tempfile.TemporaryDirectory() as folder:
        run, port = Path(folder) / "run", choose_port(HOST, None)
        command = [sys.executable, "-m", "slipstream.cli.main", "train", options.env, "--run", str(run), "--quiet"]
        # Without evaluations, which would fall into some turns only; and with new weights for the page all the time.
        command += ["--seconds", "100000", "--evaluate-every", "1000000", "--checkpoint-every", "5"]
        command += ["--watch", "--watch-port", str(port)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        measured = None
        try:
            measured = Measured(process, run, port)
            wait_for(lambda: any((run / "checkpoints").glob("*")), "a checkpoint")
            measured.look()
            wait_for(lambda: _frames_in_a_second(measured) > 10, "the page to play")
            yield measured
        finally:
            if measured is not None:
                measured.page.resume()
                measured.look_away()
            process.terminate()
            process.wait()


def _frames_in_a_second(measured: Measured) -> int:
    assert measured.viewer is not None
    before = measured.viewer.frames
    time.sleep(1.0)
    return measured.viewer.frames - before


def measure(options: Options) -> dict[str, list[dict[str, float]]]:
    """By state of the page, what each turn had."""
    found: dict[str, list[dict[str, float]]] = {ASLEEP: [], ALONE: [], WATCHED: []}
    with training(options) as measured:
        for turn in range(options.turns):
            # There and back again: what drifts evenly falls on all of them alike.
            for state in found if turn % 2 == 0 else reversed(found):
                measured.put(state)
                begin = measured.moment()
                frames = 0 if measured.viewer is None else measured.viewer.frames
                time.sleep(options.seconds)
                end = measured.moment()
                steps, seconds = end.step - begin.step, end.at - begin.at
                shown = 0 if measured.viewer is None else measured.viewer.frames - frames
                found[state].append(
                    {
                        "steps_per_second": steps / seconds,
                        "microseconds_per_step": 1e6 * (end.training - begin.training) / steps,
                        "cores_of_the_page": (end.page - begin.page) / seconds,
                        "frames_per_second": shown / seconds,
                    }
                )
    return found


def main(options: Options) -> None:
    found = measure(options)
    ratios = {
        state: {
            name: statistics.median(a[name] / b[name] for a, b in zip(turns, found[ASLEEP]))
            for name in ("steps_per_second", "microseconds_per_step")
        }
        for state, turns in found.items()
    }
    if options.json:
        print(json.dumps({"turns": found, "ratios": ratios}, indent=2))
        return
    table = Table(
        "the page", "steps/s of training", "ratio", "its CPU time, us/step", "ratio", "cores of the page", "frames/s"
    )
    for state, turns in found.items():
        shown = {name: ", ".join(f"{turn[name]:,.0f}" for turn in turns) for name in turns[0]}
        table.add_row(
            state,
            shown["steps_per_second"],
            f"{ratios[state]['steps_per_second']:.3f}",
            ", ".join(f"{turn['microseconds_per_step']:.1f}" for turn in turns),
            f"{ratios[state]['microseconds_per_step']:.3f}",
            ", ".join(f"{turn['cores_of_the_page']:.2f}" for turn in turns),
            shown["frames_per_second"],
        )
    Console(width=150).print(table)


if __name__ == "__main__":
    main(tyro.cli(Options))
