"""What processes take of NVIDIA's GPUs, by the driver's own library (NVML)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

ASK = 0.5
"""Seconds between two questions: the driver itself looks a few times in a second."""


class GpuUse:
    """Of processes on any GPU of the machine. There is nothing to say without a GPU, or without `nvidia-ml-py`."""

    def __init__(self):
        self._devices: list[Any] = []
        self._seen: list[int] = []
        """Of each device, the time of the last sample that was taken into account, in its driver's microseconds."""
        self._asked = -ASK
        self._known: dict[int, tuple[float, float]] = {}
        try:
            import pynvml  # pyright: ignore[reportMissingImports]

            self._nvml: Any = pynvml
        except ImportError:
            return
        try:
            self._nvml.nvmlInit()
            self._devices = [self._nvml.nvmlDeviceGetHandleByIndex(i) for i in range(self._nvml.nvmlDeviceGetCount())]
        except self._nvml.NVMLError:  # no GPU, or no driver
            self._devices = []
        self._seen = [0] * len(self._devices)

    def figures(self, pids: Mapping[str, int]) -> dict[str, float]:
        """How many GPUs each of some processes keeps busy (`gpu/NAME`) and what it has of their memory in MB
        (`gpu_memory/NAME`); processes that have nothing to do with a GPU are left out.

        In a container that cannot see the processes outside, the driver counts them by other numbers: none is found.
        """
        if self._devices and time.monotonic() - self._asked >= ASK:
            self._asked, self._known = time.monotonic(), self._ask()
        found = {name: self._known[pid] for name, pid in pids.items() if pid in self._known}
        return {
            **{f"gpu/{name}": busy for name, (busy, _) in found.items()},
            **{f"gpu_memory/{name}": memory / 2**20 for name, (_, memory) in found.items()},
        }

    def _ask(self) -> dict[int, tuple[float, float]]:
        """GPUs kept busy and bytes of each process that is on one."""
        everybody: dict[int, tuple[float, float]] = {}
        for number, device in enumerate(self._devices):
            memory: dict[int, float] = {}
            for kind in (
                self._nvml.nvmlDeviceGetComputeRunningProcesses,
                self._nvml.nvmlDeviceGetGraphicsRunningProcesses,
            ):
                memory |= {p.pid: float(p.usedGpuMemory or 0) for p in self._or_nothing(kind, device)}
            samples = self._or_nothing(self._nvml.nvmlDeviceGetProcessUtilization, device, self._seen[number])
            self._seen[number] = max([self._seen[number], *(s.timeStamp for s in samples)])
            for pid, size in memory.items():
                mine = [min(s.smUtil, 100) / 100 for s in samples if s.pid == pid]
                busy, bytes_before = everybody.get(pid, (0.0, 0.0))
                everybody[pid] = busy + sum(mine) / max(len(mine), 1), bytes_before + size
        return everybody

    def _or_nothing(self, ask: Any, *given: Any) -> list[Any]:
        try:
            return ask(*given)
        except self._nvml.NVMLError:  # this GPU or this driver does not know, or nobody has used it
            return []
