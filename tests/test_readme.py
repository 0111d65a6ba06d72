"""The world of the README, as written there."""

import re
from pathlib import Path

import pytest

import slipstream
from slipstream.envs.check import check

PAGE = Path(__file__).parents[1] / "README.md"


@pytest.fixture(scope="module")
def name(tmp_path_factory):
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL).group(1)
    assert len(code.splitlines()) <= 35
    path = tmp_path_factory.mktemp("readme") / "seek.py"
    path.write_text(code)
    return f"{path}:Seek"


def test_it_passes_every_check(name):
    results = check(name, num_worlds=8, num_steps=60)
    assert [p for r in results for p in r.problems] == []


def test_it_trains_and_its_policy_walks_towards_the_goal(name, tmp_path):
    result = slipstream.train(name, run=tmp_path / "run", total_steps=65_536, num_worlds=128, quiet=True)
    policy = slipstream.load(result.run)
    assert policy.act([[0.0, 0.0], [0.8, -0.8]]).tolist() == [1, 0]
