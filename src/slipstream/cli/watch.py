"""`slipstream watch`: a page that shows runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

NICENESS = 10
"""How much the page steps back for others who want the processor: training, above all."""


@dataclass(frozen=True)
class Watch:
    """Open a page in which the newest policy of a run plays live, with its curves beside it.

    The page reads the run's directory and plays in worlds of its own, in this process: training is not disturbed. It
    can be opened while a run goes on, and long after. While nobody looks, nothing is played.
    """

    run: tyro.conf.Positional[str]
    """Directory of a run, or a directory with runs in it."""
    port: int = 8080
    """Where the page is; 0: at any port that is free."""
    host: str = "127.0.0.1"
    """Who can see it: by default this machine alone. Whoever can see the page can use all of its buttons."""
    worlds: int | None = None
    """In how many worlds to play; by default 64 robots, or fewer worlds that draw themselves."""
    while_process: Annotated[int | None, tyro.conf.arg(name="while", metavar="PID")] = None
    """End when this process has ended; until then, wait for a run that is not there yet."""


def run(options: Watch) -> int:
    from slipstream.training.film import choose_renderer

    choose_renderer()
    from slipstream.runs.directory import find_runs
    from slipstream.studio.server import Studio

    if options.worlds is not None and options.worlds < 1:
        raise ValueError(f"--worlds must be at least 1, got {options.worlds}.")
    if not 0 <= options.port < 65536:
        raise ValueError(f"--port must be within 0 .. 65535, got {options.port}.")
    if options.while_process is None and not Path(options.run).is_dir():
        find_runs(options.run)  # says what is wrong
    os.nice(NICENESS)
    studio = Studio(options.run, host=options.host, port=options.port, worlds=options.worlds)
    print(f"Watch {options.run} at {studio.address} (Ctrl-C ends it)", flush=True)
    try:
        studio.serve(_end_of(options.while_process))
    finally:
        studio.close()
    return 0


def _end_of(process: int | None) -> Callable[[], bool]:
    """Whether a process has ended."""
    if process is None:
        return lambda: False

    def ended() -> bool:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        return False

    return ended
