"""Which LLVM is used, and what is said of those that cannot be."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from slipstream.arrays import array_types
from slipstream.llvm import find_llvm, llvm_for_drjit

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only ELF files are looked into")


@pytest.fixture(scope="module")
def good() -> Path:
    found = llvm_for_drjit().library
    assert found is not None
    return Path(found.path).resolve()


@pytest.fixture
def places(tmp_path, good):
    """`places(name=kind, ...)`: patterns that find files of these names; `kind` is one of the ways to be broken."""

    def make(**files: str) -> list[str]:
        for name, kind in files.items():
            file = tmp_path / f"libLLVM-{name.strip('v')}.so"
            if kind == "good":
                file.symlink_to(good)
            else:
                broken(file, kind, good)
        return [str(tmp_path / "libLLVM*.so")]

    return make


def broken(file: Path, kind: str, good: Path) -> Path:
    if kind == "text":
        file.write_text("no library at all, though it is longer than the header of one would have to be\n")
    elif kind == "empty":
        file.touch()
    elif kind == "cut short":
        with good.open("rb") as whole:
            file.write_bytes(whole.read(100_000))
    elif kind == "folder":
        file.mkdir()
    elif kind == "not LLVM":
        shutil.copy(libm(), file)
    return file


def libm() -> Path:
    """Some library that is not LLVM."""
    with open("/proc/self/maps") as maps:
        return next(Path(line.split()[-1]) for line in maps if "/libm.so" in line or "/libc.so" in line)


def test_the_newest_usable_llvm_is_taken(places):
    found = find_llvm(None, places(v15="text", v17="good", v20="text"))
    assert found.library is not None and found.library.major == 17


@linux_only
@pytest.mark.parametrize(
    ("kind", "reason"), [("text", "is no shared library"), ("empty", "is no shared library"), ("cut short", "is cut")]
)
def test_a_broken_llvm_in_the_usual_places_is_passed_over_and_named(places, tmp_path, kind, reason):
    found = find_llvm(None, places(v19="good", v21=kind))
    assert found.library is not None and found.library.path == str(tmp_path / "libLLVM-19.so")
    assert len(found.passed_over) == 1 and f"libLLVM-21.so {reason}" in found.passed_over[0]


def test_without_a_usable_llvm_the_problem_names_what_was_found_and_the_command_that_installs_one(places):
    found = find_llvm(None, places(v14="good"))
    assert found.library is None
    assert "libLLVM-14.so is LLVM 14" in found.problem and "Install it with: " in found.problem


@linux_only
@pytest.mark.parametrize(
    ("kind", "reason", "drjit_first"),
    [
        ("text", "is no shared library", False),
        ("cut short", "is cut short", False),
        ("not LLVM", "is not LLVM", False),
        ("not LLVM", "is not LLVM", True),
        ("folder", "is no file", False),
        ("missing", "does not exist", False),
    ],
)
def test_a_chosen_file_that_is_no_llvm_is_named_in_one_line(tmp_path, good, kind, reason, drjit_first):
    chosen = broken(tmp_path / "libLLVM-19.so", kind, good)
    code = "from slipstream.cli.main import main; sys.exit(main(['bench', 'cartpole']))"
    command = [sys.executable, "-c", f"import sys{', drjit' if drjit_first else ''}; {code}"]
    done = subprocess.run(
        command, env={**os.environ, "DRJIT_LIBLLVM_PATH": str(chosen)}, capture_output=True, text=True
    )
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert len(lines) == 1 or drjit_first  # in which case Dr.Jit has had its say before
    assert lines[-1].startswith(f"slipstream bench: DRJIT_LIBLLVM_PATH is {chosen}, which {reason}; unset it")


def test_a_chosen_llvm_is_used(good, tmp_path):
    link = tmp_path / "my-llvm.so"
    link.symlink_to(good)
    code = "from slipstream.arrays import *; print(array_types('llvm').Float(1) + 1, llvm_for_drjit().library.path)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "DRJIT_LIBLLVM_PATH": str(link)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["[2]", str(link)] and done.stderr == ""


def test_without_llvm_worlds_still_run_in_plain_python(tmp_path):
    code = (
        "from slipstream import make; w = make('cartpole', 2, backend='scalar'); w.reset(); w.step(w.sample_actions())"
    )
    environment = {**os.environ, "DRJIT_LIBLLVM_PATH": str(tmp_path / "nothing.so")}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_dr_jit_has_loaded_the_llvm_that_was_found(good):
    array_types("llvm")
    with open("/proc/self/maps") as maps:
        assert any(str(good) in line for line in maps)
