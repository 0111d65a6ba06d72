"""A process that is killed at any moment: it dies before the n-th thing it would do to the disk."""

import sys
from contextlib import contextmanager


class Killed(BaseException):
    """What a kill is like: nothing after it runs, and nobody handles it."""


CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate")

_left: int | None = None


def _watch(event: str, arguments: tuple) -> None:
    global _left
    writes = event == "open" and isinstance(arguments[1], str) and arguments[1] != "r" and "r" not in arguments[1]
    if _left is None or not (writes or event in CHANGES):
        return
    _left -= 1
    if _left < 0:
        raise Killed(event)


_watching = False


@contextmanager
def killed_before(change: int):
    """Inside, the given change to the disk (counted from 0) and all later ones do not happen, but raise `Killed`."""
    global _left, _watching
    if not _watching:
        # A hook stays for as long as Python runs, so there is only one.
        sys.addaudithook(_watch)
        _watching = True
    _left = change
    try:
        yield
    finally:
        _left = None
