"""Names of worlds, and what is said about wrong ones."""

import pytest

from slipstream.envs import make
from slipstream.envs.registry import NAMES, UnknownEnvironment, env_class, env_options, make_env

SOURCE = '''
from dataclasses import dataclass
from slipstream.envs import Env, Float, Group
from slipstream.spaces import Box, Discrete

@dataclass
class State:
    x: Float

class Mine(Env):
    """A world of my own."""
    groups = (Group("me", Box(1), Discrete(2)),)
    def __init__(self, scale: float = 1.0):
        self.scale = scale
    def reset(self, rng):
        return State(rng.uniform() * self.scale)
    def step(self, state, action, rng):
        return state, 1.0, False
    def observe(self, state):
        return (state.x,)
'''


@pytest.fixture
def my_world(tmp_path):
    path = tmp_path / "my_world.py"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_every_name_makes_worlds_with_a_description(name):
    worlds = make(name, num_worlds=2)
    assert worlds.num_worlds == 2
    assert env_class(name).__doc__


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("cart-pole", "'cartpole'"), ("tag", "choose from cartpole"), ("pendlum", "'pendulum'")],
)
def test_an_unknown_name_gets_the_nearest_ones(wrong, meant):
    with pytest.raises(UnknownEnvironment, match=f"Unknown environment '{wrong}'.*{meant}"):
        make(wrong)


def test_an_unknown_option_gets_the_nearest_ones():
    with pytest.raises(ValueError, match=r"Unknown option 'num_tagers' of tag-gridworld.*'num_taggers'"):
        make("tag-gridworld", num_tagers=3)
    with pytest.raises(ValueError, match="Unknown option 'gravity' of cartpole: it has none"):
        make("cartpole", gravity=3)


def test_options_reach_the_world():
    assert list(env_options("tag-gridworld"))[:2] == ["num_taggers", "grid_length"]
    assert make_env("tag-gridworld", num_taggers=3).groups[0].size == 3


def test_a_world_in_a_file_is_named_by_its_path(my_world):
    worlds = make(f"{my_world}:Mine", num_worlds=50, scale=3.0)
    assert worlds.get_state()["x"].max() > 1.5
    assert list(env_options(f"{my_world}:Mine")) == ["scale"]


def test_a_file_or_class_that_is_not_there_is_named(my_world):
    with pytest.raises(UnknownEnvironment, match=r"no file nowhere\.py"):
        make("nowhere.py:Mine")
    with pytest.raises(UnknownEnvironment, match="no world 'Yours'; it defines Mine"):
        make(f"{my_world}:Yours")
    with pytest.raises(UnknownEnvironment, match="no world 'State'"):
        make(f"{my_world}:State")


def test_a_world_without_all_its_rules_is_told_which_are_missing(tmp_path):
    file = tmp_path / "half.py"
    file.write_text(
        "from slipstream import Env\n\n\nclass Half(Env):\n    def reset(self, rng):\n        return None\n"
    )
    with pytest.raises(ValueError, match="write its observe, step"):
        make_env(f"{file}:Half")
