"""Named arrays in a safetensors file, written piece by piece and read array by array.

We write the format ourselves (a header of JSON, then raw bytes; https://github.com/huggingface/safetensors) because its
library wants all arrays in memory at once, which a replay buffer cannot afford.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "C64": "<c8", "BOOL": "|b1",
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1",
}  # fmt: skip
"""What safetensors calls NumPy's types."""

CODES = {np.dtype(text): code for code, text in TYPES.items()}

PIECE = 1 << 24
"""Bytes of an array that are copied at once where copying cannot be avoided."""


@dataclass(frozen=True)
class Streamed:
    """An array that is too large to be copied: it comes in chunks, when it is written."""

    shape: tuple[int, ...]
    dtype: np.typing.DTypeLike
    chunks: Callable[[], Iterable[np.ndarray]]
    """Arrays of that type which, laid end to end in C order, are the whole."""


@dataclass(frozen=True)
class Seen:
    """What a file must be to be the one that was written."""

    size: int
    sha256: str


def write_arrays(path: Path, arrays: Mapping[str, ArrayLike | Streamed]) -> Seen:
    """Write a safetensors file that has reached the disk when this returns; at most one chunk is copied at a time."""
    sources = {name: a if isinstance(a, Streamed) else np.asarray(a) for name, a in arrays.items()}
    types = {name: _stored_type(path.name, name, source.dtype) for name, source in sources.items()}
    # The widest first, so that every array lies on a multiple of its width and can be used where it is.
    order = sorted(sources, key=lambda name: (-types[name].itemsize, name))
    header, end = {}, 0
    for name in order:
        shape, begin = list(sources[name].shape), end
        end += math.prod(shape) * types[name].itemsize
        header[name] = {"dtype": CODES[types[name]], "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    checksum = hashlib.sha256()
    with path.open("wb") as file:

        def put(data: Any) -> None:
            checksum.update(data)
            file.write(data)

        put(len(text).to_bytes(8, "little") + text)
        for name in order:
            for piece in _pieces(name, sources[name], types[name]):
                put(piece)
        file.flush()
        os.fsync(file.fileno())
        return Seen(file.tell(), checksum.hexdigest())


def _stored_type(file: str, name: str, dtype: np.typing.DTypeLike) -> np.dtype:
    stored = np.dtype(dtype).newbyteorder("<")
    if stored not in CODES:
        raise ValueError(f"Array {name!r} for {file} is of type {np.dtype(dtype)}, which safetensors cannot hold.")
    return stored


def _pieces(name: str, source: np.ndarray | Streamed, dtype: np.dtype) -> Iterator[memoryview]:
    """The bytes of an array, in C order."""
    if isinstance(source, np.ndarray):
        yield from (_bytes(block) for block in _blocks(source, dtype))
        return
    expected, given = math.prod(source.shape) * dtype.itemsize, 0
    for chunk in source.chunks():
        if np.dtype(source.dtype) != chunk.dtype:
            raise ValueError(f"A chunk of array {name!r} is {chunk.dtype}, expected {np.dtype(source.dtype)}.")
        given += chunk.nbytes
        if given > expected:
            break
        yield from (_bytes(block) for block in _blocks(np.asarray(chunk), dtype))
    if given != expected:
        more = "at least " if given > expected else ""
        raise ValueError(f"The chunks of array {name!r} have {more}{given} bytes, expected {expected}.")


def _blocks(array: np.ndarray, dtype: np.dtype) -> Iterator[np.ndarray]:
    """An array in contiguous blocks of the stored type: itself, if it is so already."""
    if array.flags.c_contiguous and array.dtype == dtype:
        yield array
    elif array.ndim == 0 or array.nbytes <= PIECE:
        yield np.asarray(array, dtype, order="C")
    else:
        rows = max(1, PIECE * len(array) // array.nbytes)
        for begin in range(0, len(array), rows):
            yield np.asarray(array[begin : begin + rows], dtype, order="C")


def _bytes(array: np.ndarray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def check_file(file: BufferedReader, expected: Seen) -> None:
    """Raise a ValueError unless an open file is the one that was written."""
    size = os.fstat(file.fileno()).st_size
    if size != expected.size:
        raise ValueError(f"it has {size} bytes, expected {expected.size}")
    if hashlib.file_digest(file, "sha256").hexdigest() != expected.sha256:
        raise ValueError("its checksum does not match")


def read_arrays(file: BufferedReader) -> dict[str, np.ndarray]:
    """All arrays of an open safetensors file, in memory of their own."""
    arrays = {}
    for name, (dtype, shape, offset) in _layout(file).items():
        arrays[name] = np.empty(shape, dtype)
        file.seek(offset)
        if file.readinto(_bytes(arrays[name])) != arrays[name].nbytes:
            raise ValueError(f"array {name!r} is cut off")
    return arrays


def map_arrays(file: BufferedReader) -> dict[str, np.ndarray]:
    """All arrays of an open safetensors file, read-only, where they lie on disk: memory is taken as they are read."""
    layout = _layout(file)
    data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return {name: np.ndarray(shape, dtype, data, offset) for name, (dtype, shape, offset) in layout.items()}


def _layout(file: BufferedReader) -> dict[str, tuple[np.dtype, tuple[int, ...], int]]:
    """Type, shape and place in the file of every array."""
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    if length > size:
        raise ValueError("it is no safetensors file")
    header = json.loads(file.read(length))
    layout = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        dtype, shape = np.dtype(TYPES[entry["dtype"]]), tuple(entry["shape"])
        if not (end - begin == math.prod(shape) * dtype.itemsize and begin >= 0 and 8 + length + end <= size):
            raise ValueError(f"array {name!r} does not lie within it")
        layout[name] = (dtype, shape, 8 + length + begin)
    return layout
