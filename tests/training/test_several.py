"""Several runs in one folder: each in a process of its own, and gone on with when asked for again."""

import dataclasses
import io
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from slipstream.runs.checkpoint import load_checkpoint, save_checkpoint
from slipstream.runs.directory import RunDirectory, RunError
from slipstream.runs.metrics import MetricsFile, forget_after
from slipstream.training import several
from slipstream.training.board import Board
from slipstream.training.config import TrainConfig
from slipstream.training.config_json import to_json
from slipstream.training.cores import share_cores
from slipstream.training.member import Member, _NewRows
from slipstream.training.several import INSIDE, is_finished, train_all, train_seeds


def log_of(path) -> list[str]:
    """What happened to a run, without when."""
    return [line.split("  ", 1)[1].split(" after ")[0] for line in (path / "log.txt").read_text().splitlines()]


def test_seeds_share_a_folder_and_the_same_call_goes_on_with_it(make_config, tmp_path, capsys):
    config = make_config(evaluate_every=5)
    first = train_seeds(config, 2, run=tmp_path, at_once=2, total_steps=5 * 16)
    assert [(o.name, o.seed) for o in first] == [("seed3", 3), ("seed4", 4)]
    assert all(o.finished and o.step == 80 for o in first)
    assert all(math.isfinite(o.returns["walker"]) and math.isfinite(o.evaluation["walker"]) for o in first)
    assert first[0].evaluation != first[1].evaluation
    assert [log_of(tmp_path / f"seed{i}") for i in (3, 4)] == [
        [f"started: {config.env} with seed {i}", "finished at step 80"] for i in (3, 4)
    ]
    said = capsys.readouterr().err
    assert "seed3: compiling ..." in said and "seed4: finished after 80 steps" in said

    assert train_seeds(config, 2, run=tmp_path, quiet=True) == first, "what is finished is kept"
    assert [len(log_of(tmp_path / f"seed{i}")) for i in (3, 4)] == [2, 2]
    assert capsys.readouterr().err == "", "quiet"

    longer = train_seeds(config, 1, run=tmp_path, quiet=True, total_steps=7 * 16)
    assert [(o.name, o.step) for o in longer] == [("seed3", 112)]
    assert log_of(tmp_path / "seed3")[2:] == ["resumed at step 80", "finished at step 112"]
    assert load_checkpoint(RunDirectory(tmp_path / "seed4")).step == 80
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.lock", "seed3", "seed4"], "nothing else is left behind"


def test_what_is_wrong_in_a_run_is_said_with_its_name(make_config, tmp_path, capsys):
    (outcome,) = train_seeds(make_config("Fragile", ("agent",)), 1, run=tmp_path)
    assert outcome.finished
    assert "Warning: seed3: " in (said := capsys.readouterr().err) and "worlds were reset" in said


def test_nothing_is_started_when_something_makes_no_sense(make_config, tmp_path):
    from training_worlds import Walker

    class Nowhere(Walker):
        pass

    config, folder = make_config(), tmp_path / "folder"
    with pytest.raises(ValueError, match="seeds must be a positive whole number, got 0"):
        train_seeds(config, 0, run=folder)
    with pytest.raises(ValueError, match="at_once must be a positive whole number, got -1"):
        train_seeds(config, 2, run=folder, at_once=-1)
    with pytest.raises(ValueError, match="give the class Walker instead"):
        train_seeds(Walker(), run=folder)
    with pytest.raises(ValueError, match="Nowhere was defined interactively"):
        train_seeds(Nowhere, run=folder)
    with pytest.raises(ValueError, match="Unknown option 'pace'"):
        train_all({"a": config, "b": dataclasses.replace(config, env_options={"pace": 1})}, folder)
    assert not folder.exists()


def test_a_run_that_is_another_one_is_not_gone_on_with(make_config, tmp_path):
    config = make_config(report_every=1)  # a whole number comes back as 1.0, and is no other run for that
    RunDirectory.create(tmp_path / "seed3", to_json(config)).release()
    several._check_same_run(tmp_path / "seed3", config)
    with pytest.raises(RunError, match=r"seed3 already holds another run: its driver.num_worlds is 4, not 8\."):
        train_seeds(config, 1, run=tmp_path, num_worlds=8)
    with pytest.raises(RunError, match="seed3 is itself a run"):
        train_seeds(config, 1, run=tmp_path / "seed3")


