"""The world of docs/your-first-world.md, as written there."""

import re
from pathlib import Path

import numpy as np
import pytest

import slipstream
from slipstream.envs import make
from slipstream.envs.check import check
from slipstream.envs.registry import env_class

PAGE = Path(__file__).parents[2] / "docs" / "your-first-world.md"


@pytest.fixture(scope="module")
def name(tmp_path_factory):
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL).group(1)
    assert len(code.splitlines()) < 60
    path = tmp_path_factory.mktemp("docs") / "my_world.py"
    path.write_text(code)
    return f"{path}:Meadow"


def test_it_passes_every_check(name):
    results = check(name, num_worlds=6, num_steps=25, num_sheep=5)
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


def test_what_is_shown_from_python_works(name):
    _, shown = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names = {"slipstream": slipstream, "Meadow": env_class(name)}
    exec(shown, names)
    assert names["worlds"].episode_statistics.episodes >= 512
