"""Processes that work for another one: how they are started, learn their job, and never outlive who started them.

Nothing here, nor in what samplers, evaluators and the like import, imports JAX or Dr.Jit: they start in a moment.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import IO, Any, NoReturn

Job = dict[str, Any]

TRACEBACK = signal.SIGUSR1
"""Makes a process say where it is, also in the middle of somebody's C++."""


NICENESS = 10
"""Of processes that the learner does not wait for: on a core that both want, they get a third of what it gets."""

LAST_WORDS = 16_384
"""Bytes of what a process has said that are looked at; it may say more, but not fill the disk."""

SINGLE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
"""Processes are the parallelism: threads of theirs would be in each other's way."""

GIVEN_UP = 64
"""The exit code of a process that cannot do its work here, nor could another in its place."""


class ChildFailed(RuntimeError):
    """A process that others cannot do without is gone; the message says why, with what it said itself."""


def start_child(
    module: str, job: Job, descriptors: Sequence[int], output: IO[bytes], *, waited_for: bool = False
) -> subprocess.Popen[bytes]:
    """Start a process that ends when we do.

    Args:
        module: what it runs, as `python -m`; it calls `run_child`.
        job: what it is told.
        descriptors: what it inherits.
        output: where to what it says is written.
        waited_for: whether we wait for what it does, so that its work is as urgent as ours.
    """
    # Linux ends a child with the thread that has started it, and only the main one lasts as long as the process.
    in_main = threading.current_thread() is threading.main_thread()
    told = {**job, "path": sys.path, "waited_for": waited_for, "by_main_thread": in_main}
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        pass_fds=descriptors,
        # A Ctrl-C on the terminal is for us, who then tell the others.
        start_new_session=not waited_for,
        process_group=0 if waited_for else None,
        env={**os.environ, **SINGLE},
    )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(json.dumps(told).encode() + b"\n")
        process.stdin.flush()
    return process


def last_words(output: IO[bytes]) -> str:
    """The end of what a process has said."""
    size = os.fstat(output.fileno()).st_size
    return os.pread(output.fileno(), LAST_WORDS, max(0, size - LAST_WORDS)).decode(errors="replace").strip()


def ending(code: int, words: str) -> str:
    """How a process has ended, by its exit code and its last words."""
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    lines = words.splitlines()
    return f"failed: {lines[-1]}" if code and lines else f"ended by itself with exit code {code}"


def give_up(reason: str) -> NoReturn:
    """End, and say why; there will be no other in our place. Not for processes that the run cannot do without."""
    print(reason, file=sys.stderr)
    sys.exit(GIVEN_UP)


def run_child(work: Callable[[Job], None]) -> None:
    """Read the job from standard input, which then stays open, and do it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started us says when we end
    faulthandler.enable()
    faulthandler.register(TRACEBACK)
    line = bytearray()
    while not line.endswith(b"\n"):
        more = os.read(0, 1 << 16)
        if not more:
            return
        line += more
    job = json.loads(line)
    sys.path[:] = job["path"]
    if job["by_main_thread"]:
        _end_with_parent()
    if not job["waited_for"]:
        _let_the_learner_go_first()
    threading.Thread(target=_watch_line, daemon=True).start()
    work(job)


def _end_with_parent() -> None:
    """Ask Linux to end us when our parent ends, however busy the environment's own code keeps us."""
    if sys.platform != "linux":
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def _let_the_learner_go_first() -> None:
    """Where cores are few, take what the learner leaves.

    Linux may share cores out among sessions first (`sched_autogroup`), and looks at niceness only within them; every
    process of ours has a session of its own, which is told too.
    """
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as file:
        file.write(str(NICENESS))


def _watch_line() -> None:
    """The line to our parent closes when it is gone, on every system."""
    with contextlib.suppress(OSError):
        while os.read(0, 1):
            pass
    os._exit(1)
