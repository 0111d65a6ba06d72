import os
import signal
import subprocess
import sys

import pytest
from PIL import Image

from slipstream.training.health import TrainingFailed
from slipstream.training.pipeline import crew
from slipstream.training.pipeline.crew import SAMPLERS


def progress(pipeline):
    """A condition: every sampler has taken a few more steps from here on."""
    steps = pipeline.trainer.crew.status["steps"][SAMPLERS:]
    before = steps.copy()
    return lambda: bool((steps - before > 30).all())


def test_a_sampler_that_is_killed_is_replaced(pipeline_config, at_work):
    with at_work(pipeline_config()) as pipeline:
        pipeline.until(progress(pipeline))
        victim = pipeline.trainer.crew.pids["sampler 1"]
        os.kill(victim, signal.SIGKILL)
        pipeline.until(lambda: victim not in pipeline.pids)
        pipeline.until(progress(pipeline))
    assert "sampler 1 was ended by SIGKILL" in pipeline.log
    assert len(pipeline.warnings) == 1 and "Another one takes its place" in pipeline.warnings[0]


@pytest.mark.parametrize(
    ("how", "said", "traceback"),
    [
        ("raise", "failed: RuntimeError: the gripper is stuck", 'raise RuntimeError("the gripper is stuck")'),
        ("segfault", "was ended by SIGSEGV", "in fail"),
        ("hang", "took no step for", "in fail"),
        ("exit", "ended by itself with exit code 3", ""),
    ],
)
def test_what_an_environment_does_is_reported_with_its_traceback_and_gone_on_from(
    how, said, traceback, pipeline_config, at_work, tmp_path
):
    options = {"how": how, "once": str(tmp_path / "once")}
    driver = {"samplers": 1, "patience": 1.0 if how == "hang" else 60.0}
    with at_work(pipeline_config(options=options, driver=driver)) as pipeline:
        pipeline.until(lambda: pipeline.warnings)
        pipeline.until(progress(pipeline))
    assert f"sampler 0 {said}" in pipeline.warnings[0]
    assert f"sampler 0 {said}" in pipeline.log and traceback in pipeline.log
    assert len(pipeline.warnings) == 1


@pytest.mark.parametrize("how", ["raise", "segfault"])
def test_an_environment_that_fails_again_and_again_ends_the_run_with_its_own_error(how, pipeline_config, at_work):
    error = "RuntimeError: the gripper is stuck" if how == "raise" else "SIGSEGV"
    with at_work(pipeline_config(options={"how": how}, driver={"samplers": 1})) as pipeline:
        with pytest.raises(
            TrainingFailed, match=f"fails again and again: sampler 0 .*{error}.*3 times in a row"
        ) as found:
            pipeline.until(lambda: False)
        assert "\n" not in str(found.value)
    assert len(pipeline.warnings) == 2
    assert pipeline.log.count("in fail") == 3


def test_failures_that_are_far_apart_do_not_end_the_run(pipeline_config, at_work):
    with at_work(pipeline_config(options={"how": "raise", "at": 500}, driver={"samplers": 1})) as pipeline:
        pipeline.until(lambda: len(pipeline.warnings) >= 4)


def test_nothing_is_left_when_the_work_is_done(pipeline_config, at_work):
    with at_work(pipeline_config(driver={"evaluator_share": 0.2}, evaluate_episodes=2)) as pipeline:
        pipeline.until(progress(pipeline))
        pids = pipeline.pids
        assert len(pids) == 3
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_samplers_and_evaluators_import_nothing_that_takes_long():
    code = (
        "import sys, slipstream.training.pipeline.sampler, slipstream.training.pipeline.evaluator\n"
        "print(*(n for n in ('jax', 'drjit', 'mujoco', 'tyro', 'equinox', 'rich') if n in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.fixture
def filmed_at_once(monkeypatch):
    monkeypatch.setattr(crew, "FIRST_FILM", 0.0)


def test_the_visualiser_keeps_a_film_in_the_run(pipeline_config, at_work, filmed_at_once):
    config = pipeline_config(driver={"film_share": 1.0}, options={"draws": True})
    with at_work(config) as pipeline:
        film = pipeline.run.film
        pipeline.until(film.exists)
        first = film.stat().st_mtime_ns
        pipeline.until(lambda: film.stat().st_mtime_ns > first)
    with Image.open(film) as picture:
        assert picture.format == "GIF" and getattr(picture, "n_frames", 1) > 3
    assert not pipeline.warnings


def test_a_run_goes_on_without_a_film_if_there_is_nothing_to_see(pipeline_config, at_work, filmed_at_once):
    with at_work(pipeline_config(driver={"film_share": 1.0})) as pipeline:
        pipeline.until(lambda: pipeline.warnings)
        pipeline.until(progress(pipeline))
        assert "visualiser" not in pipeline.trainer.crew.pids
    assert len(pipeline.warnings) == 1
    assert "There is no visualiser any more: it failed: There is nothing to see" in pipeline.warnings[0]
