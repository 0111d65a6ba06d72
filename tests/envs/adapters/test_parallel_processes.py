"""Environments of PettingZoo that several processes step at once."""

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from parallel_envs import Countdown

import slipstream
from slipstream.child_process import ChildFailed
from slipstream.envs.adapters import parallel_worlds
from slipstream.envs.adapters.parallel_worlds import ParallelWorld
from slipstream.training.health import TrainingFailed

TAG = "pettingzoo:mpe2.simple_tag_v3"
COUNTDOWN, FAULTY = "pettingzoo:parallel_envs:Countdown", "pettingzoo:parallel_envs:Faulty"
STILL = {"cat": np.zeros(8, int), "dog": np.zeros(4, int)}


def gone(pids):
    """Wait until processes are gone, for as long as it takes."""
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        time.sleep(0.02)
    return True


def history(name, processes, **options):
    """All that 5 worlds yield, over a reset and another seed, as bytes by name."""
    worlds = slipstream.make(name, num_worlds=5, seed=3, first_world=2, processes=processes, **options)
    assert len(getattr(worlds.engine.stepping, "pids", [0])) == processes
    found = []

    def some_steps():
        for _ in range(12):
            rows = worlds.step_rows(worlds.sample_actions())
            found.append({name: np.asarray(row).tobytes() for name, row in rows.items()})
        found.append({name: array.tobytes() for name, array in worlds.save().items()})

    some_steps()
    worlds.reset()
    some_steps()
    worlds.reset(seed=8)
    some_steps()
    worlds.rollout_random(3)
    some_steps()
    return found


@pytest.mark.parametrize(
    ("name", "processes", "options"),
    [(TAG, 2, {"num_good": 1, "num_adversaries": 2, "max_cycles": 7}), (COUNTDOWN, 3, {"max_steps": 5})],
)
def test_any_number_of_processes_gives_the_same_bits(name, processes, options):
    alone, shared = history(name, 1, **options), history(name, processes, **options)
    assert shared == alone and len({rows.get("truncated") for rows in alone}) > 1


def test_staggered_beginnings_reach_all_processes():
    worlds = slipstream.make(COUNTDOWN, num_worlds=4, stagger=True, max_steps=5, processes=2)
    began = worlds.get_state()["step"]
    done = np.zeros(4, int)
    for step in range(1, 5):
        done[np.asarray(worlds.step(STILL).truncated["dog"]) & (done == 0)] = step
    np.testing.assert_array_equal(done, np.where(began == 0, 0, 5 - began))


def test_by_default_every_core_has_a_process_if_there_is_enough_to_do(monkeypatch):
    monkeypatch.setattr(parallel_worlds, "usable_cores", lambda: 3)
    named, given = slipstream.make(COUNTDOWN, num_worlds=1).env, ParallelWorld(Countdown)
    assert [named.processes_for(n) for n in (1, 7, 8, 12, 100)] == [1, 1, 2, 3, 3]
    assert given.processes_for(100) == 1


def test_what_other_processes_cannot_make_stays_here():
    with pytest.raises(ValueError, match="they do so by a name, pettingzoo:MODULE:FUNCTION"):
        ParallelWorld(Countdown, processes=2)
    with pytest.raises(ValueError, match="options that are plain data"):
        slipstream.make(FAULTY, num_worlds=2, processes=2, how=Path("raise"))
    with pytest.raises(ValueError, match="processes must be at least 1, got 0"):
        slipstream.make(COUNTDOWN, num_worlds=2, processes=0)
    assert slipstream.make(FAULTY, num_worlds=8, how=("raise",)).env.recipe is None


