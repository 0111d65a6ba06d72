"""`slipstream sweep`: combinations of settings, killed and gone on with, with a member that fails."""

import json
import subprocess
import sys
import time

import pytest
from made_outcomes import outcome

from slipstream.cli.main import BAD_INPUT, main
from slipstream.cli.sweep import Sweep, _config_of, choose, folder_name, judge, parse_over
from slipstream.runs.checkpoint import checkpoint_names, load_checkpoint
from slipstream.runs.directory import RunDirectory, RunError

SMALL = ["--worlds", "4", "--rollout", "4", "--set", "epochs=1"]

WORLD = """
import os, signal
from dataclasses import dataclass
import drjit as dr
from slipstream import Box, Discrete, Env, Group

@dataclass
class State:
    x: float

class Mine(Env):
    max_steps = 6
    groups = (Group("walker", Box(1), Discrete(2)),)

    def __init__(self, ending: str = "good"):
        self.ending = ending

    def reset(self, rng):
        return State(rng.uniform())

    def step(self, state, action, rng):
        if self.ending == "error":
            raise RuntimeError("the rules\\nare broken")
        if self.ending == "death":
            os.kill(os.getpid(), signal.SIGKILL)
        return State(state.x + dr.select(action == 1, 0.1, -0.1)), 1.0, False

    def observe(self, state):
        return (state.x,)
"""


