"""Learning curves."""

import json

import numpy as np
import pytest
from full_disk import disk_full_after

from slipstream.runs import curves
from slipstream.runs.curves import draw_curves, mean_of_running
from slipstream.runs.directory import RunDirectory, RunError


def make_run(path, *, seed=0, env="cartpole", values=(1.0, 2.0, 3.0), pace=0.1, start=0.0, evaluations=None, **config):
    run = RunDirectory.create(path, {"env": env, "seed": seed, **config})
    rows = [
        {"iteration": i, "step": 10 * i, "seconds": start + pace * i, "return/cart": v} for i, v in enumerate(values)
    ]
    for i, value in (evaluations or {}).items():
        rows[i]["evaluation/cart"] = value
    run.metrics_file.write_text("".join(json.dumps(r) + "\n" for r in rows))
    run.release()
    return str(path)


@pytest.fixture
def draw(tmp_path, monkeypatch):
    """`draw(*paths, metric)`: the two panels and the labels of the legend."""
    made = []
    original = curves.make_figure
    monkeypatch.setattr(curves, "make_figure", lambda *args: made.append(original(*args)) or made[-1])

    def panels(*paths, metric=None):
        draw_curves(list(map(str, paths)), tmp_path / "out" / "curves", metric)
        legend = [text.get_text() for text in made[-1].legends[0].get_texts()]
        return *made[-1].axes, legend

    return panels


def lines(axis, label) -> list[np.ndarray]:
    return [line.get_xydata() for line in axis.lines if line.get_label() == label]


def test_a_png_and_an_svg_are_written(tmp_path):
    run = make_run(tmp_path / "a")
    for out in ("curves", "curves.png"):
        files = draw_curves([run], tmp_path / "out" / out)
        assert [f.name for f in files] == ["curves.png", "curves.svg"]
        assert files[0].read_bytes().startswith(b"\x89PNG") and b"<svg" in files[1].read_bytes()


def test_one_run_is_drawn_as_it_is_against_steps_and_against_time(tmp_path, draw):
    steps, seconds, legend = draw(make_run(tmp_path / "a"))
    assert legend == ["cartpole, in training"]
    np.testing.assert_allclose(lines(steps, legend[0]), [[[0, 1], [10, 2], [20, 3]]])
    np.testing.assert_allclose(lines(seconds, legend[0]), [[[0, 1], [0.1, 2], [0.2, 3]]])
    assert len(steps.lines) == 1 and not steps.collections


def test_evaluations_are_drawn_beside_what_was_earned_in_training_as_a_marked_line(tmp_path, draw):
    steps, _, legend = draw(make_run(tmp_path / "a", evaluations={0: 5.0, 2: 9.0}))
    assert legend == ["cartpole, in training", "cartpole, evaluated"]
    np.testing.assert_allclose(lines(steps, legend[1]), [[[0, 5], [20, 9]]])
    training, evaluated = steps.lines
    assert training.get_marker() == "None" and evaluated.get_marker() == "o"
    assert training.get_color() == evaluated.get_color() and training.get_linestyle() != evaluated.get_linestyle()


def test_several_seeds_are_thin_lines_with_a_band_around_their_mean(tmp_path, draw):
    runs = [make_run(tmp_path / f"s{i}", seed=i, values=(i, i + 1.0, i + 2.0)) for i in range(3)]
    steps, _, legend = draw(*runs)
    assert legend[0] == "cartpole, in training, 3 seeds" and len(legend) == 2
    assert len(lines(steps, "_run")) == len(lines(steps, "_end")) == 3 and len(steps.collections) == 1
    (mean,) = lines(steps, legend[0])
    mean = mean[np.isfinite(mean[:, 0])]
    np.testing.assert_allclose(mean[[0, -1]], [[0, 1], [20, 3]])


def test_seeds_of_different_lengths_are_drawn_to_their_own_ends(tmp_path, draw):
    short = make_run(tmp_path / "a", seed=0, values=(1.0, 2.0), start=1.0, pace=1.0, evaluations={1: 500.0})
    long = make_run(tmp_path / "b", seed=1, values=(3.0, 4.0, 5.0, 6.0), start=10.0, pace=1.0, evaluations={3: 490.0})
    steps, seconds, legend = draw(short, long)
    training = legend[0]
    (mean,) = lines(steps, training)
    # Of both, and then of the one that still runs.
    np.testing.assert_allclose(mean[0], [0, 2])
    np.testing.assert_allclose(mean[np.isfinite(mean[:, 0])][-1], [30, 6])
    assert [tuple(p[0]) for p in lines(steps, "_end")] == [(10, 2), (30, 6)]
    # One was over before the other began: nothing is made up in between.
    (mean,) = lines(seconds, training)
    x = mean[np.isfinite(mean[:, 0]), 0]
    assert x.min() == 1 and x.max() == 13 and not ((x > 2) & (x < 10)).any()
    assert [tuple(p[0]) for p in lines(seconds, "_end")] == [(2, 2), (13, 6)]
    assert seconds.get_xlim()[0] == 0
    assert (2.0, 500.0) in [tuple(p) for run in lines(seconds, "_run") for p in run]


