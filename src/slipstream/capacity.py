"""How much memory there is, so that what does not fit is said before it is allocated."""

from __future__ import annotations

import resource
from pathlib import Path

import jax


class TooLarge(ValueError):
    """Something is too large for this machine; the message says how large, and what to do."""


def available_bytes(gpu: bool = False) -> int | None:
    """Bytes that can still be allocated; None where that cannot be told.

    Args:
        gpu: on the graphics processor, instead of in the machine's own memory.
    """
    if gpu:
        statistics = jax.devices()[0].memory_stats() or {}
        limit, used = statistics.get("bytes_limit"), statistics.get("bytes_in_use", 0)
        return None if limit is None else limit - used
    limits = [limit for limit in (_free_in_machine(), _free_in_group(), _free_in_process()) if limit is not None]
    return min(limits) if limits else None


def require_bytes(needed: int, what: str, way_out: str, gpu: bool = False) -> None:
    """Raise `TooLarge` if so many bytes cannot be had."""
    available = available_bytes(gpu)
    if available is not None and needed > available:
        raise TooLarge(
            f"{what} would take about {needed / 1e9:,.1f} GB of memory, and {available / 1e9:,.1f} GB are free: "
            f"{way_out}."
        )


def _free_in_machine() -> int | None:
    return _kilobytes("/proc/meminfo", "MemAvailable:")


def _free_in_process() -> int | None:
    """What a limit on the address space (`ulimit -v`) leaves."""
    limit, mapped = resource.getrlimit(resource.RLIMIT_AS)[0], _kilobytes("/proc/self/status", "VmSize:")
    return None if limit == resource.RLIM_INFINITY or mapped is None else max(limit - mapped, 0)


def _free_in_group() -> int | None:
    """What the limit of a container leaves (control groups, version 2)."""
    try:
        group = Path("/sys/fs/cgroup") / Path("/proc/self/cgroup").read_text().strip().rpartition(":")[2].lstrip("/")
        limit, used = ((group / name).read_text().strip() for name in ("memory.max", "memory.current"))
    except OSError:
        return None
    return None if limit == "max" else max(int(limit) - int(used), 0)


def _kilobytes(file: str, field: str) -> int | None:
    """A line such as `MemAvailable:  1024 kB`, in bytes."""
    try:
        lines = Path(file).read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field)), None)
