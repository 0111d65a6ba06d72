"""`slipstream video` films what its run learnt, in worlds of one's own too."""

import json
from pathlib import Path

import numpy as np
import pytest

from slipstream.cli.main import BAD_INPUT, OK, main

WORLD = """
from dataclasses import dataclass
import drjit as dr
from slipstream import Box, Discrete, Env, Group
from slipstream.envs.drawing import Circle, Picture

@dataclass
class State:
    x: float

class Hidden(Env):
    max_steps = 6
    groups = (Group("walker", Box(1), Discrete(2)),)

    def reset(self, rng):
        return State(rng.uniform())

    def step(self, state, action, rng):
        return State(state.x + dr.select(action == 1, 0.1, -0.1)), 0.0, False

    def observe(self, state):
        return (state.x,)

class Seen(Hidden):
    def draw(self, state):
        return Picture([Circle((float(state["x"][0]), 0.0), 0.1)], (-1.0, -1.0, 2.0, 1.0))

class Wrong(Hidden):
    def draw(self, state):
        return Picture([Circle((state["y"], 0.0), 0.1)], (-1.0, -1.0, 2.0, 1.0))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("films")
    (path / "worlds.py").write_text(WORLD)
    for name in ("Seen", "Hidden", "Wrong"):
        run = ("--run", str(path / name), "--worlds", "4", "--rollout", "4", "--steps", "16", "--quiet")
        assert main(["train", f"{path}/worlds.py:{name}", *run, "--set", "hidden=[4]"]) == OK
    return path


def test_a_world_that_draws_itself_is_filmed(folder, capsys):
    small = ("--checkpoint", "latest", "--width", "32", "--height", "32")
    assert main(["video", str(folder / "Seen"), *small, "--json"]) == OK
    shown = capsys.readouterr()
    assert json.loads(shown.out) == {"file": str(folder / "Seen" / "video.gif"), "steps": 5} and shown.err == ""
    assert (folder / "Seen" / "video.gif").read_bytes()[:3] == b"GIF"
    out = str(folder / "short.gif")
    assert main(["video", str(folder / "Seen"), *small, "--steps", "2", "--out", out]) == OK
    assert capsys.readouterr().out == f"Wrote {out} (2 steps)\n"


def test_several_worlds_are_filmed_side_by_side(folder, capsys):
    from PIL import Image

    out = str(folder / "grid.gif")
    options = ("--checkpoint", "latest", "--width", "64", "--height", "48", "--out", out)
    assert main(["video", str(folder / "Seen"), *options, "--grid", "4", "--json"]) == OK
    assert json.loads(capsys.readouterr().out) == {"file": out, "steps": 5}
    with Image.open(out) as film:
        assert film.size == (64, 48) and film.n_frames == 6
        frame = np.asarray(film.convert("L"))
    quarters = [frame[y : y + 23, x : x + 31] for y in (0, 24) for x in (0, 32)]
    dark = [np.argwhere(quarter < 128).mean(axis=0).round().tolist() for quarter in quarters]
    assert len({tuple(place) for place in dark}) > 1  # worlds differ


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("Hidden",), "no method draw(state)"),
        (("Wrong",), "worlds.py:30, in draw `return Picture([Circle((state["),
        (("Wrong",), "`: KeyError: 'y'"),
        (("Seen", "--out", "film.avi"), "not 'film.avi'"),
        (("Seen", "--width", "8"), "at least 16 x 16 pixels"),
        (("Seen", "--steps", "0"), "--steps must be at least 1, got 0"),
        (("Seen", "--grid", "0"), "--grid must be at least 1, got 0"),
        (("Seen", "--grid", "64", "--width", "64", "--height", "64"), "64 worlds do not fit into 64 x 64 pixels"),
    ],
)
def test_a_film_that_cannot_be_made_is_explained_in_one_line(folder, capsys, arguments, complaint):
    run, *rest = arguments
    assert main(["video", str(folder / run), "--checkpoint", "latest", *rest]) == BAD_INPUT
    err = capsys.readouterr().err
    assert complaint in err and err.count("\n") == 1 and err.startswith("slipstream video: ")
