"""The command: real training in pods on an embedded Ray, and what comes out of it."""

import json
import shutil

import numpy as np
import pytest

import slipstream
from slipstream.cli.main import main
from slipstream.runs.directory import RunDirectory
from slipstream.tournament.leaderboard import Leaderboard
from slipstream.tournament.tournament import board_of

QUICK = ["--quantum-steps", "256", "--worlds", "8", "--rollout", "8", "--set", "hidden=[8]", "--episodes", "4"]


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """A tournament of four agents that is over, and what it printed."""
    folder = tmp_path_factory.mktemp("tournament") / "made"
    options = ["--pods", "1", "--agents", "4", "--final-episodes", "8", "--keep", "2", "--fresh", "0", "--quiet"]
    import contextlib
    import io

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = main(["tournament", "cartpole", "--run", str(folder), *options, *QUICK, "--generator", "pbt", "--json"])
    assert code == 0, (folder / "driver.log").read_text()
    return folder, json.loads(printed.getvalue())


def test_a_tournament_ends_with_a_winner_and_an_ensemble(ended):
    _folder, result = ended
    assert result["finished"] and result["submissions"] >= 4
    best = result["leaders"]["cart"][0]
    assert result["winner"]["agents"] == {"cart": [best["id"]]}
    assert len(result["ensemble"]["agents"]["cart"]) == 2 and result["ensemble"]["agents"]["cart"][0] == best["id"]
    for judged in (result["winner"], result["ensemble"]):
        assert judged["evaluation"]["episodes"] == 8 and judged["evaluation"]["groups"]["cart"]["mean"] > 0
    assert result["overhead"]["largest"] >= result["overhead"]["median"] > 0
    assert any(entry["parent"] for entry in result["leaders"]["cart"]) or result["submissions"] < 3


@pytest.mark.parametrize("which", ["winner", "ensemble"])
def test_what_comes_out_is_an_ordinary_run(ended, which, capsys):
    folder, result = ended
    assert main(["eval", str(folder / which), "--episodes", "8", "--seed", "1610612736", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    # The seed of the last judgement: 2**30 + 2**29, and that of the tournament (0).
    assert again["groups"] == result[which]["evaluation"]["groups"]
    policy = slipstream.load(str(folder / which))
    assert policy.act(np.zeros(4)) in (0, 1) and policy.act(np.zeros((4, 3))).shape == (3,)


def test_the_winner_has_a_curve_and_the_tournament_a_lineage(ended, capsys):
    folder, result = ended
    assert main(["plot", str(folder / "winner"), "--json"]) == 0
    curve = slipstream.metrics(folder / "winner")
    assert curve["evaluation/cart"][-1] == result["leaders"]["cart"][0]["score"]
    assert main(["plot", "--lineage", str(folder), "--out", str(folder / "who"), "--json"]) == 0
    files = json.loads(capsys.readouterr().out.splitlines()[-1])["files"]
    assert [f.rpartition(".")[2] for f in files] == ["png", "svg"] and (folder / "who.svg").stat().st_size > 1000
    assert main(["plot", "--lineage", str(folder), "--metric", "x"]) == 2


def test_an_ensemble_votes(ended):
    folder, _ = ended
    both = slipstream.load(str(folder / "ensemble"))
    _, board = board_of(folder)
    members = [slipstream.load(e.weights) for e in board.top("cart", 2, kept_only=True)]
    seen = np.random.default_rng(0).normal(size=(4, 200))
    votes = np.stack([m.act(seen) for m in members])
    # Of two who disagree the better one decides.
    assert np.array_equal(both.act(seen), votes[0])
    assert not RunDirectory.open(folder / "ensemble").config()["policies"]["cart"]["members"][0]["frozen"]


def test_the_leaderboard_can_be_read_and_what_is_wanted_be_changed(ended, capsys):
    folder, result = ended
    assert main(["tournament", "leaderboard", str(folder), "--json", "--top", "2"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [e["rank"] for e in shown["leaders"]["cart"]] == [1, 2] and shown["submissions"] == result["submissions"]
    assert main(["tournament", "leaderboard", str(folder)]) == 0
    assert shown["leaders"]["cart"][0]["id"] in capsys.readouterr().out
    assert main(["tournament", "scale", str(folder), "--pods", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["pods"] == 3
    for action, paused in (("pause", True), ("resume", False)):
        assert main(["tournament", action, str(folder)]) == 0
        assert board_of(folder)[1].control().paused is paused
    assert main(["tournament", "scale", str(folder), "--pods", "0"]) == 2
    assert main(["tournament", "leaderboard", str(folder / "none")]) == 2
    assert "is no tournament's directory" in capsys.readouterr().err


def test_only_the_kept_have_weights_and_nothing_else_is_left(ended):
    folder, _ = ended
    board = Leaderboard(f"sqlite:///{folder}/leaderboard.sqlite")
    assert {p.name for p in (folder / "agents").iterdir()} == {e.id for e in board.top("cart", 2)}
    assert [e.epoch for e in board.history()] == sorted({e.epoch for e in board.history()})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--generator", "sofmax"], "Unknown generator 'sofmax': did you mean 'softmax'"),
        (["--algo", "pqo"], "Unknown algorithm 'pqo'"),
        (["--set", "lerning_rate=1"], "lerning_rate"),
        (["--cpus-per-pod", "4000"], "A pod needs 4000 CPUs, and this machine has"),
        (["--pods", "0"], "pods must be at least 1"),
        (["--database", "nonsense"], "is no database's address"),
        (["--database", "postgresql+psycopg://u@127.0.0.1:1/x"], "cannot be reached"),
        (["--storage", "nosuch://x"], "There is no way to store weights"),
        (["--ranges", "/no/such.json"], "Could not read"),
        (["--processes", "2"], "A pod trains in one process"),
        (["--seconds", "5"], "--quantum-seconds"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_starts(tmp_path, capsys, options, message):
    assert main(["tournament", "cartpole", "--run", str(tmp_path / "t"), *options]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "t" / "driver.log").exists()


def test_a_tournament_is_not_begun_twice(ended, tmp_path, capsys):
    folder, _ = ended
    assert main(["tournament", "cartpole", "--run", str(folder)]) == 2
    assert "already holds a tournament" in capsys.readouterr().err
    assert main(["tournament", "cartpole", "--resume", str(folder)]) == 2
    assert "a world cannot be given beside it" in capsys.readouterr().err
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    url = f"sqlite:///{copy}/leaderboard.sqlite"
    assert main(["tournament", "cartpole", "--run", str(tmp_path / "other"), "--database", url]) == 2
    assert "already holds a tournament" in capsys.readouterr().err
