"""The backend choice and the way between Dr.Jit, JAX and NumPy."""

import gc
import threading

import drjit as dr
import jax.numpy as jnp
import numpy as np
import pytest

from slipstream import arrays
from slipstream.arrays import (
    BackendError,
    array_types,
    from_jax,
    no_garbage_collection,
    pointer,
    resolve_backend,
    set_threads,
    shared_zeros,
    to_jax,
    to_numpy,
)


def address(array):
    """Where the memory of a Dr.Jit array is."""
    return np.from_dlpack(array).__array_interface__["data"][0]


def test_jax_sees_dr_jit_memory_without_a_copy():
    array = dr.arange(array_types("llvm").Float, 64) + 1
    view = to_jax(array, (8, 8))
    np.testing.assert_array_equal(view, np.arange(1, 65).reshape(8, 8))
    assert pointer(view) == pointer(to_jax(array)) == address(array)


def test_dr_jit_sees_jax_memory_without_a_copy():
    given = jnp.arange(64, dtype=jnp.float32).reshape(4, 16)
    array = from_jax(array_types("llvm").Float, given)
    assert address(array) == pointer(given)
    np.testing.assert_array_equal(to_numpy(array), np.arange(64))


def test_a_shared_array_is_written_in_place():
    float_type = array_types("llvm").Float
    array = shared_zeros(float_type, 16)
    view = to_jax(array)
    before = address(array)
    dr.scatter(array, float_type(3), dr.arange(dr.uint32_array_t(float_type), 16))
    dr.eval(array)
    dr.sync_thread()
    assert address(array) == before == pointer(view)
    assert np.asarray(view).tolist() == [3.0] * 16


def test_to_numpy_is_a_copy():
    array = dr.zeros(array_types("llvm").Float, 4)
    dr.make_opaque(array)
    copy = to_numpy(array)
    copy += 1
    assert array.numpy().tolist() == [0, 0, 0, 0]


def test_an_unknown_backend_names_the_choices():
    with pytest.raises(BackendError, match=r"'metal'.*auto, llvm, cuda, scalar"):
        resolve_backend("metal")


def test_without_a_gpu_auto_is_llvm_and_cuda_says_what_to_use(monkeypatch):
    monkeypatch.setattr(arrays, "_has_nvidia_gpu", lambda: False)
    assert resolve_backend("auto") == "llvm"
    with pytest.raises(BackendError, match="backend='llvm'"):
        resolve_backend("cuda")


def test_a_missing_llvm_names_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(arrays, "find_llvm", lambda: None)
    monkeypatch.setattr(arrays, "_llvm_candidates", lambda: [arrays.LLVMLibrary("/somewhere/libLLVM-14.so", 14)])
    with pytest.raises(BackendError, match=r"found only LLVM 14.*Install it with: \S+"):
        arrays._start_llvm.__wrapped__()


def test_at_least_one_thread_is_needed():
    with pytest.raises(ValueError, match="at least 1, got 0"):
        set_threads(0)


def test_garbage_is_collected_again_when_the_last_thread_is_through():
    first_in, second_in, first_out = (threading.Event() for _ in range(3))
    during = []

    def first():
        with no_garbage_collection():
            first_in.set()
            second_in.wait(60)
        first_out.set()

    thread = threading.Thread(target=first)
    assert gc.isenabled()
    thread.start()
    first_in.wait(60)
    with no_garbage_collection():
        second_in.set()
        first_out.wait(60)
        during.append(gc.isenabled())
    thread.join()
    assert during == [False] and gc.isenabled()
