"""What does not fit into memory is refused before it is allocated."""

import subprocess
import sys

import pytest

from slipstream import capacity
from slipstream.capacity import TooLarge, available_bytes, require_bytes
from slipstream.envs import make


def test_there_is_some_memory_and_not_more_than_the_process_may_have():
    free = available_bytes()
    assert free is None or free > 0


def test_the_tightest_limit_counts(monkeypatch):
    monkeypatch.setattr(capacity, "_free_in_machine", lambda: 300)
    monkeypatch.setattr(capacity, "_free_in_group", lambda: None)
    monkeypatch.setattr(capacity, "_free_in_process", lambda: 200)
    assert available_bytes() == 200
    require_bytes(200, "It", "take less")
    with pytest.raises(TooLarge, match=r"It would take about 0.0 GB of memory, and 0.0 GB are free: take less"):
        require_bytes(201, "It", "take less")


@pytest.mark.parametrize(("worlds", "slots", "message"), [(10**9, 1, "worlds would take"), (1000, 10**7, "A store of")])
def test_worlds_and_stores_that_do_not_fit_are_refused(worlds, slots, message):
    with pytest.raises(TooLarge, match=message):
        make("cartpole", worlds).new_store(slots)


def test_a_limit_on_the_process_gives_one_line_and_no_crash():
    """10 million cartpoles and their rollout under 12 GB of address space."""
    limited = ["sh", "-c", 'ulimit -v 12000000; exec "$@"', "sh"]
    command = [sys.executable, "-m", "slipstream.cli.main", "train", "cartpole", "--worlds", "10000000"]
    done = subprocess.run([*limited, *command], capture_output=True, text=True)
    assert done.returncode == 2
    assert "A store of 33 steps of 10,000,000 worlds would take about" in done.stderr.splitlines()[-1]
