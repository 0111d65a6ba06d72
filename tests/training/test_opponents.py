"""Policies of different runs play one another."""

import json

import pytest

from slipstream.cli.main import main
from slipstream.training.fused import FusedTrainer


@pytest.fixture
def runs(make_config, policy, save, tmp_path):
    """Two runs of the same game with networks of other sizes."""
    for i, hidden in enumerate([(8,), (5, 6)]):
        both = {g: policy(g, algo=["ppo", "a2c"][i], settings=dict(hidden=hidden)) for g in ("red", "blue")}
        save(FusedTrainer(make_config("Duels", policies=both, seed=i)), tmp_path / f"run{i}")
    return str(tmp_path / "run0"), str(tmp_path / "run1")


def scores(run: str, capsys, *options: str) -> dict:
    capsys.readouterr()
    assert main(["eval", run, "--episodes", "4", "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


def test_somebody_else_plays_for_a_group(runs, capsys):
    here, there = (scores(run, capsys)["groups"] for run in runs)
    mixed = scores(runs[0], capsys, "--with", f"blue={runs[1]}:blue")
    assert mixed["with"] == {"blue": f"{runs[1]}:blue"}
    # In `Duels` the groups do not touch each other, so each earns what it earns at home.
    assert mixed["groups"]["red"] == here["red"] and mixed["groups"]["blue"] == there["blue"]
    assert here["blue"] != there["blue"]
    assert main(["eval", runs[0], "--episodes", "2", "--with", f"blue={runs[1]}:blue"]) == 0
    assert "blue is played by" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("green={}:red", "There is no group 'green' to play for; the groups are red, blue"),
        ("blue={}", "has several policies: choose one of red, blue"),
        ("blue={}/nothing", "There is no run directory"),
        ("blue", "--with must look like name=value"),
    ],
)
def test_who_cannot_play_is_told_why(runs, capsys, given, message):
    assert main(["eval", runs[0], "--with", given.format(runs[1])]) == 2
    assert message in capsys.readouterr().err
