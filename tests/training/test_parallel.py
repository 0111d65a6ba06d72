"""One run in several processes, for real: what they learn, how they go on, and what happens when one is lost."""

import dataclasses
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from slipstream.runs.checkpoint import checkpoint_names, load_checkpoint
from slipstream.runs.directory import RunDirectory
from slipstream.runs.metrics import read_columns
from slipstream.training.api import train
from slipstream.training.config import FusedConfig
from slipstream.training.config_json import to_json
from slipstream.training.launch import _two_free_ports
from slipstream.training.team import COORDINATOR, PROCESS, PROCESSES

COMMAND = [sys.executable, "-m", "slipstream.cli.main", "train"]


@pytest.fixture
def config(make_config):
    """`config(processes, **fields)`: two groups that share a policy, in 8 worlds and two shares."""

    def make(processes: int = 2, world: str = "Duels", groups=("red", "blue"), algo: str = "ppo", **fields):
        made = make_config(world, groups, algo, checkpoint_every=0.0, report_every=0.0, keep_checkpoints=9, **fields)
        (first, *_) = made.policies.values()
        policies = {"all": dataclasses.replace(first, groups=groups)}
        driver = FusedConfig(num_worlds=8, rollout_length=4, processes=processes, shares=2)
        return dataclasses.replace(made, policies=policies, driver=driver, total_steps=fields.get("total_steps", 160))

    return make


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("parallel")


@pytest.fixture
def whole(shared, config):
    """A run of 5 iterations in two processes."""
    path = shared / "whole"
    if not path.exists():
        result = train(config(), run=path, quiet=True)
        assert result.finished and result.step == 160
    return RunDirectory.open(path)


@pytest.fixture
def launch(tmp_path):
    """`launch(*arguments, **environment)`: `slipstream train` in a process of its own."""
    started = []

    def start(*arguments: str, **environment: str) -> subprocess.Popen:
        output = (tmp_path / f"output{len(started)}.txt").open("w+")
        process = subprocess.Popen(
            [*COMMAND, *arguments], stdout=output, stderr=output, env={**os.environ, **environment}
        )
        process.output = output  # type: ignore[attr-defined]
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


def said(process: subprocess.Popen) -> str:
    return Path(process.output.name).read_text()  # type: ignore[attr-defined]


def everything(run: RunDirectory, which: str = "latest") -> dict[str, np.ndarray]:
    checkpoint = load_checkpoint(run, which)
    return {f"{p}/{n}": a for p in ("actor", "learner", "worlds") for n, a in checkpoint.part(p).items()}


def assert_close(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> None:
    assert set(a) == set(b)
    for name in a:
        np.testing.assert_allclose(a[name], b[name], rtol=1e-4, atol=1e-5, err_msg=name)


def children(pid: int) -> dict[int, int]:
    """The processes that a process has started to train in, by their number."""
    found = {}
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        environment = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        found |= {int(e.split(b"=")[1]): int(child) for e in environment if e.startswith(f"{PROCESS}=".encode())}
    return found


def wait_until(condition, process: subprocess.Popen) -> None:
    while not condition():
        assert process.poll() is None, said(process)
        time.sleep(0.05)


@pytest.fixture
def endless(launch, config, tmp_path):
    """A run in two processes that goes on for long and has been saved at least once: its directory and process."""
    file, run = tmp_path / "config.json", RunDirectory(tmp_path / "run")
    file.write_text(json.dumps(to_json(config(world="Walker", groups=("walker",), total_steps=10**9))))
    process = launch("--config", str(file), "--run", str(run.path))
    wait_until(lambda: run.checkpoints.is_dir() and checkpoint_names(run), process)
    return run, process


# What is learned.


def test_two_processes_learn_what_one_with_all_their_worlds_learns(whole, config, tmp_path):
    train(config(processes=1), run=tmp_path / "alone", quiet=True)
    alone = RunDirectory.open(tmp_path / "alone")
    together, apart = everything(whole), everything(alone)
    assert_close(together, apart)
    # World 5 is the same whoever steps it: as many of its episodes have ended.
    ended = "worlds/worlds/clock/episodes"
    assert np.array_equal(together[ended], apart[ended]) and together[ended].shape == (8,)
    rows, others = read_columns(whole), read_columns(alone)
    assert rows["episodes"].sum() > 0
    for name in ("episodes", "all/policy_loss", "all/entropy", "return/red"):
        np.testing.assert_allclose(rows[name], others[name], rtol=1e-3, atol=1e-4, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "groups", "algo", "settings"),
    [("Pull", ("hand",), "ppo", {}), ("Duels", ("red", "blue"), "a2c", {}),
     ("Duels", ("red", "blue"), "ppo", {"memory": "gru", "memory_size": 8}),
     ("Pull", ("hand",), "ppo", {"target_kl": 0.01, "normalize_observation": False})],
)  # fmt: skip
def test_so_do_others(config, tmp_path, world, groups, algo, settings):
    for processes in (1, 2):
        made = config(processes, world, groups, algo)
        policy = made.policies["all"]
        policy = dataclasses.replace(policy, settings=dataclasses.replace(policy.settings, **settings))
        made = dataclasses.replace(made, policies={"all": policy})
        train(made, run=tmp_path / str(processes), quiet=True)
    assert_close(*(everything(RunDirectory.open(tmp_path / str(p))) for p in (1, 2)))


