"""Ctrl-C, SIGTERM and SIGHUP ask a run to stop at the end of its iteration, so that it can save."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any

PATIENCE = 3.0
"""Seconds in which further signals change nothing: whoever presses Ctrl-C twice still wants the run to be saved."""

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Interrupt:
    """A context in which the first signal sets `requested`; one that comes much later stops at once."""

    def __init__(self) -> None:
        self.requested = False
        self._since = 0.0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.requested and now - self._since > PATIENCE:
            raise KeyboardInterrupt
        if not self.requested:
            self.requested, self._since = True, now
            with contextlib.suppress(OSError, ValueError):  # a terminal that hung up cannot be written to
                if sys.stderr.isatty():
                    print("\nSaving; again in a few seconds stops without saving.", file=sys.stderr)

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
