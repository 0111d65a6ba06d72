"""Processes that write to shared memory, for tests: `python writers.py NAME JSON`, with the memory inherited."""

import json
import subprocess
import sys

import numpy as np

from slipstream.shared_memory import Block
from slipstream.training.pipeline.ring import Region
from slipstream.training.pipeline.weights import Weights


def start(name, data, descriptor):
    return subprocess.Popen([sys.executable, __file__, name, json.dumps(data)], pass_fds=[descriptor])


def publish_for_ever(data):
    weights = Weights.from_json(data)
    arrays = weights.empty()
    version = weights.version
    while True:
        version += 1
        for array in arrays.values():
            array[:] = version
        weights.publish(arrays, version)


def write_rows_for_ever(data):
    """Rows of equal numbers, each one more than the row before it."""
    block = Block.from_json(data["block"])
    region = Region(block, data["region"])
    width, pixels = block["numbers"].shape[-1], block["pixels"].shape[-1]
    count = 0
    while True:
        rows = np.arange(count, count + data["count"]) % 10_000
        count += data["count"]
        numbers = np.repeat(rows[:, None], width, axis=1).astype(np.float32)
        region.write(numbers, np.repeat(rows[:, None] % 251, pixels, axis=1).astype(np.uint8))


if __name__ == "__main__":
    {f.__name__: f for f in (publish_for_ever, write_rows_for_ever)}[sys.argv[1]](json.loads(sys.argv[2]))
