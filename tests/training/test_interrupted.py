"""Runs that are stopped from outside: killed, or asked to stop. Each is a process of its own."""

import json
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from slipstream.runs.checkpoint import checkpoint_names, load_checkpoint
from slipstream.runs.directory import RunDirectory, RunError
from slipstream.runs.metrics import read_metrics
from slipstream.training.api import train
from slipstream.training.config_json import to_json


@pytest.fixture
def start(tmp_path, make_config):
    """`start(run, **fields)`: `slipstream train` in a process of its own, which may run for long."""
    processes = []

    def launch(run, **fields) -> subprocess.Popen:
        # Everything is reported and saved all the time, so that a kill is likely to hit something.
        config = make_config(checkpoint_every=0.0, report_every=0.0, **fields)
        file = tmp_path / "config.json"
        file.write_text(json.dumps(to_json(config)))
        command = [sys.executable, "-m", "slipstream.cli.main", "train", "--config", str(file), "--run", str(run)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        processes.append(process)
        return process

    yield launch
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.communicate()


def wait_for_checkpoints(run, count: int, process: subprocess.Popen) -> None:
    while not run.checkpoints.is_dir() or len(checkpoint_names(run)) < count:
        assert process.poll() is None, "the run ended by itself"
        time.sleep(0.02)


def same_arrays(a: dict, b: dict) -> bool:
    return set(a) == set(b) and all(np.array_equal(a[n], b[n]) for n in a)


def test_a_run_killed_at_a_random_moment_is_resumed_bit_for_bit(start, make_config, tmp_path):
    run = RunDirectory(tmp_path / "killed")
    process = start(run.path, total_steps=10_000 * 16)
    wait_for_checkpoints(run, 1, process)
    with pytest.raises(RunError, match=f"already in use by process {process.pid}"):
        train(resume=run.path, quiet=True)
    time.sleep(random.uniform(0.0, 0.5))
    process.kill()
    process.communicate()
    killed_at = load_checkpoint(run).step
    total = killed_at + 3 * 16
    # The schedules depend on how long a run is meant to be, but these settings have none.
    train(resume=run.path, total_steps=total, quiet=True)
    whole = RunDirectory(tmp_path / "whole")
    train(make_config(total_steps=total, report_every=0.0), run=whole.path, quiet=True)
    resumed, expected = load_checkpoint(run), load_checkpoint(whole)
    assert resumed.step == expected.step == total
    assert any(n.startswith("worlds/state/") for n in expected.part("worlds"))
    for part in ("actor", "learner", "worlds"):
        assert same_arrays(resumed.part(part), expected.part(part))
    assert not list(run.checkpoints.glob(".step-*"))
    iterations = [row["iteration"] for row in read_metrics(run)]
    assert iterations == sorted(set(iterations)) and iterations[-1] == total // 16


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_asked_to_stop_saves_says_how_to_go_on_and_does(start, tmp_path, number):
    run = RunDirectory(tmp_path / "stopped")
    process = start(run.path, total_steps=10_000 * 16)
    wait_for_checkpoints(run, 2, process)
    for _ in range(3):  # whoever presses Ctrl-C three times still wants the run to be saved
        process.send_signal(number)
    out, _ = process.communicate()
    assert process.returncode == 130
    assert f"Go on with: slipstream train --resume {run.path}" in out
    assert "Stopped and saved" in out
    assert "interrupted at step" in (run.path / "log.txt").read_text()
    stopped_at = load_checkpoint(run).step
    assert read_metrics(run)[-1]["step"] == stopped_at
    result = train(resume=run.path, total_steps=stopped_at + 16, quiet=True)
    assert result.finished and result.step == stopped_at + 16
    iterations = [row["iteration"] for row in read_metrics(run)]
    assert iterations == list(range(1, result.step // 16 + 1))
