"""Whole runs: from `train` to what is left behind, also when somebody is killed."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from slipstream import load, train
from slipstream.algos.settings import SACConfig
from slipstream.runs.checkpoint import checkpoint_names, load_checkpoint, save_checkpoint
from slipstream.runs.directory import RunDirectory
from slipstream.runs.metrics import read_metrics
from slipstream.training.config_json import from_json, to_json
from slipstream.training.health import TrainingFailed
from slipstream.training.pipeline.trainer import PipelineTrainer

SCRIPT = """
import json, sys
from slipstream import train
from slipstream.training.config_json import from_json
job = json.loads(sys.argv[1])
train(from_json(job["config"]), run=job["run"], quiet=True)
"""


def start(config, path) -> subprocess.Popen:
    """A run in a process of its own that has begun to learn."""
    job = json.dumps({"config": to_json(config), "run": str(path)})
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, job], stderr=subprocess.PIPE, text=True)
    wait_until(lambda: process.poll() is not None or len(read_metrics(RunDirectory(path))) > 2)
    assert process.poll() is None, process.stderr.read() if process.stderr is not None else ""
    return process


def wait_until(condition, seconds: float = 180.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happens"
        time.sleep(0.02)


def children(pid: int) -> list[int]:
    return [int(c) for task in Path(f"/proc/{pid}/task").iterdir() for c in (task / "children").read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def run_config(pipeline_config):
    """A run that reports and saves all the time."""

    def make(**changes):
        driver = {"evaluator_share": 0.5, **changes.pop("driver", {})}
        usual = {"report_every": 0.1, "checkpoint_every": 0.2, "evaluate_episodes": 3}
        return pipeline_config(driver=driver, **{**usual, **changes})

    return make


def test_a_run_ends_with_its_budget_and_can_be_loaded(run_config, tmp_path):
    result = train(run_config(total_steps=2000), run=tmp_path / "run", quiet=True)
    assert result.finished and result.step >= 2000
    assert result.returns["agent"] == 10.0
    assert load(result.run).act(np.zeros(2)) in (0, 1)
    rows = read_metrics(RunDirectory.open(result.run))
    assert [row["step"] for row in rows] == sorted(row["step"] for row in rows)
    wanted = [
        "samples_per_second",
        "updates_per_second",
        "update_frames_per_second",
        "updates_per_sample",
        "policy_lag",
    ]
    assert all(np.isfinite(rows[-1][f"pipeline/{name}"]) for name in wanted)
    assert rows[-1]["memory/learner"] > rows[-1]["memory/sampler-0"] > 1


def test_a_resumed_run_goes_on_counting(run_config, tmp_path):
    first = train(run_config(total_steps=2000), run=tmp_path / "run", quiet=True)
    before = load_checkpoint(RunDirectory.open(first.run))
    result = train(resume=first.run, total_steps=first.step + 2000, quiet=True)
    after = load_checkpoint(RunDirectory.open(first.run))
    assert result.finished and result.step >= first.step + 2000
    assert after.facts["iteration"] > before.facts["iteration"]
    assert after.facts["born"] > before.facts["born"]
    assert int(after.part("learner")["age/agent"][0]) == after.step == result.step


def test_the_best_checkpoint_holds_the_weights_that_were_evaluated(run_config, tmp_path):
    result = train(run_config(stop_at_return=9.0, total_seconds=60.0), run=tmp_path / "run", quiet=True)
    run = RunDirectory.open(result.run)
    assert result.finished and result.evaluation is not None
    assert result.evaluation.groups["agent"].mean == 10.0 and result.evaluation.length == 10.0
    best = load_checkpoint(run, "best")
    assert best.score == 10.0
    network = {n: a for n, a in best.part("actor").items() if "policy" in n}
    learner = best.part("learner")
    assert any(not np.array_equal(a, learner[n.replace("agent/", "agent/network/", 1)]) for n, a in network.items())


def test_ctrl_c_saves_and_leaves_nobody_behind(run_config, tmp_path):
    process = start(run_config(checkpoint_every=1e9), tmp_path / "run")
    offspring = children(process.pid)
    assert len(offspring) == 3
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 0
    assert not any(is_alive(pid) for pid in offspring)
    run = RunDirectory.open(tmp_path / "run")
    assert checkpoint_names(run)
    assert "interrupted at step" in (run.path / "log.txt").read_text()


def test_a_learner_that_is_killed_leaves_nothing_and_can_be_resumed(run_config, tmp_path):
    def shared():
        return {name for name in os.listdir("/dev/shm") if "psm_" in name or "slipstream" in name}

    before = shared()
    process = start(run_config(), tmp_path / "run")
    offspring = children(process.pid)
    assert len(offspring) == 3
    run = RunDirectory.open(tmp_path / "run")
    wait_until(lambda: checkpoint_names(run))
    process.kill()
    process.wait()
    wait_until(lambda: not any(is_alive(pid) for pid in offspring))
    assert shared() <= before
    saved = load_checkpoint(run).step
    result = train(resume=run.path, total_steps=saved + 1000, quiet=True)
    assert result.finished and result.step >= saved + 1000


def test_an_environment_that_fails_ends_the_run_with_its_error(run_config, tmp_path):
    config = run_config(options={"how": "raise"}, driver={"samplers": 1, "evaluator_share": 0.0})
    with pytest.raises(TrainingFailed, match="RuntimeError: the gripper is stuck"):
        train(config, run=tmp_path / "run", quiet=True)
    log = (tmp_path / "run" / "log.txt").read_text()
    assert 'raise RuntimeError("the gripper is stuck")' in log and "failed at step" in log


SAC = SACConfig(hidden=(8,), batch_size=16, warm_up=200, replay_size=5000, updates_per_step=1.0)


@pytest.fixture
def sac_config(run_config):
    usual = {"env": "Recorded", "algo": "sac", "settings": SAC, "driver": {"updates_per_iteration": 4}}
    return lambda **changes: run_config(**{**usual, **changes})


def test_what_was_sampled_is_there_when_a_run_is_resumed(sac_config, tmp_path):
    first = train(sac_config(total_steps=1500), run=tmp_path / "run", quiet=True)
    run = RunDirectory.open(first.run)
    saved = load_checkpoint(run)
    rows = saved.part("replay")["rows"].copy()
    assert len(rows) >= first.step - 100  # the others were in flight; some came while it was saved
    trainer = PipelineTrainer(from_json(run.config()))
    trainer.restore(saved, "it")
    assert trainer.feed.ring.available == len(rows)
    assert (trainer.step, trainer.iteration) == (saved.step, saved.facts["iteration"])
    width = trainer.feed.ring.width
    found = trainer.feed.ring.block["numbers"][:, : len(rows) // 2].reshape(-1, width)
    assert {row.tobytes() for row in found} <= {row.tobytes() for row in rows}
    second = train(resume=first.run, total_steps=first.step + 500, quiet=True)
    assert second.finished


def test_a_run_can_do_without_a_saved_replay(sac_config, tmp_path):
    first = train(sac_config(total_steps=1500, save_replay=False), run=tmp_path / "run", quiet=True)
    assert "replay" not in load_checkpoint(RunDirectory.open(first.run)).parts
    assert train(resume=first.run, total_steps=first.step + 500, quiet=True).finished


@pytest.mark.parametrize("bound", [0.05, 1.0])
def test_there_are_never_more_updates_than_samples_allow(bound, sac_config, at_work):
    settings = dataclasses.replace(SAC, updates_per_step=bound)
    with at_work(sac_config(settings=settings)) as pipeline:
        trainer = pipeline.trainer
        for _ in range(60):
            trainer.iterate()
            assert trainer.updates <= bound * trainer.samples
        assert trainer.updates > 0


def test_samplers_wait_if_they_are_told_to(sac_config, at_work):
    with at_work(sac_config(driver={"samples_per_update": 2.0, "updates_per_iteration": 4})) as pipeline:
        trainer = pipeline.trainer
        pipeline.until(lambda: trainer.updates >= 40)
        for _ in range(3):
            time.sleep(0.1)
            assert trainer.samples <= 200 + 2.0 * (trainer.updates + 4) + 2 * 3 * 2  # a step of all that were on it
            trainer.iterate()


def test_random_steps_are_not_taken_without_end_before_the_first_update(sac_config, at_work):
    with at_work(sac_config()) as pipeline:
        trainer = pipeline.trainer
        wait_until(lambda: trainer.samples >= 200)
        time.sleep(0.3)
        assert trainer.samples <= 200 + 2 * 3 * 3 * 2 + 6
        pipeline.until(lambda: trainer.samples > 1000)


def test_a_replay_that_takes_long_to_write_is_not_in_every_checkpoint(sac_config, at_work):
    with at_work(sac_config()) as pipeline:
        trainer, run = pipeline.trainer, pipeline.run
        pipeline.until(lambda: trainer.samples > 500)

        def save(last):
            parts, facts = trainer.save(last=last)
            save_checkpoint(run, trainer.step, parts, facts, 5)
            return "replay" in parts

        assert save(last=False)
        trainer.feed.ring.saving_seconds = 100.0
        pipeline.until(lambda: trainer.samples > 600)
        assert not save(last=False)
        resumed = PipelineTrainer(trainer.config)
        resumed.restore(load_checkpoint(run), "it")
        assert resumed.feed.ring.available > 400
        assert resumed.step == trainer.step
        assert save(last=True)


@pytest.mark.parametrize("strict", [False, True])
def test_observations_outside_their_space_are_counted_or_an_error(strict, run_config, tmp_path):
    usual = run_config(options={"odd": "outside"}, total_steps=2000, driver={"strict": strict, "evaluator_share": 0.0})
    config = dataclasses.replace(usual, env=str(Path(__file__).with_name("gym_environments.py")) + ":Countdown")
    if strict:
        with pytest.raises(TrainingFailed, match=r"feature 0 is 11, outside 0 \.\. 10"):
            train(config, run=tmp_path / "run", quiet=True)
        return
    train(config, run=tmp_path / "run", quiet=True)
    assert read_metrics(RunDirectory.open(tmp_path / "run"))[-1]["pipeline/observations_outside"] > 10
    assert "observations were outside the space" in (tmp_path / "run" / "log.txt").read_text()


def test_a_resumed_run_does_not_sample_without_end_before_its_first_update(sac_config, tmp_path):
    first = train(sac_config(total_steps=1500), run=tmp_path / "run", quiet=True)
    run = RunDirectory.open(first.run)
    trainer = PipelineTrainer(from_json(run.config()))
    trainer.restore(load_checkpoint(run), "it")
    with trainer.working(run, print, print):
        wait_until(lambda: trainer.samples >= first.step + 200)
        time.sleep(0.3)
        assert trainer.samples <= first.step + 200 + 2 * 3 * 3 * 2 + 6
        while trainer.samples <= first.step + 1000:
            trainer.iterate()