def test_a_member_that_fails_is_reported_and_the_others_finish(capsys, tmp_path):
    (tmp_path / "mine.py").write_text(WORLD)
    folder = tmp_path / "runs"
    sweep = ["sweep", f"{tmp_path}/mine.py:Mine", *SMALL, "--steps", "64", "--evaluate-every", "4"]
    sweep += ["--run", str(folder), "--over", "ending=error,death,good"]
    assert main(sweep) == 1
    shown = capsys.readouterr()
    assert "ending=error/seed0 failed: " in shown.out and "RuntimeError: the rules are broken" in shown.out
    assert "ending=death/seed0 failed: ended by SIGKILL\n" in shown.out
    assert "Try again what failed with: slipstream sweep" in shown.out
    config = folder / "ending=good" / "seed0" / "config.json"
    assert f"Train the best again with: slipstream train --config {config} --seed 1" in shown.out
    assert "Traceback" in (folder / "ending=error" / "seed0.error.txt").read_text()

    assert main([*sweep[:-1], "ending=error,good", "--quiet"]) == 1
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("slipstream sweep: ending=error/seed0 failed: ")
    assert "RuntimeError: the rules are broken" in shown.err
    assert shown.err.count("\n") == 1

    # Without those that fail there is nothing left to do.
    assert main([*sweep[:-1], "ending=good", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    (row,) = result["combinations"]
    assert result["judged_by"] == "evaluation walker" and row["settings"] == {"ending": "good"}
    assert row["score"] == {"mean": 6.0, "standard_deviation": None}
    assert [(r["name"], r["state"], r["step"]) for r in row["runs"]] == [("ending=good/seed0", "finished", 64)]


def test_a_sweep_that_was_killed_goes_on_where_it_stopped(capsys, tmp_path):
    folder = tmp_path / "runs"
    sweep = ["sweep", "cartpole", *SMALL, "--over", "hidden=[8],[4,4]", "--run", str(folder), "--at-once", "2"]
    endless = [*sweep, "--steps", "100000000", "--checkpoint-every", "0"]
    said = tmp_path / "said.txt"
    with said.open("w") as file:
        process = subprocess.Popen([sys.executable, "-m", "slipstream.cli.main", *endless], stderr=file)
    runs = [RunDirectory(folder / name / "seed0") for name in ("hidden=[8]", "hidden=[4,4]")]
    try:
        while not all(run.checkpoints.is_dir() and checkpoint_names(run) for run in runs):
            assert process.poll() is None and "failed" not in said.read_text(), said.read_text()
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    for run in runs:
        wait_until_free(run)
        assert "interrupted at step" in (run.path / "log.txt").read_text(), "runs that are left alone save and end"
    stopped = [load_checkpoint(run).step for run in runs]
    total = max(stopped) + 32
    assert main([*sweep, "--steps", str(total), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert {r["step"] for c in result["combinations"] for r in c["runs"]} == {total}
    for run, step in zip(runs, stopped):
        log = (run.path / "log.txt").read_text()
        assert f"resumed at step {step}\n" in log and f"finished at step {total}" in log


def wait_until_free(run: RunDirectory) -> None:
    """Wait until the process of a run has ended."""
    while True:
        try:
            run.claim()
        except RunError:
            time.sleep(0.05)
        else:
            return run.release()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Say what to vary, for example --over learning_rate=1e-4,1e-3"),
        (("--over", "learning_rate"), "--over must look like name=value,value, got 'learning_rate'"),
        (("--over", "learning_rate=1,,2"), "--over must look like name=value,value"),
        (("--over", "learning_rate=0.1,1e-1"), "--over learning_rate has the same value twice"),
        (("--over", "epochs=1", "--over", "epochs=2"), "--over epochs is given twice"),
        (("--over", "seed=1,2"), "say how many with --seeds"),
        (("--over", "env_options={},{}"), "--over env_options is more than one setting"),
        (("--over", "learning_rat=1,2"), "With learning_rat=1: Unknown setting 'learning_rat': did you mean 'learning"),
        (("--over", "learning_rate=1e-3,-1"), "With learning_rate=-1: learning_rate must be positive, got -1.0"),
        (("--over", "cart.learning_rate=1e-3,fast"), "With cart.learning_rate=fast: learning_rate must be a number"),
        (("--over", "algo=ppo,pp"), "With algo=pp: Unknown algorithm 'pp'"),
        (("--over", "algo=ppo", "--algo", "a2c"), "--algo and --over algo: give one or the other"),
        (("--over", "epochs=1,2", "--set", "epochs=3"), "epochs is both given and varied"),
        (("--over", "num_worlds=4,8", "--worlds", "4"), "num_worlds is both given and varied"),
        (("--over", "epochs=1,2", "--samples", "0"), "--samples must be at least 1, got 0"),
        (("--over", "epochs=1,2", "--seeds", "0"), "seeds must be a positive whole number, got 0"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_trained(capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", "cartpole", *arguments]) == BAD_INPUT
    assert message in (err := capsys.readouterr().err) and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_commas_within_brackets_and_quotes_do_not_split():
    texts = ("hidden=[32,32],[64, 64],8", 'network="a,b.py:N",null', "activation=tanh,swish", "reward-scale=1e-2")
    assert parse_over(texts) == {
        "hidden": [[32, 32], [64, 64], 8],
        "network": ["a,b.py:N", None],
        "activation": ["tanh", "swish"],
        "reward_scale": [0.01],
    }


def test_every_combination_is_tried_or_some_drawn_by_the_seed():
    over = {"a": [1, 2, 3], "b": ["x", "y"]}
    grid = choose(over, None, 0)
    assert grid[:2] == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}] and len(grid) == 6
    some = choose(over, 3, 5)
    assert len(some) == 3 and all(c in grid for c in some) and len({folder_name(c) for c in some}) == 3
    assert some == choose(over, 3, 5) and any(choose(over, 3, seed) != some for seed in range(6, 12))
    assert choose(over, 99, 0) == grid


def test_names_of_folders_are_files_names_and_tell_combinations_apart():
    assert folder_name({"learning_rate": 0.001, "hidden": [32, 32]}) == "learning_rate=0.001,hidden=[32,32]"
    awkward = [{"network": "a/b.py:N"}, {"network": "a-b.py:N"}, {"n": "x" * 300}, {"n": "x" * 301}]
    names = {folder_name(c) for c in awkward}
    assert len(names) == 4 and all("/" not in name and len(name) < 200 for name in names)


def test_a_combination_changes_settings_driver_world_and_algorithm():
    options = Sweep("tag-gridworld", set=("discount=0.9",))
    combination = {"algo": "a2c", "num_worlds": 8, "num_taggers": 3, "learning_rate": 0.5, "runner.learning_rate": 0.25}
    config = _config_of(options, combination)
    assert config.driver.num_worlds == 8 and config.env_options["num_taggers"] == 3
    assert {p.algo for p in config.policies.values()} == {"a2c"}
    rates = {name: p.settings.learning_rate for name, p in config.policies.items()}
    assert rates == {"tagger": 0.5, "runner": 0.25}
    assert {p.settings.discount for p in config.policies.values()} == {0.9}


def test_the_best_comes_first_and_what_did_not_finish_last():
    runs = [
        [outcome(0, "failed", evaluation={"a": 99.0}), outcome(1, "failed")],
        [outcome(0, evaluation={"a": 1.0}, returns={"a": 9.0}), outcome(1, evaluation={"a": 3.0})],
        [outcome(0, evaluation={"a": 4.0, "b": 0.0}), outcome(1, "failed", evaluation={"a": 0.0})],
    ]
    judged_by, rows = judge([{"x": i} for i in range(3)], runs, "a")
    assert judged_by == "evaluation a" and [r.combination["x"] for r in rows] == [2, 1, 0]
    assert [r.score and r.score.mean for r in rows] == [4.0, 2.0, None]
    runs[2][0] = outcome(0, returns={"a": 8.0})
    judged_by, rows = judge([{"x": i} for i in range(3)], runs, "a")
    assert judged_by == "return a", "not all of them were evaluated"
    assert [r.combination["x"] for r in rows] == [1, 2, 0]


def test_those_that_reach_a_goal_are_judged_by_their_steps():
    runs = [[outcome(0, evaluation={"a": a}, step=s)] for a, s in ((480.0, 50), (500.0, 90), (470.0, 10), (490.0, 50))]
    combinations = [{"x": i} for i in range(4)]
    assert [r.combination["x"] for r in judge(combinations, runs, "a")[1]] == [1, 3, 0, 2]
    assert [r.combination["x"] for r in judge(combinations, runs, "a", 475.0)[1]] == [3, 0, 1, 2]
