"""What the llvm backend compiles kernels for: the features of the processor that are worth using, as it was probed.

Processors of one name differ. On some hosts a hardware gather (one instruction that loads a whole vector from anywhere)
beside Dr.Jit's stores takes twenty times as long as single loads, on others it is faster than those: so both are tried
once, which takes a tenth of a second, and what was found is kept for the machine. SLIPSTREAM_GATHER=hardware or =loads
decides without trying.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import drjit as dr

from slipstream.caches import cache_folder

VARIABLE = "SLIPSTREAM_GATHER"
HARDWARE, LOADS = "hardware", "loads"

NO_GATHER = b",+prefer-no-gather"
"""A feature that makes LLVM load the lanes of a gather one by one."""

REALIGN = b'" "stackrealign"="true'
"""Closes the target-features attribute of a kernel's LLVM function and opens another beside it.

Without it LLVM spills AVX-512 registers to a stack that is only 16-byte aligned; every such spill then
crosses a cache line. The physics kernels of the humanoid and the ant run 1.3 and 1.2 times faster with it.
"""

WORTHWHILE = 1.3
"""How many times longer gathers in hardware must take before single loads are chosen."""

LANES, TABLE, OUTPUTS, TRIES = 1 << 16, 1 << 12, 4, 7
"""Of the probe: a vector of numbers is gathered from a small table and written to several places."""

_SET_TARGET = "_Z19jit_llvm_set_targetPKcS0_j"
_TARGET_CPU = "_Z19jit_llvm_target_cpuv"
_TARGET_FEATURES = "_Z24jit_llvm_target_featuresv"
_VECTOR_WIDTH = "_Z21jit_llvm_vector_widthv"


@dataclass(frozen=True)
class Target:
    """What kernels are compiled for."""

    gather: str
    """`hardware`: one instruction for a vector; `loads`: one for each lane."""
    chosen_by: str
    """`probe`, `user`, or `default`: there is nothing to choose from."""
    nanoseconds: dict[str, float]
    """What a gathered vector took, by the choices that were tried."""
    aligned_stack: bool


@cache
def core_functions(*names: str) -> list[Any] | None:
    """Functions of Dr.Jit's C++ core that its Python side does not expose; None if this Dr.Jit lacks one."""
    try:
        core = ctypes.CDLL(str(next(Path(dr.__file__).parent.glob("libdrjit-core.*"))))
        return [core[name] for name in names]
    except (OSError, AttributeError, StopIteration):
        return None


def vector_width() -> int:
    """Lanes per instruction of the llvm backend: 16 with AVX-512."""
    found = core_functions(_VECTOR_WIDTH)
    return int(found[0]()) if found else 0


@cache
def choose_target() -> Target:
    """Choose what kernels are compiled for from now on, in this process. Dr.Jit's LLVM has been started.

    Raises:
        ValueError: if the user asks for something that there is not.
    """
    asked = os.environ.get(VARIABLE)
    if asked not in (None, "", HARDWARE, LOADS):
        raise ValueError(f"{VARIABLE} must be {HARDWARE} or {LOADS}, got {asked!r}.")
    features = _features()
    if features is None or b"+avx512f" not in features:
        return Target(HARDWARE, "default", {}, aligned_stack=False)
    if asked:
        target = Target(asked, "user", {}, aligned_stack=True)
    else:
        target = _kept() or _probed(features)
    _compile_for(features, target.gather)
    return target


def _features() -> bytes | None:
    """Of the processor, as Dr.Jit found them; None if they cannot be changed in this Dr.Jit."""
    found = core_functions(_SET_TARGET, _TARGET_CPU, _TARGET_FEATURES, _VECTOR_WIDTH)
    if found is None:
        return None
    set_target, cpu, features, width = found
    cpu.restype = features.restype = ctypes.c_char_p
    width.restype = ctypes.c_uint32
    set_target.argtypes, set_target.restype = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint32], None
    return features()


def _compile_for(features: bytes, gather: str) -> None:
    found = core_functions(_SET_TARGET, _TARGET_CPU, _TARGET_FEATURES, _VECTOR_WIDTH)
    assert found is not None
    set_target, cpu, _, width = found
    set_target(cpu(), features + (NO_GATHER if gather == LOADS else b"") + REALIGN, width())


def _probed(features: bytes) -> Target:
    took = {}
    for gather in (HARDWARE, LOADS):
        _compile_for(features, gather)
        took[gather] = _seconds_of_gathers() * vector_width() / LANES * 1e9
    better = LOADS if took[HARDWARE] > WORTHWHILE * took[LOADS] else HARDWARE
    target = Target(better, "probe", took, aligned_stack=True)
    _keep(target)
    return target


def _seconds_of_gathers() -> float:
    import drjit.llvm as llvm

    table = dr.linspace(llvm.Float, 0.0, 1.0, TABLE)
    # Neighbours read places far apart, as agents do that look at one another.
    where = dr.arange(llvm.UInt, LANES) * 1_597 % TABLE
    dr.eval(table, where)
    best = float("inf")
    for _ in range(TRIES):
        found = [dr.gather(llvm.Float, table, (where + i) % TABLE) * (i + 1.0) for i in range(OUTPUTS)]
        dr.sync_thread()
        began = time.perf_counter()
        dr.eval(found)
        dr.sync_thread()
        best = min(best, time.perf_counter() - began)
    return best


# What was found is kept for the machine.


def _file() -> Path:
    return cache_folder() / "processor.json"


def _machine() -> str:
    model = platform.processor()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    return " | ".join((platform.node(), model, f"drjit {metadata.version('drjit')}"))


def _kept() -> Target | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        target = Target(**json.loads(_file().read_text())[_machine()])
        return target if target.gather in (HARDWARE, LOADS) else None
    return None


def _keep(target: Target) -> None:
    """Atomically; a place that cannot be written to is probed again next time."""
    file = _file()
    with suppress(OSError):
        known = {}
        with suppress(ValueError, FileNotFoundError):
            known = dict(json.loads(file.read_text()))
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f"{file.name}.{os.getpid()}")
        draft.write_text(json.dumps({**known, _machine(): asdict(target)}, indent=2) + "\n")
        draft.replace(file)
