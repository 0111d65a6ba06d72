"""Learning curves."""

import json

import numpy as np
import pytest

from slipstream.runs import curves
from slipstream.runs.curves import draw_curves
from slipstream.runs.directory import RunDirectory, RunError


def make_run(path, *, seed=0, env="cartpole", values=(1.0, 2.0, 3.0), **config) -> str:
    run = RunDirectory.create(path, {"env": env, "seed": seed, **config})
    rows = [{"iteration": i, "step": 10 * i, "seconds": 0.1 * i, "return/cart": v} for i, v in enumerate(values)]
    run.metrics_file.write_text("".join(json.dumps(r) + "\n" for r in rows))
    run.release()
    return str(path)


@pytest.fixture
def drawn(monkeypatch):
    """Every curve that is drawn: over what, how many runs, under which label."""
    calls = []
    original = curves._draw

    def spy(axis, runs, over, name, label):
        count = original(axis, runs, over, name, label)
        line = axis.get_lines()[-1] if count else None
        calls.append(dict(over=over, runs=len(runs), label=label, line=line, bands=len(axis.collections)))
        return count

    monkeypatch.setattr(curves, "_draw", spy)
    return calls


def test_a_png_and_an_svg_are_written(tmp_path):
    files = draw_curves([make_run(tmp_path / "a")], tmp_path / "out" / "curves")
    assert [f.name for f in files] == ["curves.png", "curves.svg"]
    assert files[0].read_bytes().startswith(b"\x89PNG") and b"<svg" in files[1].read_bytes()


def test_one_run_is_drawn_as_it_is_against_steps_and_against_time(tmp_path, drawn):
    draw_curves([make_run(tmp_path / "a")], tmp_path / "c")
    assert [call["over"] for call in drawn] == ["step", "seconds"]
    np.testing.assert_allclose(drawn[0]["line"].get_xydata(), [[0, 1], [10, 2], [20, 3]])
    np.testing.assert_allclose(drawn[1]["line"].get_xydata(), [[0, 1], [0.1, 2], [0.2, 3]])
    assert drawn[0]["bands"] == 0


def test_several_seeds_become_one_band_around_their_mean(tmp_path, drawn):
    paths = [make_run(tmp_path / f"s{i}", seed=i, values=(i, i + 1.0, i + 2.0)) for i in range(3)]
    draw_curves(paths, tmp_path / "c")
    assert len(drawn) == 2 and drawn[0]["label"] == "cartpole (3 seeds)" and drawn[0]["bands"] == 1
    np.testing.assert_allclose(drawn[0]["line"].get_ydata()[[0, -1]], [1.0, 3.0])


def test_runs_that_differ_in_more_than_their_seed_are_apart(tmp_path, drawn):
    paths = [make_run(tmp_path / "a", num_worlds=1), make_run(tmp_path / "b", num_worlds=2)]
    draw_curves(paths, tmp_path / "c")
    assert [call["runs"] for call in drawn] == [1] * 4
    assert len({call["label"] for call in drawn}) == 2


def test_rows_in_which_no_episode_ended_are_left_out(tmp_path, drawn):
    draw_curves([make_run(tmp_path / "a", values=(None, 2.0, 3.0))], tmp_path / "c")
    assert len(drawn[0]["line"].get_xdata()) == 2


def test_an_unknown_metric_is_answered_with_those_there_are(tmp_path):
    with pytest.raises(RunError, match=r"No run has values of loss; metrics are .*return/cart"):
        draw_curves([make_run(tmp_path / "a")], tmp_path / "c", "loss")


def test_a_directory_that_is_no_run_is_named(tmp_path):
    with pytest.raises(RunError, match="There is no run directory"):
        draw_curves([str(tmp_path / "nothing")], tmp_path / "c")
