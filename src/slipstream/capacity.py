"""How much memory this machine has left for us, and how many cores."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import jax

WORTH_ASKING = 64 * 2**20
"""So many bytes are always there: asking how many there are takes longer than getting them."""


def usable_cores() -> int:
    """How many cores this process may use: several runs may share a machine, each on its own."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def require_memory(sizes: Iterable[int], what: str, way_out: str, backend: str = "llvm") -> None:
    """Refuse what does not fit into memory, before it is tried: it would end the process, or others.

    Args:
        sizes: of the arrays that are to be made, in bytes.
        what: for what, as the beginning of a sentence.
        way_out: what to do about it.
        backend: where.
    """
    sizes = list(sizes)
    if sum(sizes) < WORTH_ASKING:
        return
    used = sum(sizes)
    # Dr.Jit asks for powers of two. What it does not use of them costs nothing but address space, and that of a GPU.
    asked = sum(1 << (size - 1).bit_length() for size in sizes if size)
    free, addressable = available_memory(backend), _memory_within_limits()
    for needed, available in ((asked if backend == "cuda" else used, free), (asked, addressable)):
        if available is not None and needed > available:
            raise ValueError(
                f"{what} would take about {needed / 2**30:,.1f} GB of memory, "
                f"and {available / 2**30:,.1f} GB are free: {way_out}."
            )


def available_memory(backend: str = "llvm") -> int | None:
    """How many bytes this process could still get: by the machine, its control groups and its own limits.

    On a GPU, what JAX knows to be free there. None if nobody knows.
    """
    if backend == "cuda":
        stats = jax.devices()[0].memory_stats() or {}
        return stats["bytes_limit"] - stats["bytes_in_use"] if {"bytes_limit", "bytes_in_use"} <= set(stats) else None
    known = [_machine_memory(), _control_group_memory(), _memory_within_limits()]
    return min((amount for amount in known if amount is not None), default=None)


def _machine_memory() -> int | None:
    try:
        facts = Path("/proc/meminfo").read_text()
        return int(re.search(r"MemAvailable:\s*(\d+) kB", facts).group(1)) * 1024  # type: ignore[union-attr]
    except (OSError, AttributeError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None


def _control_group_memory() -> int | None:
    """What the control groups of this process leave it, those around its own included."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    left = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, names = Path("/sys/fs/cgroup"), ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            root, names = (
                Path("/sys/fs/cgroup/memory"),
                (
                    "memory.limit_in_bytes",
                    "memory.usage_in_bytes",
                    "total_inactive_file",
                ),
            )
        else:
            continue
        group = root / path.strip("/")
        while group.is_relative_to(root):
            left += _left_in(group, *names)
            group = group.parent
    return min(left, default=None)


def _left_in(group: Path, limit: str, used: str, reclaimable: str) -> list[int]:
    try:
        most, now = int((group / limit).read_text()), int((group / used).read_text())
        found = re.search(rf"^{reclaimable} (\d+)$", (group / "memory.stat").read_text(), re.MULTILINE)
    except (OSError, ValueError):  # there is no such group from in here, or it has no limit
        return []
    return [max(most - now + (int(found.group(1)) if found else 0), 0)]


def _memory_within_limits() -> int | None:
    """What `ulimit -v` leaves."""
    try:
        import resource
    except ImportError:
        return None
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY:
        return None
    try:
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        mapped = 0
    return max(most - mapped, 0)