def test_a_process_that_steps_needs_neither_jax_nor_drjit():
    code = (
        "import sys, slipstream.pettingzoo_part\n"
        "slipstream.pettingzoo_part.maker_named('mpe2.simple_tag_v3')\n"
        "print([m for m in ('jax', 'drjit', 'mujoco', 'tyro', 'equinox') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Faults.


def test_an_environment_that_fails_ends_the_run_with_its_own_traceback(tmp_path):
    options = dict(num_worlds=4, rollout_length=8, hidden=(4,), total_steps=10_000, quiet=True)
    with pytest.raises(TrainingFailed, match=r"worlds 0 to 1, failed: RuntimeError: the gripper is stuck") as found:
        slipstream.train(FAULTY, run=tmp_path / "run", env_options={"processes": 2}, **options)
    assert "in _fail" in str(found.value) and 'raise RuntimeError("the gripper is stuck")' in str(found.value)
    assert "in _fail" in (tmp_path / "run" / "log.txt").read_text()


def test_a_process_that_is_killed_is_missed_and_takes_the_others_with_it():
    worlds = slipstream.make(COUNTDOWN, num_worlds=4, processes=2)
    pids = worlds.engine.stepping.pids
    worlds.step(STILL)
    os.kill(pids[1], signal.SIGKILL)
    for _ in range(2):  # it stays so
        with pytest.raises(ChildFailed, match=r"Process 1 of 2, which stepped worlds 2 to 3, was ended by SIGKILL"):
            worlds.step(STILL)
    assert gone(pids)


def test_an_environment_that_cannot_be_made_there_says_why(monkeypatch, tmp_path):
    (tmp_path / "only_once.py").write_text(
        "import os\nfrom parallel_envs import Countdown\n\n"
        "def parallel_env(here):\n    assert os.getpid() == here, 'the port is taken'\n    return Countdown()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ChildFailed, match="failed: AssertionError: the port is taken"):
        slipstream.make("pettingzoo:only_once", num_worlds=2, processes=2, here=os.getpid())


def test_a_step_that_is_interrupted_is_waited_for_by_the_next(tmp_path):
    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    gate = tmp_path / "gate"
    worlds = slipstream.make(FAULTY, num_worlds=4, processes=2, how="wait", where=str(gate))
    worlds.step(STILL), worlds.step(STILL)
    gate.touch()
    previous = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(Stop):
            worlds.step(STILL)
    finally:
        signal.signal(signal.SIGALRM, previous)
    gate.unlink()
    steps = worlds.step(STILL).final_observation["dog"][0].tolist()
    assert steps in ([3.0] * 4, [4.0] * 4)  # 3 if the alarm was so early that nothing had been asked for
    assert worlds.step(STILL).final_observation["dog"][0].tolist() == [steps[0] + 1] * 4


def test_a_question_that_nobody_has_heard_is_asked_again():
    worlds = slipstream.make(COUNTDOWN, num_worlds=4, processes=2)
    worlds.step(STILL)
    worlds.engine.stepping.arrays["asked"][0] += 1  # all that a Ctrl-C has left before anybody is woken
    assert worlds.step(STILL).final_observation["dog"][0].tolist() == [3.0] * 4


# Ends.

HOST = """
import json, signal, sys
import numpy as np
import slipstream

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs begin without one
faults = dict(zip(("how", "where"), sys.argv[1:]))
worlds = slipstream.make("pettingzoo:parallel_envs:Faulty", num_worlds=4, processes=2, **faults)
still = {"cat": np.zeros(8, int), "dog": np.zeros(4, int)}
worlds.step(still), worlds.step(still)
print(json.dumps(worlds.engine.stepping.pids), flush=True)
if sys.argv[1] != "end":
    worlds.step(still)
"""


@pytest.mark.parametrize("how", ["end", "wait", "hang"])
def test_nothing_is_left(how, tmp_path):
    """After a normal end, a Ctrl-C in the middle of a step, and a SIGKILL while environments are stuck."""
    gate = tmp_path / "gate"
    gate.touch()
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, how, str(gate)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,
    )
    assert host.stdout is not None
    pids = json.loads(host.stdout.readline())
    while how != "end" and not (tmp_path / "gate.stuck").exists():
        time.sleep(0.02)
    if how == "wait":
        os.killpg(host.pid, signal.SIGINT)
    elif how == "hang":
        host.kill()
    _, said = host.communicate(timeout=60)
    assert gone(pids)
    assert host.returncode == {"end": 0, "wait": -signal.SIGINT, "hang": -signal.SIGKILL}[how], said


def test_processes_outlive_the_thread_that_started_them():
    made = []
    thread = threading.Thread(target=lambda: made.append(slipstream.make(COUNTDOWN, num_worlds=4, processes=2)))
    thread.start()
    thread.join()
    time.sleep(0.2)  # a signal would have come by now
    assert made[0].step(STILL).final_observation["dog"][0].tolist() == [1.0] * 4


def test_processes_end_with_their_worlds():
    worlds = slipstream.make(COUNTDOWN, num_worlds=2, processes=2)
    pids = worlds.engine.stepping.pids
    assert not any(os.waitpid(pid, os.WNOHANG)[0] for pid in pids)
    del worlds
    gc.collect()
    assert gone(pids)
