"""A disk that is full, for real: the kernel refuses to write."""

import resource
import signal
from contextlib import contextmanager


@contextmanager
def disk_full_after(size: int):
    """Writes beyond so many bytes of any file fail, as on a full disk (with another errno)."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
