"""Which Dr.Jit backend runs the worlds, and how its arrays meet JAX and NumPy.

This is the only module that knows about LLVM (which one is used: `llvm.py`, for what it compiles: `target.py`), CUDA,
thread pools and DLPack.
Everything else asks for `array_types(backend)` and writes code that is the same on all of them:

* ``llvm``: one SIMD kernel over all cores (the default without an NVIDIA GPU),
* ``cuda``: one CUDA kernel (the default with one),
* ``scalar``: no compiler at all. A quantity of a world is a Python float, a quantity of its agents an
  immediately evaluated array. Slow, and made for the debugger and for `slipstream check`.
"""

from __future__ import annotations

import ctypes
import gc
import glob
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from types import ModuleType
from typing import Any, Literal

import drjit as dr
import jax
import numpy as np

from slipstream.caches import cache_folder
from slipstream.llvm import INSTALL_LLVM, LLVMLibrary, llvm_for_drjit
from slipstream.target import choose_target, core_functions

BackendName = Literal["llvm", "cuda", "scalar"]
BACKEND_CHOICES = ("auto", "llvm", "cuda", "scalar")


class BackendError(RuntimeError):
    """No backend can do what was asked; the message says what to install or to choose instead."""


def _has_nvidia_gpu() -> bool:
    # Asking Dr.Jit would initialise CUDA; the driver's own device file is enough to know.
    return bool(glob.glob("/dev/nvidia[0-9]*") or glob.glob("/dev/dxg"))


def gpus() -> list[str]:
    """The NVIDIA GPUs that processes may use, as CUDA_VISIBLE_DEVICES names them. Nothing is started to find out."""
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        return [name for name in os.environ["CUDA_VISIBLE_DEVICES"].split(",") if name.strip()]
    return [str(i) for i in range(len(glob.glob("/dev/nvidia[0-9]*")))]


@cache
def _start_llvm() -> LLVMLibrary:
    """Start Dr.Jit's LLVM, and choose what kernels are compiled for."""
    library, problem, _ = llvm_for_drjit()
    if library is None:
        raise BackendError(problem)
    import drjit.llvm

    try:
        drjit.llvm.Float(0)  # starts the backend
    except Exception as error:  # Dr.Jit raises whatever it was doing at the time
        raise BackendError(
            f"Dr.Jit {metadata.version('drjit')} cannot use the LLVM at {library.path}; "
            f"install another with: {INSTALL_LLVM} (or set DRJIT_LIBLLVM_PATH to one)."
        ) from error
    try:
        choose_target()
    except ValueError as error:
        raise BackendError(str(error)) from error
    return library


def llvm_version() -> str:
    """Of the LLVM that Dr.Jit has loaded, as it says itself."""
    numbers = [ctypes.c_uint() for _ in range(3)]
    ctypes.CDLL(_start_llvm().path).LLVMGetVersion(*(ctypes.byref(n) for n in numbers))
    return ".".join(str(n.value) for n in numbers)


@cache
def _start_cuda() -> None:
    """Start Dr.Jit's CUDA, and see that JAX is on the same GPU."""
    if not _has_nvidia_gpu():
        raise BackendError("The cuda backend needs an NVIDIA GPU, and none was found; use backend='llvm'.")
    import drjit.cuda

    try:
        drjit.cuda.Float(0)
    except Exception as error:
        raise BackendError(
            "There is an NVIDIA GPU, but its driver does not work for Dr.Jit (what does nvidia-smi say?); "
            "use backend='llvm'."
        ) from error
    if all(device.platform != "gpu" for device in jax_devices()):
        raise BackendError(
            "The cuda backend needs JAX on the GPU too: pip install slipstream-rl[cuda], and let JAX_PLATFORMS "
            "not exclude it; or use backend='llvm'."
        )


@cache
def jax_devices() -> list[Any]:
    """The devices of JAX, or a `BackendError` if the user's environment keeps it from starting."""
    try:
        return jax.devices()
    except (RuntimeError, AssertionError) as error:  # the latter where a platform is known, and not there
        why = str(error).partition("\n")[0].partition(" (set JAX_PLATFORMS")[0] or "there is no such device"
        asked = [f"{n}={os.environ[n]}" for n in ("JAX_PLATFORMS", "JAX_PLATFORM_NAME") if os.environ.get(n)]
        way_out = f"unset {' '.join(asked)}, or set JAX_PLATFORMS=cpu" if asked else "set JAX_PLATFORMS=cpu"
        raise BackendError(f"JAX cannot start: {why.rstrip('.')}; {way_out}.") from error


def resolve_backend(name: str = "auto") -> BackendName:
    """The backend to use for a user's choice, or a `BackendError` that says what is missing."""
    if name not in BACKEND_CHOICES:
        raise BackendError(f"Unknown backend {name!r}; choose one of {', '.join(BACKEND_CHOICES)}.")
    if name == "auto":
        name = "cuda" if _cuda_is_usable() else "llvm"
    if name == "llvm":
        _start_llvm()
    if name == "cuda":
        _start_cuda()
    return name  # type: ignore[return-value]


def _cuda_is_usable() -> bool:
    if not _has_nvidia_gpu():
        return False
    try:
        _start_cuda()
    except BackendError as error:
        warnings.warn(f"Worlds run on the CPU. {error}", stacklevel=2)
        return False
    return True


