"""Policies of robots in MuJoCo's engine."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from slipstream.cli.main import main

SHORT = ["--steps", "512", "--worlds", "8", "--rollout", "16", "--quiet"]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> str:
    run = str(tmp_path_factory.mktemp("robots") / "run")
    assert main(["train", "inverted-pendulum", *SHORT, "--run", run]) == 0
    return run


def test_a_robot_earns_the_same_in_mujoco(run, capsys):
    capsys.readouterr()
    assert main(["eval", run, "--in", "mujoco", "--episodes", "3", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    here, there = result["groups"], result["mujoco"]["groups"]
    (group,) = here
    assert there[group]["mean"] == pytest.approx(here[group]["mean"], rel=0.05)
    assert main(["eval", run, "--in", "mujoco", "--episodes", "2"]) == 0
    assert "of its return here" in capsys.readouterr().out


def test_only_robots_are_played_there(tmp_path, capsys):
    run = str(tmp_path / "run")
    assert main(["train", "cartpole", *SHORT, "--run", run]) == 0
    assert main(["eval", run, "--in", "mujoco"]) != 0
    assert "only play robots" in capsys.readouterr().err


def test_worlds_that_are_no_robots_are_evaluated_without_mujoco(tmp_path):
    run = str(tmp_path / "run")
    assert main(["train", "cartpole", *SHORT, "--run", run]) == 0
    blocked = (
        "import sys; sys.modules['mujoco'] = None; from slipstream.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", blocked, "eval", run, "--episodes", "2"]
    assert subprocess.run(command, capture_output=True, text=True).returncode == 0
