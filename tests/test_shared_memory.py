import json
import os
import subprocess
import sys

import numpy as np
import pytest

from slipstream.shared_memory import ALIGNMENT, Block


def test_another_process_sees_what_is_written_and_writes_what_is_seen():
    block = Block({"a": ((3,), np.float32), "b": ((2, 2), np.int64)})
    block["a"][:] = 1.5, 2.5, 3.5
    code = """
import json, sys
from slipstream.shared_memory import Block
block = Block.from_json(json.loads(sys.argv[1]))
block["b"][:] = int(block["a"].sum() * 2)
"""
    subprocess.run([sys.executable, "-c", code, json.dumps(block.to_json())], pass_fds=[block.descriptor], check=True)
    assert block["b"].tolist() == [[15, 15], [15, 15]]


def test_arrays_begin_on_cache_lines_of_their_own():
    block = Block({"a": ((1,), np.uint8), "b": ((5, 3), np.float32), "c": ((0, 4), np.uint8), "d": ((1,), np.int64)})
    assert all(block[name].ctypes.data % ALIGNMENT == 0 for name in "abd")
    block["a"][:], block["b"][:], block["d"][:] = 1, 2, 3
    assert (block["a"][0], block["b"].min(), block["b"].max(), block["d"][0]) == (1, 2, 2, 3)


def test_closing_gives_the_descriptor_back():
    block = Block({"a": ((3,), np.float32)})
    kept, descriptor = block["a"], block.descriptor
    block.close()
    block.close()
    kept[:] = 1.0
    with pytest.raises(OSError):
        os.fstat(descriptor)
