"""Safetensors files of our own: what the library reads, streamed, and no larger in memory than one chunk."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from slipstream.runs.array_file import TYPES, Streamed, check_file, map_arrays, read_arrays, write_arrays

VALUES = {
    **{code: np.arange(6).reshape(2, 3).astype(text) for code, text in TYPES.items()},
    "scalar": np.array(7, np.int16),
    "empty": np.zeros((3, 0), np.float32),
    "transposed": np.arange(6, dtype=np.float64).reshape(2, 3).T,
    "every second": np.arange(10, dtype=np.uint8)[::2],
    'odd "name"\n/\u00e4': np.ones(1, bool),
}


def assert_same(found, expected):
    assert set(found) == set(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)
        assert found[name].dtype == value.dtype and found[name].shape == value.shape


def read(path, how=read_arrays):
    with path.open("rb") as file:
        return how(file)


def in_chunks(array, rows):
    return Streamed(array.shape, array.dtype, lambda: (array[i : i + rows].copy() for i in range(0, len(array), rows)))


def test_the_library_reads_what_we_write(tmp_path):
    write_arrays(tmp_path / "a", VALUES)
    assert_same(load_file(tmp_path / "a"), VALUES)


def test_we_read_what_the_library_writes(tmp_path):
    save_file({n: np.asarray(a, order="C") for n, a in VALUES.items()}, tmp_path / "a")
    assert_same(read(tmp_path / "a"), VALUES)
    assert_same(read(tmp_path / "a", map_arrays), VALUES)


@pytest.mark.parametrize("how", [read_arrays, map_arrays])
def test_we_read_what_we_write(tmp_path, how):
    write_arrays(tmp_path / "a", VALUES)
    found = read(tmp_path / "a", how)
    assert_same(found, VALUES)
    assert all(array.flags.aligned for array in found.values())
    assert all(array.flags.writeable == (how is read_arrays) for array in found.values())


def test_a_file_without_arrays_is_one_too(tmp_path):
    write_arrays(tmp_path / "a", {})
    assert load_file(tmp_path / "a") == read(tmp_path / "a") == read(tmp_path / "a", map_arrays) == {}


def test_numbers_of_the_other_byte_order_are_stored_as_numbers(tmp_path):
    write_arrays(tmp_path / "a", {"x": np.array([1.5, -2.0], ">f4")})
    np.testing.assert_array_equal(read(tmp_path / "a")["x"], [1.5, -2.0])


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_a_streamed_array_is_stored_like_a_whole_one(tmp_path, rows):
    whole = np.random.default_rng(0).normal(size=(10, 4)).astype(np.float32)
    streamed = write_arrays(tmp_path / "a", {"n": np.arange(3), "x": in_chunks(whole, rows)})
    assert streamed == write_arrays(tmp_path / "b", {"x": whole, "n": np.arange(3)})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_what_was_written_is_recognised(tmp_path):
    seen = write_arrays(tmp_path / "a", VALUES)
    with (tmp_path / "a").open("rb") as file:
        check_file(file, seen)
    other = write_arrays(tmp_path / "b", {**VALUES, "scalar": np.array(8, np.int16)})
    with (tmp_path / "b").open("rb") as file, pytest.raises(ValueError, match="checksum does not match"):
        check_file(file, seen)
    assert other.size == seen.size
    with (tmp_path / "a").open("ab") as file:
        file.write(b"\0")
    with (tmp_path / "a").open("rb") as file, pytest.raises(ValueError, match=r"it has \d+ bytes, expected \d+"):
        check_file(file, seen)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array(["text"]), r"Array 'x' for a is of type <U4, which safetensors cannot hold"),
        (np.array([{}], object), "is of type object"),
        (Streamed((4,), "<f4", lambda: [np.zeros(3, np.float32)]), "have 12 bytes, expected 16"),
        (Streamed((4,), "<f4", lambda: [np.zeros(3, np.float32)] * 2), "have at least 24 bytes, expected 16"),
        (Streamed((4,), "<f4", lambda: [np.zeros(4, np.int32)]), "is int32, expected float32"),
    ],
)
def test_what_cannot_be_stored_is_named(tmp_path, array, message):
    with pytest.raises(ValueError, match=message):
        write_arrays(tmp_path / "a", {"x": array})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80\x04\x95 not safetensors",
        b"\2\0\0\0\0\0\0\0[]",
        b'\x3f\0\0\0\0\0\0\0{"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}\0\0',
        b'\x3f\0\0\0\0\0\0\0{"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 99]}}\0\0',
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path, data):
    (tmp_path / "a").write_bytes(data)
    for how in (read_arrays, map_arrays):
        with pytest.raises((ValueError, AttributeError)):
            read(tmp_path / "a", how)


MEGABYTE = 1 << 20


def test_nothing_large_is_copied_to_be_written(tmp_path):
    large = np.zeros((64, MEGABYTE // 4), np.float32)
    stream = in_chunks(large, 1)
    tracemalloc.start()
    try:
        write_arrays(tmp_path / "a", {"large": large, "stream": stream, "transposed": large.T})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (tmp_path / "a").stat().st_size > 192 * MEGABYTE
    assert peak < 40 * MEGABYTE


LOOK = """
import resource, sys
from pathlib import Path
from slipstream.runs.array_file import map_arrays
with Path(sys.argv[1]).open("rb") as file:
    array = map_arrays(file)["x"]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
value = float(array[100, 7])
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(value, after - before)
"""


def test_an_array_left_on_disk_takes_memory_only_where_it_is_looked_at(tmp_path):
    chunk = np.zeros((1, MEGABYTE // 4), np.float32)

    def rows():
        for i in range(128):
            chunk[0, 7] = i
            yield chunk

    write_arrays(tmp_path / "a", {"x": Streamed((128, MEGABYTE // 4), np.float32, rows)})
    out = subprocess.run([sys.executable, "-c", LOOK, str(tmp_path / "a")], capture_output=True, text=True, check=True)
    value, kilobytes = out.stdout.split()
    assert float(value) == 100.0 and int(kilobytes) < 32 * 1024
