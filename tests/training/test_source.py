"""A user's own world: its file is found from anywhere, kept with the run, and compared with what it was."""

import json

import pytest

from slipstream.cli.main import main

WORLD = """
from dataclasses import dataclass

from slipstream import Box, Discrete, Env, Group


@dataclass
class State:
    x: float


class Mine(Env):
    max_steps = 4
    groups = (Group("agent", Box(1), Discrete(2)),)

    def reset(self, rng):
        return State(rng.uniform(0.0, 1.0))

    def step(self, state, action, rng):
        return state, PAY, False

    def observe(self, state):
        return (state.x,)
"""


@pytest.fixture
def trained_run(tmp_path, monkeypatch):
    (tmp_path / "home").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    (tmp_path / "home" / "mine.py").write_text(WORLD.replace("PAY", "1.0"))
    tiny = ["--worlds", "4", "--rollout", "4", "--steps", "32", "--set", "hidden=[4]", "--quiet"]
    assert main(["train", "mine.py:Mine", *tiny, "--run", "run"]) == 0
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "home" / "run"


def evaluated(run, capsys, *options: str) -> tuple[float, str]:
    capsys.readouterr()
    assert main(["eval", str(run), "--episodes", "2", "--json", *options]) == 0
    captured = capsys.readouterr()
    return json.loads(captured.out)["groups"]["agent"]["mean"], captured.err


def test_a_run_works_from_any_directory(trained_run, capsys):
    assert evaluated(trained_run, capsys) == (4.0, "")
    assert main(["train", "--resume", str(trained_run), "--steps", "48", "--quiet"]) == 0


def test_a_world_that_has_changed_is_told_and_can_be_had_as_it_was(trained_run, capsys):
    (trained_run.parent / "mine.py").write_text(WORLD.replace("PAY", "2.0"))
    now, warning = evaluated(trained_run, capsys)
    assert now == 8.0
    assert "mine.py has changed since the run was started; --saved-source takes it as it was" in warning
    assert evaluated(trained_run, capsys, "--saved-source") == (4.0, "")


def test_a_world_that_is_gone_can_be_had_as_it_was(trained_run, capsys):
    (trained_run.parent / "mine.py").unlink()
    assert main(["eval", str(trained_run)]) == 2
    assert "mine.py is gone. --saved-source takes the copy" in capsys.readouterr().err
    assert evaluated(trained_run, capsys, "--saved-source") == (4.0, "")
    assert main(["train", "--resume", str(trained_run), "--steps", "48", "--quiet", "--saved-source"]) == 0


def test_slipstreams_own_worlds_keep_no_source(tmp_path, capsys):
    run = str(tmp_path / "run")
    tiny = ["--worlds", "4", "--rollout", "4", "--steps", "16", "--set", "hidden=[4]", "--quiet"]
    assert main(["train", "cartpole", *tiny, "--run", run]) == 0
    assert main(["eval", run, "--saved-source"]) == 2
    assert "cartpole is one of Slipstream's own worlds" in capsys.readouterr().err
