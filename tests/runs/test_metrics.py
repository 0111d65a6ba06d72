"""Metrics as JSON lines and TensorBoard events."""

import json

import pytest
from full_disk import disk_full_after

from slipstream.runs.directory import RunDirectory, RunError
from slipstream.runs.metrics import MetricsWriter, forget_after, read_metrics


@pytest.fixture
def run(tmp_path):
    directory = RunDirectory.create(tmp_path / "run", {})
    yield directory
    directory.release()


def row(iteration: int, **more) -> dict:
    return {"iteration": iteration, "step": 10 * iteration, "seconds": 0.5 * iteration, **more}


def write(run, *rows, from_step=None):
    writer = MetricsWriter(run, from_step)
    for r in rows:
        writer.write(r)
    writer.close()


def events(run) -> list:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    files = sorted(run.tensorboard.iterdir())
    return [event for file in files for event in EventFileLoader(str(file)).Load()]


def test_rows_come_back_as_they_were_written(run):
    rows = [row(1, loss=0.25), row(2, loss=-1e-9)]
    write(run, *rows)
    assert read_metrics(run) == rows


def test_what_is_not_finite_is_null_and_the_file_is_strict_json(run):
    write(run, row(1, loss=float("nan"), other=float("inf")))

    def refuse(text):
        raise AssertionError(text)

    for line in run.metrics_file.read_text().splitlines():
        json.loads(line, parse_constant=refuse)
    assert read_metrics(run)[0]["loss"] is None and read_metrics(run)[0]["other"] is None


def test_a_half_written_last_line_is_left_out(run):
    write(run, row(1), row(2))
    whole = run.metrics_file.read_text()
    for cut in range(1, len(whole.splitlines()[1])):
        run.metrics_file.write_text(whole[: -1 - cut])
        assert read_metrics(run) == [row(1)]


def test_a_run_without_metrics_has_no_rows(run):
    assert read_metrics(run) == []


def test_a_resumed_run_forgets_later_rows_and_half_lines(run):
    write(run, row(1), row(2), row(3))
    with run.metrics_file.open("a") as file:
        file.write('{"iteration": 4, "st')
    forget_after(run, 2)
    write(run, row(3, new=1), from_step=20)
    assert read_metrics(run) == [row(1), row(2), row(3, new=1)]


def test_tensorboard_has_the_same_numbers(run):
    write(run, row(1, **{"return/agent": 2.5, "bad": float("nan")}))
    values = {v.tag: (e.step, v) for e in events(run) for v in e.summary.value}
    assert set(values) == {"seconds", "return/agent"}
    step, value = values["return/agent"]
    number = value.simple_value or value.tensor.float_val[0]
    assert (step, number) == (10, 2.5)


def test_tensorboard_is_told_where_a_resumed_run_begins(run):
    write(run, row(1), from_step=10)
    assert [e.step for e in events(run) if e.HasField("session_log")] == [10]


def test_a_full_disk_is_a_clear_error_and_keeps_earlier_rows(run):
    write(run, row(1))
    size = run.metrics_file.stat().st_size
    writer = MetricsWriter(run)
    with disk_full_after(size + 3), pytest.raises(RunError, match=r"Could not write metrics to .*metrics.jsonl"):
        writer.write(row(2))
    assert read_metrics(run) == [row(1)]
