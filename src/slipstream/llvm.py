"""Which libLLVM Dr.Jit is given, decided before Dr.Jit is imported.

Dr.Jit loads LLVM while it is imported, from where DRJIT_LIBLLVM_PATH says or else from wherever it finds one. A library
that is too old aborts the process later, and one that is cut short ends it at once, so files are looked at here first,
without loading them.
"""

from __future__ import annotations

import glob
import importlib
import os
import re
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import NamedTuple

VARIABLE = "DRJIT_LIBLLVM_PATH"

USABLE_LLVM = 16
"""Dr.Jit refuses LLVM 14, and with 15 `dr.minimum` aborts the process. 19 compiles four times faster than 15."""

INSTALL_LLVM = "apt-get install libllvm19" if sys.platform == "linux" else "brew install llvm"

USUAL_PLACES = (
    "/usr/lib/*-linux-gnu/libLLVM*.so*",
    "/usr/lib/llvm-*/lib/libLLVM*.so*",
    "/usr/lib64/libLLVM*.so*",
    "/usr/local/lib/libLLVM*.so*",
    "/opt/homebrew/opt/llvm*/lib/libLLVM*.dylib",
    "/usr/local/opt/llvm*/lib/libLLVM*.dylib",
    os.path.join(sys.prefix, "lib", "libLLVM*"),
)


class LLVMLibrary(NamedTuple):
    path: str
    major: int
    """As its file name says; 0 if it does not."""


class Search(NamedTuple):
    """What a search for LLVM came to."""

    library: LLVMLibrary | None
    problem: str = ""
    """Why there is none, and the way out, in one line."""
    passed_over: tuple[str, ...] = ()
    """Files that look like LLVM by their name and are none that can be used, each with the reason."""


@cache
def llvm_for_drjit() -> Search:
    """Find a usable LLVM and point Dr.Jit at it, unless Dr.Jit has already looked for one itself."""
    found = find_llvm(os.environ.get(VARIABLE))
    if "drjit" not in sys.modules:
        if found.library:
            os.environ[VARIABLE] = found.library.path
        else:
            _import_drjit_without_llvm()
    return found


def _import_drjit_without_llvm() -> None:
    """Keep Dr.Jit from searching itself, and loading what was refused here, and complaining to the terminal."""
    chosen, terminal = os.environ.get(VARIABLE), os.dup(2)
    os.environ[VARIABLE] = os.devnull
    try:
        with open(os.devnull, "w") as nowhere, suppress(ImportError):
            os.dup2(nowhere.fileno(), 2)
            importlib.import_module("drjit")
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
        os.environ.pop(VARIABLE)
        if chosen is not None:
            os.environ[VARIABLE] = chosen


def find_llvm(chosen: str | None, places: Sequence[str] = USUAL_PLACES) -> Search:
    """The user's choice, else the newest usable LLVM in the usual places.

    Args:
        chosen: what the user has set DRJIT_LIBLLVM_PATH to.
        places: patterns of file names.
    """
    if chosen:
        fault = _fault(chosen)
        if fault is None:
            return Search(LLVMLibrary(chosen, _major(os.path.basename(chosen)) or _major(chosen)))
        way_out = f"unset it, or let it name libLLVM {USABLE_LLVM} or newer"
        return Search(None, f"{VARIABLE} is {chosen}, which {fault}; {way_out}.")
    passed_over: list[str] = []
    for library in _candidates(places):
        # Names are trusted here: looking for symbols takes longer than everything else in `import slipstream`.
        fault = f"is LLVM {library.major}" if library.major < USABLE_LLVM else _library_fault(library.path)
        if fault is None:
            return Search(library, passed_over=tuple(passed_over))
        passed_over.append(f"{library.path} {fault}")
    seen = f" ({passed_over[0]})" if passed_over else ""
    problem = f"The llvm backend needs libLLVM {USABLE_LLVM} or newer, and none was found{seen}."
    way_out = f"Install it with: {INSTALL_LLVM} (or set {VARIABLE} to your libLLVM)."
    return Search(None, f"{problem} {way_out}", tuple(passed_over))


def _candidates(places: Sequence[str]) -> list[LLVMLibrary]:
    """All files that look like LLVM by their names, newest first."""
    found: dict[str, LLVMLibrary] = {}
    for path in sorted(p for place in places for p in glob.glob(place)):
        major, real = _major(path), os.path.realpath(path)
        if major and os.path.exists(real):
            found.setdefault(real, LLVMLibrary(path, major))
    return sorted(found.values(), key=lambda library: -library.major)


def _major(path: str) -> int:
    version = re.search(r"libLLVM(?:-|\.so\.)(\d+)", path) or re.search(r"llvm@?-?(\d+)", path)
    return int(version.group(1)) if version else 0


def _fault(path: str) -> str | None:
    """What keeps a file from being an LLVM that Dr.Jit can use, as the end of a sentence; None if nothing does."""
    fault = _library_fault(path)
    if fault or sys.platform != "linux" or _contains(path, b"LLVMGetVersion\0"):  # which LLVM has since 16
        return fault
    return f"is LLVM older than {USABLE_LLVM}" if _contains(path, b"LLVMContextCreate\0") else "is not LLVM"


def _library_fault(path: str) -> str | None:
    """What keeps a file from being a shared library for this Python."""
    if not os.path.isfile(path):
        return "is no file" if os.path.exists(path) else "does not exist"
    if sys.platform != "linux":
        return None
    header = struct.Struct("<16sHHIQQQIHHHHHH")  # of a 64-bit ELF file
    try:
        found, own = (_read(file, header.size) for file in (path, "/proc/self/exe"))
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if len(found) < header.size or found[:4] != b"\x7fELF":
        return "is no shared library"
    if (found[4:6], found[18:20]) != (own[4:6], own[18:20]):  # word size and byte order; instruction set
        return "is a library for another processor"
    *_, sections, _, _, _, _, entry_size, entries, _ = header.unpack(found)
    # Linkers put this table last. Loading a file that lacks its end is a bus error.
    return "is cut short" if os.path.getsize(path) < sections + entry_size * entries else None


def _read(path: str, size: int) -> bytes:
    with open(path, "rb") as file:
        return file.read(size)


def _contains(path: str, word: bytes) -> bool:
    """Whether a file has these bytes somewhere."""
    kept = b""
    with open(path, "rb") as f:
        while block := f.read(1 << 22):
            if word in kept + block:
                return True
            kept = block[-len(word) :]
    return False
