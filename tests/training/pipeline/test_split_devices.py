"""Critics and policy on two devices. In processes of their own: the number of devices is fixed when one begins."""

import json
import os
import subprocess
import sys

import pytest

NEW = ["gym:Pendulum-v1", "--split-devices", "--samplers", "1", "--envs-per-sampler", "4"]


def train(devices: int | None, *options: str) -> subprocess.CompletedProcess:
    """Where nobody says how many devices the CPU is, it is as many as it takes."""
    count = "" if devices is None else f" --xla_force_host_platform_device_count={devices}"
    flags = os.environ.get("XLA_FLAGS", "") + count
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "slipstream.cli.main", "train", "--quiet", *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def test_two_devices_train_without_waiting_for_each_other_and_the_run_goes_on(tmp_path):
    run, small = tmp_path / "run", ["--set", "hidden=[16,16]", "--set", "warm_up=200", "--set", "priority=0.6"]
    done = train(None, *NEW, *small, "--steps", "1500", "--run", str(run))
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert {"agent/critic_loss", "agent/policy_loss", "agent/temperature"} <= set(rows[-1])
    done = train(None, "--resume", str(run), "--steps", "2000")
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(
    ("devices", "more", "message"),
    [(1, [], "needs two devices, and JAX has one"), (2, ["--algo", "ppo"], "take sac, td3 or ddpg")],
)
def test_what_cannot_be_divided_is_refused_before_a_run_begins(tmp_path, devices, more, message):
    done = train(devices, *NEW, *more, "--run", str(tmp_path / "run"))
    assert done.returncode != 0 and message in done.stderr
    assert not (tmp_path / "run").exists()
