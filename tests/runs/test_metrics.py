"""Metrics as JSON lines and TensorBoard events."""

import json
import subprocess
import sys

import numpy as np
import pytest
from full_disk import disk_full_after

from slipstream.runs.directory import RunError
from slipstream.runs.metrics import MetricsFile, TensorBoard, forget_after, read_columns, read_metrics


def row(iteration: int, **more) -> dict:
    return {"iteration": iteration, "step": 10 * iteration, "seconds": 0.5 * iteration, **more}


def write(run, *rows, from_step=None):
    for sink in (MetricsFile(run), TensorBoard(run, from_step)):
        for r in rows:
            sink.report(r)
        sink.close()


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


def test_numbers_of_numpy_are_written_like_others(run):
    write(run, row(1, loss=np.float32(0.5), count=np.int64(3)))
    assert read_metrics(run) == [row(1, loss=0.5, count=3)]


def test_columns_are_as_long_as_the_run_and_nan_where_there_is_no_value(run):
    write(run, row(1, loss=0.25), row(2, **{"return/a": float("nan")}), row(3, **{"return/a": 7.0}))
    columns = read_columns(run)
    nan = np.nan
    expected = {"iteration": [1, 2, 3], "step": [10, 20, 30], "seconds": [0.5, 1.0, 1.5]}
    expected |= {"loss": [0.25, nan, nan], "return/a": [nan, nan, 7.0]}
    assert list(columns) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(columns[name], values)
        assert columns[name].dtype == np.float64


def test_a_run_without_metrics_has_no_columns(run):
    assert read_columns(run) == {}


# TensorBoard.


def scalars(run) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard itself reads."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(run.tensorboard), size_guidance={"scalars": 0, "tensors": 0})
    board.Reload()
    read = {tag: [(e.step, e.value) for e in board.Scalars(tag)] for tag in board.Tags()["scalars"]}
    for tag in board.Tags()["tensors"]:
        read[tag] = [(e.step, e.tensor_proto.float_val[0]) for e in board.Tensors(tag)]
    return read


def test_tensorboard_has_the_same_numbers(run):
    rows = [row(i, **{"return/agent": 2.5 * i, "name of a\u00e4": -1e-9 * i}) for i in (1, 2, 300_000_000)]
    write(run, *rows)
    read = scalars(run)
    assert set(read) == {"seconds", "return/agent", "name of a\u00e4"}
    for name, points in read.items():
        assert [step for step, _ in points] == [r["step"] for r in rows]
        np.testing.assert_array_equal([v for _, v in points], [np.float32(r[name]) for r in rows])


def test_tensorboard_is_spared_what_is_not_finite(run):
    write(run, row(1, bad=float("nan"), worse=float("-inf"), large=1e300, good=1.0))
    assert set(scalars(run)) == {"seconds", "good"}


def test_tensorboard_is_told_where_a_resumed_run_begins(run):
    write(run, row(1), row(2), row(3))
    write(run, row(2, new=1.0), from_step=10)
    assert [e.step for e in events(run) if e.HasField("session_log")] == [11]
    assert [step for step, _ in scalars(run)["seconds"]] == [10, 20]


def test_the_library_of_tensorboard_is_not_imported_to_write(run):
    code = (
        "import sys; from slipstream.runs.directory import RunDirectory;"
        "from slipstream.runs.metrics import TensorBoard;"
        "TensorBoard(RunDirectory(sys.argv[1])).report({'step': 1, 'x': 2.0});"
        "print([name for name in sys.modules if 'tensorb' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code, run.path], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert scalars(run) == {"x": [(1, 2.0)]}


# A disk that cannot be written to.


@pytest.mark.parametrize("sink", [MetricsFile, TensorBoard])
def test_a_full_disk_is_a_clear_error_and_leaves_no_half_rows(run, sink):
    sink = sink(run)
    sink.report(row(1))
    file = sink._path
    with disk_full_after(file.stat().st_size + 3), pytest.raises(RunError, match=f"Could not write .*{file.name}: "):
        sink.report(row(2))
    # Somebody has made room.
    sink.report(row(3))
    steps = [r["step"] for r in read_metrics(run)] if sink.__class__ is MetricsFile else None
    assert (steps or [step for step, _ in scalars(run)["seconds"]]) == [10, 30]


def test_a_place_that_cannot_be_written_to_is_a_clear_error(run):
    run.tensorboard.write_text("")
    with pytest.raises(RunError, match=r"Could not write .*tensorboard: File exists"):
        TensorBoard(run)
    run.metrics_file.mkdir()
    with pytest.raises(RunError, match=r"Could not write .*metrics.jsonl: Is a directory"):
        MetricsFile(run).report(row(1))
