"""`slipstream watch`: a page that shows runs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any

import tyro

NICENESS, LAST = 10, 19
"""How much the page steps back for others who want the processor, training above all: while it starts and compiles,
which is over soon; and while it plays, which it does with what nobody else wants."""
PATIENCE = 5.0
"""Seconds in which a page ends that was told to."""


@dataclass(frozen=True)
class Watch:
    """Open a page in which the newest policy of a run plays live, with its curves beside it.

    The page reads the run's directory and plays in worlds of its own, in this process: training is not disturbed. It
    can be opened while a run goes on, and long after. While nobody looks, nothing is played.
    """

    run: tyro.conf.Positional[str]
    """Directory of a run, or a directory with runs in it."""
    port: int | None = None
    """Where the page is; by default 8080, or any other port that is free."""
    host: str = "127.0.0.1"
    """Who can see it: by default this machine alone. Whoever can see the page can use all of its buttons."""
    worlds: int | None = None
    """In how many worlds to play; by default 64 robots, or fewer worlds that draw themselves."""
    saved_source: bool = False
    """Take worlds of your own as their runs have kept them, not as their files are now."""
    while_process: Annotated[int | None, tyro.conf.arg(name="while", metavar="PID")] = None
    """End when this process has ended."""
    wait: tyro.conf.FlagCreatePairsOff[bool] = False
    """Wait for a directory that is not there yet."""


def run(options: Watch) -> int:
    from slipstream.training.film import choose_renderer

    choose_renderer()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # a GPU belongs to training
    from slipstream.studio.server import Studio

    if options.worlds is not None and options.worlds < 1:
        raise ValueError(f"--worlds must be at least 1, got {options.worlds}.")
    if not options.wait and not Path(options.run).is_dir():
        raise ValueError(f"There is no directory {options.run}: name a run, or a directory with runs in it.")
    os.nice(NICENESS)
    studio = Studio(
        options.run,
        host=options.host,
        port=options.port,
        worlds=options.worlds,
        saved_source=options.saved_source,
        on_play=_step_back,
    )
    print(f"Watch {options.run} at {studio.address} (Ctrl-C ends it)", flush=True)
    gone, told = _end_of(options.while_process), _asked_to_stop()
    studio.serve(lambda: told.is_set() or gone())
    studio.close()
    return 0


def _step_back() -> None:
    """Let everybody else go first, with all threads of this process."""
    tasks = Path("/proc/self/task")
    for thread in [int(task.name) for task in tasks.iterdir()] if tasks.is_dir() else [0]:
        with contextlib.suppress(ProcessLookupError):  # some come and go
            os.setpriority(os.PRIO_PROCESS, thread, LAST)


def _asked_to_stop() -> threading.Event:
    """Is set by Ctrl-C and by SIGTERM; a second Ctrl-C ends whatever goes on."""
    told = threading.Event()

    def stop(number: int, _: Any) -> None:
        if told.is_set():
            raise KeyboardInterrupt
        told.set()

    # An exception could be lost in a library's callback. (And some that draw, SDL, would take SIGTERM for themselves.)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    return told


def _end_of(process: int | None) -> Callable[[], bool]:
    """Whether a process has ended."""
    if process is None:
        return lambda: False
    is_parent = os.getppid() == process

    def ended() -> bool:
        if is_parent:
            return os.getppid() != process
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        return False

    return ended


@contextmanager
def page_beside(path: str, port: int | None, *, stays: bool) -> Iterator[None]:
    """Inside, another process shows a run on a page; it ends when this one does, unless it `stays`.

    Args:
        path: of the run, which need not be there yet.
        port: where the page is; None: any that is free.
        stays: whether it goes on afterwards.
    """
    from slipstream.studio.ports import HOST, choose_port

    port = choose_port(HOST, port)
    command = [sys.executable, "-m", "slipstream.cli.main", "watch", path, "--wait", "--port", str(port)]
    with tempfile.TemporaryFile() as said:
        page = subprocess.Popen(
            command if stays else [*command, "--while", str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,  # Ctrl-C is meant for training, which saves itself first
        )
        print(f"Watch it at http://{HOST}:{port}", file=sys.stderr)
        try:
            yield
        finally:
            _part(page, said, stays)


def _part(page: subprocess.Popen, said: IO[bytes], stays: bool) -> None:
    """End a page, or say how to end it."""
    if page.poll() not in (None, 0):
        said.seek(0)
        last = said.read().decode(errors="replace").strip().rpartition("\n")[2]
        print(f"The page ended before training did: {last or f'exit code {page.returncode}'}", file=sys.stderr)
    elif stays:
        print(f"The page stays: kill {page.pid} ends it.", file=sys.stderr)
    else:
        page.terminate()
        try:
            page.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            page.kill()
