"""The processor's cores, shared out between processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator

import numpy as np


def share_cores(count: int) -> list[Collection[int] | None]:
    """The processor's cores, shared out between so many processes (None: all of them). With more processes than
    cores, some share one."""
    if count <= 1:
        return [None]
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    if count >= len(cores):
        return [{cores[i % len(cores)]} for i in range(count)]
    return [set(part.tolist()) for part in np.array_split(np.array(cores), count)]


@contextlib.contextmanager
def confined_to(cores: Collection[int] | None) -> Iterator[None]:
    """Inside, processes are started on some cores only. Where this cannot be said, the system shares them out."""
    if cores is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
