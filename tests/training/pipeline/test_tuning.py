import dataclasses
import json
import math

import pytest

from slipstream.algos.settings import SACConfig
from slipstream.runs.directory import RunDirectory
from slipstream.training.pipeline import tuning
from slipstream.training.pipeline.trainer import PipelineTrainer
from slipstream.training.pipeline.tuning import Choice, Measured, Tuning, climb, sampler_counts, search

SAC = SACConfig(hidden=(8,), batch_size=16, warm_up=100, replay_size=1_000_000, updates_per_step=1.0)


def result(generator, score):
    """What a climb or a search returns if choices are as good as `score` says, and what it tried."""
    tried = [next(generator)]
    while True:
        try:
            tried.append(generator.send(score(tried[-1])))
        except StopIteration as end:
            return end.value, tried


@pytest.mark.parametrize("best", [1, 4, 8, 16, 64])
def test_climbing_finds_the_top_of_a_hill(best):
    found, tried = result(climb(tuning.LANES, 8), lambda n: 1.0 / (1.0 + abs(math.log2(n / best))))
    assert found == best
    assert len(tried) == len(set(tried))


def test_what_is_hardly_better_is_not_worth_more_processes():
    assert result(climb([1, 2, 3], 1), lambda n: 1.0 + 0.01 * n)[0] == 1


def test_samplers_come_first_then_their_environments():
    def throughput(c):
        return Measured(c, 100.0 * min(c.samplers, 4) * min(c.lanes, 32), 100.0)

    found, tried = result(search(None, None, 64, 4), throughput)
    assert found == Choice(4, 32, 64)
    assert tried[0] == Choice(3, tuning.GUESSED_LANES, 64)
    assert len(tried) == len(set(tried))


def test_what_is_given_is_not_searched_for():
    assert {c.samplers for c in result(search(5, None, 64, 4), lambda c: Measured(c, c.lanes, 1.0))[1]} == {5}
    assert {c.lanes for c in result(search(None, 3, 64, 4), lambda c: Measured(c, c.samplers, 1.0))[1]} == {3}
    assert {c.batch for c in result(search(None, None, 64, 4), lambda c: Measured(c, 1.0, 1.0))[1]} == {64}


@pytest.mark.parametrize(("free_up_to", "best"), [(64, 64), (256, 256), (1 << 30, 1024)])
def test_batches_grow_while_that_is_nearly_free(free_up_to, best):
    def throughput(c):
        return Measured(c, 1000.0, 100.0 * min(1.0, free_up_to / c.batch))

    assert result(search(2, 8, 64, 4, larger_batches=True), throughput)[0] == Choice(2, 8, best)


@pytest.mark.parametrize("cores", [1, 2, 3, 4, 64])
def test_a_machine_of_any_size_has_something_to_try(cores):
    assert tuning.guessed_samplers(cores) in sampler_counts(cores)


def test_rates_are_those_between_settling_and_the_end_of_the_window():
    tuned = Tuning(search(None, 8, 64, 2))
    assert tuned.look(0.0, 1000, 10, settled=False) is None
    assert tuned.look(1.0, 2000, 10, settled=True) is None
    assert tuned.look(1.5, 2500, 20, settled=True) is None
    assert tuned.look(3.0, 6000, 210, settled=True) == Choice(2, 8, 64)
    assert tuned.measured[0] == Measured(Choice(1, 8, 64), 2000.0, 100.0)
    assert tuned.look(3.5, 6000, 210, settled=False) is None
    assert "2,000      100.0" in tuned.table()


def test_nothing_is_measured_before_there_are_updates():
    tuned = Tuning(search(None, 8, 64, 2))
    assert [tuned.look(float(t), 100 * t, 0, settled=True) for t in range(5)] == [None] * 5


def test_what_does_not_fit_into_memory_is_not_tried():
    tuned = Tuning(search(None, 8, 64, 2))
    tuned.look(0.0, 0, 0, settled=True)
    assert tuned.look(1.0, 100, 10, settled=True) == Choice(2, 8, 64)
    assert tuned.refuse() == Choice(1, 8, 64) == tuned.best


def test_samples_taken_while_tuning_are_not_lost_and_the_choice_is_kept(
    pipeline_config, at_work, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tuning, "WINDOW", 0.1)
    monkeypatch.setattr("slipstream.training.pipeline.trainer.usable_cores", lambda: 2)
    driver = {"samplers": None, "envs_per_sampler": 4, "updates_per_iteration": 2}
    config = pipeline_config("Recorded", algo="sac", settings=SAC, driver=driver)
    with at_work(config) as pipeline:
        trainer = pipeline.trainer
        pipeline.until(lambda: pipeline.said)
        assert trainer.feed.ring.regions == trainer.samplers == len(pipeline.pids)
        assert trainer.feed.ring.written >= trainer.step - 200  # some were in flight when their samplers left
    assert "samplers  envs each   batch  samples/s  updates/s" in pipeline.said[0] and "<- best" in pipeline.said[0]
    assert "<- best" in pipeline.log
    kept = json.loads((pipeline.run.path / "tuned.json").read_text())
    assert kept["choice"]["samplers"] == trainer.samplers
    assert {row["samplers"] for row in kept["measured"]} >= {1, 2}

    another = RunDirectory.create(tmp_path / "another", {})
    trainer = PipelineTrainer(config)
    with trainer.working(another, print, print):
        assert trainer._tuning is None
        assert trainer.samplers == kept["choice"]["samplers"]
    assert json.loads((another.path / "tuned.json").read_text()) == kept
    another.release()


def test_tuning_can_be_left_out(pipeline_config, at_work, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    config = pipeline_config("Recorded", algo="sac", settings=SAC)
    driver = dataclasses.replace(config.driver, samplers=None, envs_per_sampler=None, tune=False)
    with at_work(dataclasses.replace(config, driver=driver)) as pipeline:
        assert pipeline.trainer._tuning is None
        assert pipeline.trainer.lanes == tuning.GUESSED_LANES


def test_larger_batches_are_tried_when_asked_for_and_kept_by_a_resumed_run(
    pipeline_config, at_work, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tuning, "WINDOW", 0.1)
    monkeypatch.setattr(tuning, "NEARLY_FREE", 0.0)  # whatever they cost
    monkeypatch.setattr(tuning, "LARGEST", 2)
    monkeypatch.setattr("slipstream.training.pipeline.trainer.TUNE_AFTER", 0.1)
    driver = {"samplers": 1, "envs_per_sampler": 4, "updates_per_iteration": 2, "tune": True}
    config = pipeline_config("Recorded", algo="sac", settings=SAC, driver=driver)
    with at_work(config) as pipeline:
        pipeline.until(lambda: pipeline.said)
        assert pipeline.trainer.feed.experience.batch == 32
        updates = pipeline.trainer.updates
        pipeline.until(lambda: pipeline.trainer.updates > updates)
    trainer = PipelineTrainer(config)
    with trainer.working(pipeline.run, print, print):
        assert trainer.feed.experience.batch == 32
