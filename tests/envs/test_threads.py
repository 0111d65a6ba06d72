"""Several worlds, each in a thread of its own."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from small_worlds import Leaving, Swarm

from slipstream.arrays import array_types
from slipstream.envs import Worlds, make
from slipstream.envs.env import Group, once, remembering
from slipstream.envs.nearest import _only, searching_only
from slipstream.spaces import Box, Discrete


def play(env, backend, meet=lambda: None):
    """All that can be seen of some worlds; `meet` is called when they are about to be recorded."""
    worlds = make(env, 5, 3, backend) if isinstance(env, str) else Worlds(env(), 5, 3, backend)
    seen = []
    for i in range(6):
        actions = worlds.sample_actions()
        if i == 0:
            meet()
        step = worlds.step(actions)
        seen += [np.array(a) for part in step for a in (part.values() if isinstance(part, dict) else [part])]
    return seen


@pytest.mark.parametrize("backend", ["llvm", "scalar"])
def test_worlds_recorded_and_stepped_at_the_same_time_do_what_they_do_alone(backend):
    envs = ["tag-continuous", "tag-gridworld", Swarm, Leaving, "tag-gridworld"]
    alone = [play(env, backend) for env in envs]
    for _ in range(3 if backend == "llvm" else 1):
        barrier = threading.Barrier(len(envs), timeout=60)
        with ThreadPoolExecutor(len(envs)) as pool:
            together = list(pool.map(lambda env, b=barrier: play(env, backend, b.wait), envs))
        for expected, got in zip(alone, together):
            assert all(np.array_equal(a, b) for a, b in zip(expected, got, strict=True))


def test_what_one_thread_remembers_and_looks_for_is_not_another_ones():
    types = array_types("llvm")
    pack = Group("pack", Box(1), Discrete(2), 3)
    array = types.Float([1.0, 2.0, 3.0])
    inside, outside = threading.Event(), threading.Event()
    found = []

    def other():
        inside.wait(60)
        found.append((once("answer", [array], lambda: "mine"), _only.get()))
        outside.set()

    thread = threading.Thread(target=other)
    thread.start()
    with remembering(), searching_only({pack.name: True}):
        assert once("answer", [array], lambda: "theirs") == "theirs"
        inside.set()
        assert outside.wait(60)
        assert once("answer", [array], lambda: "mine") == "theirs"
    thread.join()
    assert found == [("mine", None)]
