"""The check-model command."""

from __future__ import annotations

import json
import os

from robots import ASSETS

from slipstream.cli.check_model import CheckModel, run


def test_a_supported_robot(capsys):
    options = CheckModel(os.path.join(ASSETS, "hopper.xml"), worlds=64, steps=60, json=True)
    assert run(options) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["supported"] and report["bad_worlds"] == 0
    assert [row["quantity"] for row in report["errors"]] == ["qpos", "qvel"]
    assert all(row["percentile_99"] < 1e-3 for row in report["errors"])
    assert report["steps_per_s"] > 1000


def test_the_text_names_what_was_measured(capsys):
    assert run(CheckModel(os.path.join(ASSETS, "inverted_pendulum.xml"), worlds=16, steps=50)) == 0
    text = capsys.readouterr().out
    for word in ("supported", "1 slide, 1 hinge", "qvel", "physics steps/s"):
        assert word in text


def test_an_unsupported_robot_lists_why(capsys):
    assert run(CheckModel(os.path.join(ASSETS, "pusher.xml"))) == 1
    assert "cylinder" in capsys.readouterr().out
    assert run(CheckModel("missing.xml", json=True)) == 1
    assert not json.loads(capsys.readouterr().out)["supported"]
