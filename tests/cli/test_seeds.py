"""`slipstream train --seeds`: several runs with one command."""

import json
import shlex
import signal
import subprocess
import sys
import time

import pytest
import tyro
from made_outcomes import outcome

from slipstream.cli.main import BAD_INPUT, INTERRUPTED, main
from slipstream.cli.outcomes import command_line, exit_code, show_seeds, spread
from slipstream.cli.train import Train
from slipstream.runs.checkpoint import checkpoint_names
from slipstream.runs.directory import RunDirectory

TINY = ["--worlds", "4", "--rollout", "4", "--set", "hidden=[8]", "--set", "epochs=1"]


def test_programs_get_every_run_and_the_spread_over_them(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "cartpole", *TINY, "--steps", "64", "--seeds", "2", "--seed", "7", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["run"].startswith("runs/cartpole-ppo-") and result["run"].endswith("-seeds2")
    assert result["finished"] == 2 and [(r["seed"], r["step"]) for r in result["runs"]] == [(7, 64), (8, 64)]
    values = [r["returns"]["cart"] for r in result["runs"]]
    assert result["returns"]["cart"]["mean"] == pytest.approx(sum(values) / 2)
    assert result["returns"]["cart"]["standard_deviation"] == pytest.approx(abs(values[0] - values[1]) / 2**0.5)
    assert main(["plot", result["run"]]) == 0
    assert "2 seeds" in (tmp_path / result["run"] / "curves.svg").read_text()


def test_ctrl_c_saves_what_is_under_way_and_says_how_to_go_on(tmp_path):
    folder = tmp_path / "my runs"
    budget = ["--steps", "100000000", "--checkpoint-every", "0", "--seeds", "2", "--run", str(folder)]
    command = [sys.executable, "-m", "slipstream.cli.main", "train", "cartpole", *TINY, *budget]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    run = RunDirectory(folder / "seed0")
    try:
        while not run.checkpoints.is_dir() or not checkpoint_names(run):
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        for _ in range(2):  # whoever presses Ctrl-C twice still wants the run to be saved
            process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    finally:
        process.kill()
    assert process.returncode == INTERRUPTED
    assert "seed0: stopped after" in err and "seed1" not in err
    assert "Go on with: slipstream train cartpole --steps 100000000 --worlds 4 --rollout 4 --set 'hidden=[8]'" in out
    assert f"--run '{folder}' --seeds 2" in out and "not started" in out
    assert "interrupted at step" in (run.path / "log.txt").read_text()
    assert sorted(p.name for p in folder.iterdir()) == ["run.lock", "seed0"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cartpole", "--seeds", "0"), "seeds must be a positive whole number, got 0"),
        (("cartpole", "--seeds", "-2"), "seeds must be a positive whole number, got -2"),
        (("cartpole", "--seeds", "2", "--at-once", "0"), "at_once must be a positive whole number, got 0"),
        (("cartpole", "--at-once", "2"), "--at-once says how many of several runs share the machine: it needs --seeds"),
        (("--resume", "run", "--seeds", "2"), "--seeds cannot be given beside it"),
        (("--resume", "run", "--seeds", "0"), "--seeds cannot be given beside it"),
        (("--resume", "run", "--seed", "0"), "--seed cannot be given beside it"),
        (("cartpole", "--seeds", "2", "--checkpoint", "best"), "--checkpoint says how to resume a run"),
        (("cartpole", "--seeds", "2", "--config", "c.json"), "A --config says its own env"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_trained(capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(["train", *arguments]) == BAD_INPUT
    assert message in (err := capsys.readouterr().err) and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_the_exit_code_tells_interrupted_from_failed_from_fine():
    fine, failed, stopped, waiting = (outcome(0, s) for s in ("finished", "failed", "stopped", "not started"))
    assert exit_code([fine, fine]) == 0
    assert exit_code([fine, failed]) == 1
    assert exit_code([failed, stopped]) == exit_code([fine, waiting]) == 130


def test_people_see_every_seed_and_the_mean_of_those_that_finished(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    done = [outcome(i, returns={"a": 10.0 * i, "b": 0.5}, evaluation={"a": 1.0}) for i in (1, 3)]
    show_seeds([*done, outcome(4, "failed", returns={"a": 99.0}, step=16, error="no")])
    lines = [line.split("│") for line in capsys.readouterr().out.splitlines()]
    cells = [[c.strip() for c in line[1:-1]] for line in lines if len(line) > 2]
    assert cells == [
        ["1", "finished", "64", "1.5", "10.0", "0.5000", "1.00"],
        ["3", "finished", "64", "1.5", "30.0", "0.5000", "1.00"],
        ["4", "failed", "16", "1.5", "99.0", "-", "-"],
        ["mean", "of 2", "64", "1.5", "20.0 +- 14.1", "0.5000 +- 0.0000", "1.00 +- 0.00"],
    ]


def test_a_single_run_has_no_spread():
    assert str(spread([3.25])) == "3.25"


def test_the_command_that_is_shown_gives_the_same_options():
    arguments = ["my world.py:W", "--seeds", "3", "--seed", "-1", "--set", "hidden=[8, 8]", "--set", "epochs=1"]
    arguments += ["--stop-at-return", "2.5", "--stagger", "--load", "a=x y:z"]
    options = tyro.cli(Train, args=arguments)
    name, command, *rest = shlex.split(command_line("train", options))
    assert (name, command) == ("slipstream", "train") and tyro.cli(Train, args=rest) == options
