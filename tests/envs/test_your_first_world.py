"""The world of docs/your-first-world.md, as written there."""

import re
import textwrap
from pathlib import Path

import numpy as np
import pytest

from slipstream.envs import make
from slipstream.envs.check import check
from slipstream.envs.drawing import BLUE, GREY, RED
from slipstream.envs.registry import make_env

PAGE = Path(__file__).parents[2] / "docs" / "your-first-world.md"


@pytest.fixture(scope="module")
def name(tmp_path_factory):
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL).group(1)
    assert len(code.splitlines()) < 60
    path = tmp_path_factory.mktemp("docs") / "my_world.py"
    drawing = re.search(r"  ```\n(  def draw.*?)  ```", PAGE.read_text(), re.DOTALL).group(1)
    path.write_text(code + "\n\nclass Seen(Meadow):\n" + textwrap.indent(textwrap.dedent(drawing), "    "))
    return f"{path}:Meadow"


def test_it_passes_every_check(name):
    results = check(lambda: make_env(name, num_sheep=5), num_worlds=6, num_steps=25)
    assert [p for r in results for p in r.problems] == []


def test_wolves_catch_sheep_that_come_near(name):
    worlds = make(name, num_worlds=1, num_wolves=1, num_sheep=2)
    worlds.set_state(x=[[0.5, 0.53, 0.9]], y=[[0.5, 0.5, 0.9]])
    stay = {"wolf": np.zeros(1, int), "sheep": np.zeros(2, int)}
    step = worlds.step(stay)
    assert step.reward["wolf"].tolist() == [1.0]
    np.testing.assert_allclose(step.reward["sheep"], [-1.0, 0.01])
    assert step.terminated["sheep"].tolist() == [True, False]
    assert worlds.active()["sheep"].tolist() == [False, True]


def test_episodes_end_and_are_reported(name):
    worlds = make(name, num_worlds=100)
    worlds.rollout_random(300)
    statistics = worlds.episode_statistics
    assert statistics.episodes >= 300
    assert 0 < statistics.report["caught"] <= 12


def test_its_picture_shows_who_is_caught(name):
    worlds = make(name.replace("Meadow", "Seen"), num_worlds=1, backend="scalar", num_wolves=1, num_sheep=2)
    worlds.set_state(x=[0.5, 0.1, 0.9], y=[0.5, 0.2, 0.8], alive=[True, True, False])
    shapes = worlds.env.draw(worlds.get_state()).shapes
    assert [shape.colour for shape in shapes] == [RED, BLUE, GREY]
    np.testing.assert_allclose([shape.centre for shape in shapes], [(0.5, 0.5), (0.1, 0.2), (0.9, 0.8)], rtol=1e-6)
