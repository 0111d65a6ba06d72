"""Metrics of a run that goes on: only what is new is read, and a run that starts anew is noticed."""

from slipstream.runs.directory import RunDirectory
from slipstream.runs.metrics import MetricsTail, read_metrics


def test_rows_are_read_as_they_are_written(tmp_path):
    run = RunDirectory(tmp_path)
    tail = MetricsTail(run)
    assert not tail.read() and tail.rows == []
    run.metrics_file.write_text('{"step": 1}\n{"step": 2}\n{"st')
    assert tail.read() and [row["step"] for row in tail.rows] == [1, 2]
    assert not tail.read()
    with run.metrics_file.open("a") as file:
        file.write('ep": 3}\n')
    assert tail.read() and tail.rows == read_metrics(run) == [{"step": s} for s in (1, 2, 3)]


def test_a_file_that_lost_rows_or_was_replaced_is_read_anew(tmp_path):
    run = RunDirectory(tmp_path)
    run.metrics_file.write_text('{"step": 1}\n{"step": 2}\n')
    tail = MetricsTail(run)
    tail.read()
    run.metrics_file.write_text('{"step": 7}\n')
    assert tail.read() and tail.rows == [{"step": 7}]
    other = tmp_path / "other"
    other.write_text('{"step": 4}\n{"step": 5}\n')
    other.replace(run.metrics_file)
    assert tail.read() and tail.rows == [{"step": 4}, {"step": 5}]
    run.metrics_file.unlink()
    assert tail.read() and tail.rows == []