@dataclass(frozen=True)
class ArrayTypes:
    """The array classes of a backend. On `scalar` these are the classes of a quantity of all agents."""

    backend: BackendName
    Float: type
    Int: type
    UInt: type
    UInt64: type
    Bool: type
    module: ModuleType

    @property
    def compiled(self) -> bool:
        return self.backend != "scalar"


@cache
def array_types(backend: str = "auto") -> ArrayTypes:
    """The array classes of a backend, or a `BackendError` if it or JAX cannot be started."""
    backend = resolve_backend(backend)
    jax_devices()
    if backend == "scalar":
        import drjit.scalar as m

        return ArrayTypes("scalar", m.ArrayXf64, m.ArrayXi, m.ArrayXu, m.ArrayXu64, m.ArrayXb, m)
    if backend == "llvm":
        import drjit.llvm as m
    else:
        import drjit.cuda as m
    return ArrayTypes(backend, m.Float, m.Int, m.UInt, m.UInt64, m.Bool, m)  # type: ignore[return-value]


_STASH_REF = "_Z17jit_var_stash_refj"


def shared_zeros(array_type: type, size: int) -> Any:
    """An array of zeros that `dr.scatter` writes in place even when others refer to it too.

    Dr.Jit copies an array before the first scatter when something else holds a reference: a JAX view, or the
    argument list of a frozen function while it is being recorded. A Store is shared on purpose, so we tell Dr.Jit
    the way its own control flow does (`jit_var_stash_ref`): the array counts as having one owner for good.
    """
    functions = core_functions(_STASH_REF)
    if functions is None:
        raise BackendError(
            f"Dr.Jit {metadata.version('drjit')} cannot write shared arrays in place; "
            "install a version that pyproject.toml names."
        )
    (stash,) = functions
    stash.argtypes, stash.restype = [ctypes.c_uint32], ctypes.c_uint64
    array = dr.zeros(array_type, size)
    dr.make_opaque(array)
    stash(array.index)
    return array


_SET_LOG_CALLBACK = "_Z26jit_set_log_level_callback8LogLevelPFvS_PKcE"


@contextmanager
def noting_foreign_arrays(note: Callable[[], None]) -> Iterator[None]:
    """Call `note` whenever Dr.Jit takes over memory of another library (an array of NumPy, say), at that moment.

    Dr.Jit tells of it in its log only, so everything it does within this context takes longer. With a Dr.Jit that
    cannot be listened to, `note` is never called.
    """
    functions = core_functions(_SET_LOG_CALLBACK)
    if functions is None:
        yield
        return
    callback_type = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p)

    last = b""

    def listen(level: int, message: bytes) -> None:
        nonlocal last
        # A new variable with data that is there already, and somebody to be told when it is no longer needed.
        if message.startswith(b"jit_var_set_callback(") and b" = data(" in last:
            note()
        elif level <= dr.LogLevel.Warn.value:
            print(message.decode(), file=sys.stderr)
        last = message

    (set_callback,) = functions
    set_callback.argtypes, set_callback.restype = [ctypes.c_int, callback_type], None
    callback, before = callback_type(listen), dr.log_level()
    # Dr.Jit is in the middle of something when it calls: the collector must not free one of its arrays from there.
    with no_garbage_collection():
        set_callback(dr.LogLevel.Debug.value, callback)
        try:
            yield
        finally:
            dr.set_log_level(before)  # brings Dr.Jit's own listener back


def keep_compiled_programs() -> None:
    """Let JAX keep what it compiles on disk (Dr.Jit does so by itself): a second run starts in a moment."""
    jax_devices()
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "jax"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)


_holding_lock = threading.Lock()
_holding, _collecting = 0, True
"""How many threads hold the garbage collector off, and whether it ran before the first of them did."""


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Hold Python's cyclic garbage collector off while a frozen function may record.

    If it happens to free an array that wraps NumPy's or JAX's memory in the middle of a recording (discarded worlds are
    cyclic garbage), Dr.Jit aborts the process ("enqueue_host_func(): this function cannot be recorded").
    """
    global _holding, _collecting
    with _holding_lock:
        if _holding == 0:
            _collecting = gc.isenabled()
            gc.disable()
        _holding += 1
    try:
        yield
    finally:
        with _holding_lock:
            _holding -= 1
            if _holding == 0 and _collecting:
                gc.enable()


def set_threads(count: int) -> None:
    """Use `count` threads for kernels of the llvm backend (the calling thread included)."""
    if count < 1:
        raise ValueError(f"The number of threads must be at least 1, got {count}.")
    dr.set_thread_count(count)


def to_jax(array: Any, shape: tuple[int, ...] | None = None) -> jax.Array:
    """A JAX view of an evaluated Dr.Jit array: the same memory, no copy.

    The memory stays alive as long as the view does. Dr.Jit must not write to it while a JAX computation
    that was given the view is still running.
    """
    dr.eval(array)
    dr.sync_thread()
    tensor: Any = dr.tensor_t(type(array))
    # JAX itself would copy to reshape.
    return jax.dlpack.from_dlpack(array if shape is None else tensor(array, shape))


def from_jax(array_type: type, array: jax.Array) -> Any:
    """A flat Dr.Jit view of a JAX array: the same memory, no copy. Waits until JAX has computed it."""
    tensor: Any = dr.tensor_t(array_type)
    return tensor(jax.block_until_ready(array)).array


def to_numpy(array: Any) -> np.ndarray:
    """A NumPy copy of a Dr.Jit array."""
    return np.array(array.numpy())


def pointer(array: jax.Array) -> int:
    """The address of a JAX array's memory."""
    return array.unsafe_buffer_pointer()
