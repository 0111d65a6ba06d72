"""docs/your-own-robot.md, as written; and a film of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from slipstream.envs.check import PROPERTIES, Subject, _run
from slipstream.envs.registry import make_env

PAGE = Path(__file__).parents[3] / "docs" / "your-own-robot.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("crawler")
    blocks = dict(re.findall(r"```(xml|python)\n(.*?)```", PAGE.read_text(), re.DOTALL))
    (path / "crawler.xml").write_text(blocks["xml"])
    (path / "crawler.py").write_text(blocks["python"])
    return path


def slipstream(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "slipstream.cli.main", *arguments]
    # Not on the screen of whoever runs the tests.
    environment = {name: value for name, value in os.environ.items() if name != "DISPLAY"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_robot_is_sound(folder):
    def make():
        return make_env(f"{folder}/crawler.py:Crawler")

    subject = Subject(make, num_worlds=4, num_steps=12, seed=0, backend="llvm")
    for name, test in PROPERTIES.items():
        assert _run(name, test, subject).problems == ()


def test_its_model_is_supported(folder):
    slipstream(folder, "check-model", "crawler.xml")


def test_the_commands_of_the_page_work(folder):
    small = ["--worlds", "16", "--rollout", "8", "--quiet"]
    commands = [line.split()[1:] for line in PAGE.read_text().splitlines() if line.startswith("slipstream ")]
    for command in commands:
        given = [a if a != "1000000" else "256" for a in command]
        if given[0] == "train":
            given += small if "--steps" in given else [*small, "--steps", "128", "--run", "runs/other"]
        if given[0] == "video":
            given += ["--steps", "20", "--width", "64", "--height", "48", "--checkpoint", "latest", "--json"]
        if given[0] == "eval":
            given += ["--episodes", "4", "--checkpoint", "latest"]
        shown = slipstream(folder, *given)
    assert (folder / "runs" / "crawler" / "video.gif").stat().st_size > 1000
    assert commands and shown == ""


def test_a_film_is_reported_as_json(folder):
    arguments = ("--steps", "3", "--width", "64", "--height", "48", "--checkpoint", "latest", "--out", "film.gif")
    shown = json.loads(slipstream(folder, "video", "runs/crawler", "--json", *arguments))
    assert shown == {"file": "film.gif", "steps": 3}
