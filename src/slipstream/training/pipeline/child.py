"""What every process of the pipeline does beside its work: it learns its job, and never outlives who started it.

Nothing here, nor in what samplers, evaluators and the like import, imports JAX or Dr.Jit: they start in a moment.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn

Job = dict[str, Any]

TRACEBACK = signal.SIGUSR1
"""Makes a process say where it is, also in the middle of somebody's C++."""


NICENESS = 10
"""Of all processes but the learner: on a core that both want, they get a third of what it gets."""

GIVEN_UP = 64
"""The exit code of a process that cannot do its work here, nor could another in its place."""


def give_up(reason: str) -> NoReturn:
    """End, and say why; there will be no other in our place. Not for processes that the run cannot do without."""
    print(reason, file=sys.stderr)
    sys.exit(GIVEN_UP)


def run_child(work: Callable[[Job], None]) -> None:
    """Read the job from standard input, which then stays open, and do it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started us says when we end
    faulthandler.enable()
    faulthandler.register(TRACEBACK)
    _end_with_parent()
    _let_the_learner_go_first()
    line = bytearray()
    while not line.endswith(b"\n"):
        more = os.read(0, 1 << 16)
        if not more:
            return
        line += more
    job = json.loads(line)
    sys.path[:] = job["path"]
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
