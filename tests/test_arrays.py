"""The backend choice and the way between Dr.Jit, JAX and NumPy."""

import gc
import json
import os
import subprocess
import sys
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
from slipstream.llvm import LLVMLibrary, Search


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
    monkeypatch.setattr(arrays, "llvm_for_drjit", lambda: Search(None, "Install it with: this"))
    with pytest.raises(BackendError, match="Install it with: this"):
        arrays._start_llvm.__wrapped__()


def test_an_llvm_that_dr_jit_refuses_is_named(monkeypatch):
    import drjit.llvm

    def refuse(value):
        raise TypeError("the LLVM backend is inactive")

    monkeypatch.setattr(arrays, "llvm_for_drjit", lambda: Search(LLVMLibrary("/somewhere/libLLVM-99.so", 99)))
    monkeypatch.setattr(drjit.llvm, "Float", refuse)
    with pytest.raises(BackendError, match=r"cannot use the LLVM at /somewhere/libLLVM-99.so.*install another with"):
        arrays._start_llvm.__wrapped__()


@pytest.mark.skipif(arrays._has_nvidia_gpu(), reason="there is a GPU here")
def test_a_gpu_whose_driver_does_not_work_is_named_and_auto_is_llvm(monkeypatch):
    monkeypatch.setattr(arrays, "_has_nvidia_gpu", lambda: True)
    with pytest.raises(BackendError, match=r"driver does not work.*use backend='llvm'"):
        resolve_backend("cuda")
    with pytest.warns(UserWarning, match=r"Worlds run on the CPU.*driver does not work"):
        assert resolve_backend("auto") == "llvm"


@pytest.mark.skipif(arrays._has_nvidia_gpu(), reason="there is a GPU here")
def test_jax_without_a_gpu_is_named_when_cuda_is_asked_for(monkeypatch):
    import drjit.cuda

    monkeypatch.setattr(arrays, "_has_nvidia_gpu", lambda: True)
    monkeypatch.setattr(drjit.cuda, "Float", float)  # a driver that works
    with pytest.raises(BackendError, match=r"needs JAX on the GPU too: pip install slipstream-rl\[cuda\]"):
        resolve_backend("cuda")


@pytest.mark.parametrize(
    ("command", "platforms", "why"),
    [
        ("bench cartpole", "nonsense", "'nonsense' is not in the list"),
        ("train cartpole --steps 1", "cuda", "there is no such device"),
    ],
)
def test_a_platform_that_jax_cannot_start_is_named_in_one_line(tmp_path, command, platforms, why):
    done = run_command(tmp_path, command, JAX_PLATFORMS=platforms)
    assert done.returncode == 2 and why in done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"slipstream {command.split()[0]}: JAX cannot start: ")
    assert f"unset JAX_PLATFORMS={platforms}, or set JAX_PLATFORMS=cpu." in done.stderr
    assert len(done.stderr.splitlines()) == 1 and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "variable", "value", "finding"),
    [
        ("doctor", "DRJIT_LIBLLVM_PATH", "/nowhere/libLLVM.so", "which does not exist"),
        ("doctor --json", "JAX_PLATFORMS", "nonsense", "unset JAX_PLATFORMS=nonsense"),
        ("doctor", "JAX_PLATFORMS", "cuda", "unset JAX_PLATFORMS=cuda"),
    ],
)
def test_doctor_reports_what_is_broken(tmp_path, command, variable, value, finding):
    done = run_command(tmp_path, command, **{variable: value})
    assert done.returncode == 1 and done.stderr == ""
    assert finding in " ".join(done.stdout.split())
    if "--json" in command:
        found = json.loads(done.stdout)
        assert found["ready"] is False and found["backends"]["llvm"] == "ok" and found["jax_devices"] == []


def run_command(folder, command: str, **variables: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "slipstream.cli.main", *command.split()],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )


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
