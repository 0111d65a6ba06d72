"""`slipstream plot` on runs that were written by hand."""

import json

import pytest

from slipstream.cli.main import main
from slipstream.runs.directory import RunDirectory
from slipstream.runs.metrics import MetricsFile


@pytest.fixture
def folder(tmp_path):
    """A directory with three seeds in it."""
    for seed in range(3):
        run = RunDirectory.create(tmp_path / "many" / f"seed{seed}", {"env": "cartpole", "seed": seed})
        for i in range(1, 4 + seed):
            MetricsFile(run).report({"iteration": i, "step": 10 * i, "seconds": i, "return/cart": i})
        run.release()
    return tmp_path / "many"


def test_a_folder_of_runs_is_drawn_into_that_folder(folder, capsys):
    assert main(["plot", str(folder), "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert files == [str(folder / "curves.png"), str(folder / "curves.svg")]
    assert "cartpole, in training, 3 seeds" in (folder / "curves.svg").read_text()


def test_a_place_that_cannot_be_written_to_is_one_line(folder, capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert main(["plot", str(folder), "--out", str(tmp_path / "file" / "curves")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("slipstream plot: Could not create ") and error.count("\n") == 1
