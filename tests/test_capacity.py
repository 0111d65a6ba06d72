"""What does not fit into memory is refused before it is tried."""

import subprocess
import sys

import pytest

from slipstream import capacity
from slipstream.capacity import available_memory, require_memory
from slipstream.envs import make

GB = 2**30

LIMITED = """
import resource, sys
from slipstream.capacity import available_memory
from slipstream.envs import make

small = make("cartpole", 1000)  # what LLVM and JAX map for themselves is mapped by now
small.rollout_random(1)
mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + 2**30, resource.RLIM_INFINITY))
assert 0.9 * 2**30 < available_memory() <= 2**30

def attempt(what):
    try:
        what()
    except ValueError as error:
        print(error)
    else:
        print("made")

attempt(lambda: make("cartpole", 10_000_000))
attempt(lambda: make("cartpole", 100_000))
attempt(lambda: make("cartpole", 100_000).new_store(200))
attempt(lambda: make("cartpole", 100_000).new_store(4))
"""


def test_worlds_and_stores_beyond_a_limit_are_refused_and_the_process_goes_on():
    finished = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr[-2000:]
    worlds, fits, store, small = finished.stdout.splitlines()
    assert "10,000,000 worlds of CartPole would take about" in worlds and "take fewer worlds." in worlds
    assert "A store of 200 slots for 100,000 worlds would take about" in store and "shorter rollouts" in store
    assert fits == small == "made"


def test_the_least_of_all_limits_counts(monkeypatch):
    amounts = {"_machine_memory": 7 * GB, "_control_group_memory": 5 * GB, "_memory_within_limits": None}
    for name, amount in amounts.items():
        monkeypatch.setattr(capacity, name, lambda amount=amount: amount)
    assert available_memory() == 5 * GB
    require_memory([2 * GB, 2 * GB], "This", "do that")
    with pytest.raises(ValueError, match=r"This would take about 6\.0 GB of memory, and 5\.0 GB are free: do that\."):
        require_memory([2 * GB, 4 * GB], "This", "do that")


def test_address_space_is_asked_for_in_powers_of_two(monkeypatch):
    monkeypatch.setattr(capacity, "_memory_within_limits", lambda: 3 * GB)
    monkeypatch.setattr(capacity, "_machine_memory", lambda: 100 * GB)
    monkeypatch.setattr(capacity, "_control_group_memory", lambda: None)
    require_memory([2 * GB], "This", "do that")
    with pytest.raises(ValueError, match=r"about 4\.0 GB of memory, and 3\.0 GB"):
        require_memory([2 * GB + 1], "This", "do that")


def test_limits_of_control_groups_around_ours_count(tmp_path):
    for group, (limit, used) in {"a": (6 * GB, GB), "a/b": ("max", GB)}.items():
        (tmp_path / group).mkdir()
        (tmp_path / group / "memory.max").write_text(f"{limit}\n")
        (tmp_path / group / "memory.current").write_text(f"{used}\n")
        (tmp_path / group / "memory.stat").write_text("anon 5\ninactive_file 1073741824\nfile 9\n")
    names = ("memory.max", "memory.current", "inactive_file")
    assert capacity._left_in(tmp_path / "a", *names) == [6 * GB]
    assert capacity._left_in(tmp_path / "a/b", *names) == []
    assert capacity._left_in(tmp_path / "nowhere", *names) == []


def test_a_store_knows_what_it_takes():
    worlds = make("tag-continuous", 3, num_runners=4)
    store = worlds.new_store(5)
    assert worlds.store_bytes(5) == sum(buffer.view.nbytes for buffer in store.named_buffers().values())


def test_more_numbers_than_can_be_counted_are_refused():
    with pytest.raises(ValueError, match=r"more than 2\^32 numbers: take fewer worlds or shorter rollouts"):
        make("cartpole", 1024).new_store(2**20)


def test_a_limit_on_the_process_gives_one_line_and_no_crash():
    """10 million cartpoles and their rollout under 12 GB of address space."""
    limited = ["sh", "-c", 'ulimit -v 12000000; exec "$@"', "sh"]
    command = [sys.executable, "-m", "slipstream.cli.main", "train", "cartpole", "--worlds", "10000000"]
    done = subprocess.run([*limited, *command], capture_output=True, text=True)
    assert done.returncode == 2
    assert "would take about" in done.stderr.splitlines()[-1] and "take fewer worlds" in done.stderr.splitlines()[-1]