# Going on.


def test_a_run_goes_on_with_fewer_processes_as_it_would_have(whole, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(whole.path, copy)
    train(resume=copy, checkpoint="step-000000000064", processes=1, quiet=True)
    run = RunDirectory.open(copy)
    assert run.config()["driver"]["processes"] == 1 and run.config()["driver"]["shares"] == 2
    assert_close(everything(whole), everything(run))


@pytest.mark.slow
def test_a_run_of_one_process_goes_on_with_several(config, tmp_path):
    alone = config(processes=1, total_steps=64)
    alone = dataclasses.replace(alone, driver=dataclasses.replace(alone.driver, shares=1))
    train(alone, run=tmp_path / "a", quiet=True)
    before = everything(RunDirectory.open(tmp_path / "a"))
    result = train(resume=tmp_path / "a", total_steps=128, processes=4, quiet=True)
    assert result.finished and result.step == 128
    after = load_checkpoint(RunDirectory.open(tmp_path / "a"))
    assert after.facts["shares"] == 4
    assert after.part("worlds").keys() == {n.removeprefix("worlds/") for n in before if n.startswith("worlds/")}


def test_processes_started_one_by_one_go_on_bit_for_bit(whole, launch, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(whole.path, copy)
    place = {COORDINATOR: f"127.0.0.1:{_two_free_ports()}", PROCESSES: "2"}
    resume = ["--resume", str(copy), "--checkpoint", "step-000000000064", "--quiet"]
    second = launch(*resume, **place, **{PROCESS: "1"})
    first = launch(*resume, "--json", **place, **{PROCESS: "0"})
    assert first.wait() == 0 and second.wait() == 0, said(first) + said(second)
    assert json.loads(said(first))["step"] == 160
    a, b = everything(whole), everything(RunDirectory.open(copy))
    assert all(a[name].tobytes() == b[name].tobytes() for name in a)


# Ending early.


def test_a_killed_process_ends_the_run_with_its_name_and_a_way_to_go_on(endless):
    run, process = endless
    both = children(process.pid)
    os.kill(both[1], signal.SIGKILL)
    assert process.wait() == 1
    assert "Process 1 of 2 was lost: ended by SIGKILL. Go on from step " in said(process)
    assert f"slipstream train --resume {run.path}" in said(process)
    assert not any(Path(f"/proc/{pid}").exists() for pid in both.values()), "an orphan is left"
    assert everything(run)
    assert "failed: Process 1 of 2 was lost" in (run.path / "log.txt").read_text()


@pytest.mark.slow
def test_so_does_the_one_in_the_lead(endless):
    _, process = endless
    os.kill(children(process.pid)[0], signal.SIGKILL)
    assert process.wait() == 1
    assert "Process 0 of 2 was lost: ended by SIGKILL." in said(process)


@pytest.mark.slow
def test_processes_whose_starter_is_killed_save_and_end(endless):
    run, process = endless
    both = children(process.pid)
    process.kill()
    process.wait()
    while any(Path(f"/proc/{pid}").exists() for pid in both.values()):
        time.sleep(0.05)
    assert "interrupted at step" in (run.path / "log.txt").read_text()


def test_ctrl_c_saves(endless):
    run, process = endless
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert "Stopped and saved after" in said(process)
    log = (run.path / "log.txt").read_text()
    assert f"interrupted at step {load_checkpoint(run).step} " in log


@pytest.mark.slow
def test_a_stopped_process_asks_the_others_to_save(launch, config, tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(to_json(config(world="Walker", groups=("walker",), total_steps=10**9))))
    place = {COORDINATOR: f"127.0.0.1:{_two_free_ports()}", PROCESSES: "2"}
    both = [
        launch("--config", str(file), "--run", str(tmp_path / "run"), **place, **{PROCESS: str(number)})
        for number in range(2)
    ]
    run = RunDirectory(tmp_path / "run")
    wait_until(lambda: run.checkpoints.is_dir() and checkpoint_names(run), both[0])
    both[1].send_signal(signal.SIGTERM)
    assert [process.wait() for process in both] == [130, 130]
    assert "interrupted at step" in (run.path / "log.txt").read_text()


@pytest.mark.slow
def test_a_callback_sees_all_rows_and_can_end_the_run(config, tmp_path):
    rows = []

    def stop_at_3(row):
        rows.append(row)
        return row["iteration"] == 3

    result = train(config(), run=tmp_path / "run", quiet=True, callback=stop_at_3)
    assert result.finished and result.step == 96
    assert [row["iteration"] for row in rows] == [1, 2, 3]


# What makes no sense.


def test_a_port_that_is_taken_is_told(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1] - 1
        for name, value in {COORDINATOR: f"127.0.0.1:{port}", PROCESSES: "2", PROCESS: "0"}.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(ValueError, match=f"Process 0 cannot listen at port {port + 1}"):
            train("cartpole", quiet=True)


def test_worlds_that_other_processes_cannot_find_are_refused(make_config, tmp_path):
    from slipstream.envs.classic.cartpole import CartPole

    with pytest.raises(ValueError, match="must be a class in a file"):
        train(CartPole(), processes=2, run=tmp_path / "run", quiet=True)