def test_the_mean_is_over_those_that_have_begun_and_not_ended():
    first, second = np.array([[0, 2, 4], [0, 2, 4.0]]), np.array([[2, 3, 6], [10, 10, 10.0]])
    x, mean, spread = mean_of_running([first, second])
    np.testing.assert_array_equal(np.isnan(x), np.isnan(mean))
    for low, high, expected, deviation in [
        (0, 2, lambda x: x, 0),
        (2, 4, lambda x: (x + 10) / 2, 3),
        (4, 6, lambda x: 10, 0),
    ]:
        inside = (x > low) & (x < high)
        assert inside.sum() > 100
        np.testing.assert_allclose(mean[inside], expected(x[inside]))
        assert (spread[inside] >= deviation).all()
    # The line is broken where a run begins or ends.
    breaks = np.isnan(x).nonzero()[0]
    assert [x[i - 1] for i in breaks] == [2, 4, 6]


def test_runs_with_a_single_row_are_dots(tmp_path, draw):
    runs = [make_run(tmp_path / f"s{i}", seed=i, values=(i,)) for i in range(2)]
    steps, _, _ = draw(*runs)
    assert [tuple(p[0]) for p in lines(steps, "_end")] == [(0, 0), (0, 1)]


@pytest.mark.parametrize(("pace", "unit", "last"), [(1.0, "seconds", 20), (60.0, "minutes", 20), (3600.0, "hours", 20)])
def test_time_is_in_a_unit_that_can_be_read(tmp_path, draw, pace, unit, last):
    _, seconds, legend = draw(make_run(tmp_path / "a", pace=pace, values=range(21)))
    assert seconds.get_xlabel() == f"{unit} of training"
    assert lines(seconds, legend[0])[0][-1, 0] == pytest.approx(last)


def test_steps_are_counted_in_thousands_and_millions(tmp_path, draw):
    steps, _, _ = draw(make_run(tmp_path / "a"))
    label = steps.xaxis.get_major_formatter()
    assert [label(x) for x in (0, 5e3, 2.5e5, 1.5e6)] == ["0", "5k", "250k", "1.5M"]


def test_the_legend_does_not_lie_on_the_data(tmp_path, monkeypatch):
    figures = []
    original = curves.make_figure
    monkeypatch.setattr(curves, "make_figure", lambda *args: figures.append(original(*args)) or figures[-1])
    runs = [make_run(tmp_path / str(i), num_worlds=i, some_rather_long_name_of_a_setting=i) for i in range(1, 7)]
    draw_curves(runs, tmp_path / "c")
    legend = figures[0].legends[0].get_window_extent()
    assert not any(legend.overlaps(axis.get_window_extent()) for axis in figures[0].axes)
    assert legend.x0 >= 0 and legend.y0 >= 0 and legend.x1 <= figures[0].bbox.x1


def test_rows_in_which_no_episode_ended_are_left_out(tmp_path, draw):
    steps, _, legend = draw(make_run(tmp_path / "a", values=(None, 2.0, 3.0)))
    assert len(lines(steps, legend[0])[0]) == 2


def test_a_folder_of_runs_stands_for_the_runs_in_it(tmp_path, draw):
    for i in range(3):
        make_run(tmp_path / "many" / f"s{i}", seed=i)
    make_run(tmp_path / "many" / "deeper" / "s3", seed=3)
    *_, legend = draw(tmp_path / "many")
    assert legend[0] == "cartpole, in training, 4 seeds"


def test_an_unknown_metric_is_answered_with_those_there_are(tmp_path):
    with pytest.raises(RunError, match=r"No run has values of loss; metrics are .*return/cart"):
        draw_curves([make_run(tmp_path / "a")], tmp_path / "c", "loss")


def test_a_named_metric_is_drawn_alone(tmp_path, draw):
    steps, _, legend = draw(make_run(tmp_path / "a", evaluations={1: 4.0}), metric="seconds")
    assert legend == ["cartpole"] and len(steps.lines) == 1 and steps.get_ylabel() == "seconds"


def test_a_directory_that_is_no_run_is_named(tmp_path):
    with pytest.raises(RunError, match="There is no run directory"):
        draw_curves([str(tmp_path / "nothing")], tmp_path / "c")
    with pytest.raises(RunError, match="is not a run directory, and has no runs in it"):
        draw_curves([str(tmp_path)], tmp_path / "c")


def test_a_full_disk_is_one_clear_error_and_leaves_no_half_of_a_picture(tmp_path):
    run = make_run(tmp_path / "a")
    with disk_full_after(1000), pytest.raises(RunError, match=r"Could not write .*curves.png: File too large"):
        draw_curves([run], tmp_path / "out" / "curves")
    assert list((tmp_path / "out").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"Could not create .*file"):
        draw_curves([run], tmp_path / "file" / "curves")
