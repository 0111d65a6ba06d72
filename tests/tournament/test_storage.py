"""Agents are stored whole, and what was damaged is noticed."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from slipstream.runs.checkpoint import load_checkpoint
from slipstream.runs.directory import RunDirectory, RunError
from slipstream.tournament.storage import Storage, StorageError

PARTS = {"actor": {"a/weight": np.arange(4.0)}, "learner": {"a/rate": np.ones(2)}, "worlds": {"x": np.zeros(9)}}


@pytest.fixture(params=["local", "memory"])
def storage(request, tmp_path):
    return Storage(f"{tmp_path}/agents" if request.param == "local" else f"memory://{tmp_path.name}/agents")


def test_an_agent_is_a_run_that_can_be_read(storage):
    stored = storage.put("000001", {"env": "cartpole"}, 320, PARTS, {"seconds": 1.5})
    with storage.fetched(stored.path, stored.checksum) as folder:
        run = RunDirectory.open(folder)
        checkpoint = load_checkpoint(run)
        assert run.config()["env"] == "cartpole" and checkpoint.step == 320 and checkpoint.facts == {"seconds": 1.5}
        assert np.array_equal(checkpoint.part("actor")["a/weight"], np.arange(4.0))
        assert set(checkpoint.parts) == {"actor", "learner"}  # worlds are not for others
    storage.verify(stored.path, stored.checksum)


def test_what_was_removed_is_gone_and_nothing_else(storage):
    one, two = (storage.put(name, {}, 1, PARTS, {}) for name in ("000001", "000002"))
    storage.remove(one.path)
    storage.remove(one.path)
    storage.verify(two.path, two.checksum)
    with pytest.raises(RunError), storage.fetched(one.path, one.checksum):
        pass
    three = storage.put("000003", {}, 1, PARTS, {})
    assert storage.sweep([two.path]) == 1
    storage.verify(two.path, two.checksum)
    with pytest.raises(RunError):
        storage.verify(three.path, three.checksum)


@pytest.mark.parametrize("file", ["config.json", "manifest.json", "actor.safetensors", "learner.safetensors"])
def test_every_flipped_bit_is_noticed(tmp_path, file):
    storage = Storage(str(tmp_path))
    stored = storage.put("000001", {"seed": 1}, 1, PARTS, {})
    (damaged,) = tmp_path.rglob(file)
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    with pytest.raises(RunError, match="damaged"):
        storage.verify(stored.path, stored.checksum)


def test_a_path_that_nobody_understands_is_a_clear_error(tmp_path):
    with pytest.raises(StorageError, match="There is no way to store weights at nosuch://x"):
        Storage("nosuch://x")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="Could not use"):
        Storage(str(tmp_path / "file"))


STORE_FOREVER = """
import sys
import numpy as np
from slipstream.tournament.storage import Storage
storage, number = Storage(sys.argv[1]), 0
while True:
    number += 1
    parts = {part: {"x": np.arange(1000.0) + number} for part in ("actor", "learner")}
    stored = storage.put(f"{number:06d}", {}, number, parts, {})
    print(stored.path, stored.checksum, flush=True)
"""


def test_what_was_stored_survives_sigkill(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", STORE_FOREVER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    stored = [process.stdout.readline().split() for _ in range(15)]
    os.kill(process.pid, signal.SIGKILL)
    stored += [line.split() for line in process.communicate()[0].splitlines() if len(line.split()) == 2]
    storage = Storage(str(tmp_path))
    for path, checksum in stored:
        storage.verify(path, checksum)
    storage.sweep([path for path, _ in stored])
    assert {p.name for p in tmp_path.iterdir()} == {path.rpartition("/")[2] for path, _ in stored}