def test_whoever_cannot_wait_for_the_runs_to_be_saved_leaves_none_behind(make_config, tmp_path, monkeypatch):
    started = []

    def start(*job):
        started.append(Member(*job))
        return started[-1]

    def press_again(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(several, "Member", start)
    monkeypatch.setattr(several.time, "sleep", press_again)
    with pytest.raises(KeyboardInterrupt):
        train_seeds(make_config(), 3, run=tmp_path, at_once=2, quiet=True)
    assert [member.running for member in started] == [False, False]
    assert [p.name for p in tmp_path.iterdir()] == ["run.lock"]


def test_a_folder_belongs_to_one_process_at_a_time(make_config, tmp_path):
    other = RunDirectory(tmp_path)
    other.claim()
    with pytest.raises(RunError, match=f"already in use by process {os.getpid()}"):
        train_seeds(make_config(), 1, run=tmp_path)
    other.release()


def test_a_script_with_its_own_world_does_not_start_itself_again(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from training_worlds import Walker as Base\n"
        "from slipstream.training.several import train_seeds\n"
        "class Walker(Base): ...\n"
        "train_seeds(Walker, 2)\n"
    )
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and 'train under `if __name__ == "__main__":`' in done.stderr.splitlines()[-1]
    assert not (tmp_path / "runs").exists()
    assert INSIDE not in os.environ


@pytest.mark.parametrize(
    ("budget", "finished"),
    [
        (dict(total_steps=160), True),
        (dict(total_steps=161), False),
        (dict(total_steps=None, total_seconds=7.0), True),
        (dict(total_steps=None, total_seconds=7.5), False),
        (dict(total_steps=1000, stop_at_return=20.0), True),
        (dict(total_steps=1000, stop_at_return=20.5), False),
    ],
)
def test_a_run_is_finished_when_its_budget_is_spent_or_its_goal_reached(make_config, tmp_path, budget, finished):
    config: TrainConfig = make_config(**budget)
    assert not is_finished(tmp_path / "run", config)
    run = RunDirectory.create(tmp_path / "run", to_json(config))
    assert not is_finished(run.path, config)
    save_checkpoint(run, 160, {"actor": {"a": np.zeros(1)}}, {"iteration": 10, "seconds": 7.2}, 3, 20.0)
    assert is_finished(run.path, config) == finished


def test_cores_are_shared_out_and_all_used(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 3, 5, 7, 9}, raising=False)
    assert share_cores(1) == [None], "alone, a run may use whatever we may"
    assert share_cores(2) == [{2, 3, 5}, {7, 9}]
    assert share_cores(5) == [{2}, {3}, {5}, {7}, {9}]
    assert share_cores(7) == [{2}, {3}, {5}, {7}, {9}, {2}, {3}]


def test_only_new_rows_are_read_also_of_a_file_that_a_resumed_run_replaces(tmp_path):
    run = RunDirectory.create(tmp_path / "run", {})
    metrics = MetricsFile(run)
    fresh = _NewRows(run.metrics_file)
    assert fresh() == []
    metrics.report({"iteration": 1, "loss": math.nan})
    (row,) = fresh()
    assert row["iteration"] == 1 and math.isnan(row["loss"])
    metrics.report({"iteration": 2})
    with run.metrics_file.open("a") as file:
        file.write('{"itera')
    assert fresh() == [{"iteration": 2}], "half a line is not a row yet"
    resumed = _NewRows(run.metrics_file)
    assert resumed() == []
    forget_after(run, 1)
    assert resumed() == []
    metrics.report({"iteration": 2})
    assert resumed() == [{"iteration": 2}]
    assert [json.loads(line)["iteration"] for line in run.metrics_file.read_text().splitlines()] == [1, 2]


ROW = {"iteration": 1, "step": 40, "seconds": 2.0, "steps_per_second": 20.0, "return/walker": 3.5}


@pytest.mark.parametrize("terminal", [True, False])
def test_people_see_how_far_every_run_is_and_how_it_ended(make_config, terminal):
    out = io.StringIO()
    with Board(2, console=Console(file=out, force_terminal=terminal, width=60)) as board:
        for name in ("seed0", "seed1"):
            board.begin(name, make_config())
        board.report("seed0", ROW)
        if terminal:
            board._live.refresh()
        board.end("seed0", "finished")
    text = out.getvalue()
    assert "seed0: compiling" in text and "seed1: compiling" in text and "seed0: finished\n" in text
    if terminal:
        assert "seed0  50 %  return walker 3.5  20 steps/s" in text and "all 2 runs  50 %" in text
    else:
        assert "seed0: step 40  20 steps/s  return/walker=3.50" in text and "\x1b" not in text
