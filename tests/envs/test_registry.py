"""Names of worlds, and what is said about wrong ones."""

import subprocess
import sys
from typing import Literal

import numpy as np
import pytest
import small_worlds
from small_worlds import Drift

from slipstream.envs import make
from slipstream.envs.check import check
from slipstream.envs.classic.cartpole import CartPole
from slipstream.envs.registry import (
    NAMES,
    UnknownEnvironment,
    env_class,
    env_name,
    env_options,
    make_env,
    module_in_file,
)

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


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n.startswith("dm-") else []) for n in NAMES]
)
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


# Classes and instances.


class Sized(Drift):
    """With options of every kind."""

    def __init__(
        self,
        size: int = 3,
        scale: float = 1.0,
        wild: bool = False,
        limit: int | None = None,
        kind: Literal["a", "b"] = "a",
        extra: dict | None = None,
    ):
        if size < 1:
            raise ValueError(f"size must be positive, got {size}.")
        self.size = size
        1 / scale
        self.max_steps = limit or 10


def test_worlds_are_made_of_a_class_or_of_a_world(my_world):
    assert make(Sized, 2, size=5).env.size == 5
    made = Sized(size=7)
    assert make(made, 2).env.size == make_env(made).size == 7
    assert [p for r in check(Sized, num_worlds=3, num_steps=5, size=2) for p in r.problems] == []
    assert all(r.passed for r in check(made, num_worlds=3, num_steps=5))
    assert list(env_options(made)) == list(env_options(Sized)) == ["size", "scale", "wild", "limit", "kind", "extra"]


def test_a_world_that_is_made_takes_no_options_and_is_not_shared():
    made = Sized()
    with pytest.raises(ValueError, match=r"test_registry\.py:Sized is made already: give size where it is made"):
        make(made, 2, size=3)
    first, second = make(made, 2), make(made, 2)
    assert first.env is not second.env and first.env is not made


@pytest.mark.parametrize("wrong", [3, None, dict, Drift.reset])
def test_what_is_no_world_is_refused(wrong):
    with pytest.raises(UnknownEnvironment, match=r"A world is a name, a subclass of Env or an instance of one .* not"):
        make(wrong)


def test_names_lead_back_to_their_worlds(my_world, monkeypatch):
    for name in NAMES:
        assert env_name(name) == env_name(env_class(name)) == name
    assert env_name(CartPole()) == "cartpole"
    assert env_class(env_name(Drift)).__name__ == "Drift"
    assert env_name(Drift) == env_name(Drift()) and env_name(Drift).endswith("small_worlds.py:Drift")
    monkeypatch.chdir(my_world.parent)
    mine = env_class(f"{my_world}:Mine")
    assert env_name(mine) == env_name("my_world.py:Mine") == "my_world.py:Mine"
    assert env_class(env_name(mine))(scale=2.0).scale == 2.0


def test_a_class_that_is_in_no_file_has_a_name_to_read_and_a_way_out():
    class Local(Drift):
        """In a function."""

    assert env_name(Local) == env_name(Local()) == "<interactive>:Local"
    assert make(Local, 2).num_worlds == 2
    with pytest.raises(UnknownEnvironment, match=r"Local was defined interactively .* pass the class itself"):
        make("<interactive>:Local")


def test_a_class_of_a_notebook_has_no_file():
    source = (
        "from slipstream.envs.classic.cartpole import CartPole\n"
        "from slipstream.envs.registry import env_name, make\n"
        "class Cell(CartPole):\n    'In a cell.'\n"
        "print(env_name(Cell), make(Cell, 2).num_worlds)"
    )
    finished = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert finished.stdout.split() == ["<interactive>:Cell", "2"]


def test_files_of_the_same_name_are_different_modules(tmp_path):
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "world.py").write_text(SOURCE.replace("A world of my own", f"World {folder}"))
    classes = [env_class(f"{tmp_path / folder}/world.py:Mine") for folder in "ab"]
    assert [c.__doc__ for c in classes] == ["World a.", "World b."]
    assert [env_name(c) for c in classes] == [f"{tmp_path / folder}/world.py:Mine" for folder in "ab"]


# What goes wrong while a world is made.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": "many"}, r"Option size of .*:Sized must be a whole number, got 'many'"),
        ({"size": 2.5}, "must be a whole number, got 2.5"),
        ({"size": True}, "must be a whole number, got True"),
        ({"scale": "x"}, "Option scale .* must be a number, got 'x'"),
        ({"wild": 1}, "Option wild .* must be True or False, got 1"),
        ({"limit": 1.5}, "Option limit .* must be a whole number or None, got 1.5"),
        ({"kind": "c"}, "Option kind .* must be 'a' or 'b', got 'c'"),
        ({"size": 0}, r":Sized cannot be made: size must be positive, got 0\."),
        ({"scale": 0.0}, r":Sized cannot be made: ZeroDivisionError: "),
    ],
)
def test_an_option_that_does_not_fit_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        make(Sized, 2, **options)


def test_options_that_fit_are_taken():
    for options in ({"size": np.int64(4)}, {"scale": 2}, {"limit": None}, {"limit": 4}, {"kind": "b"}, {"extra": {}}):
        make_env(Sized, **options)


@pytest.mark.parametrize(("name", "option"), [("tag-continuous", "num_runners"), ("tag-gridworld", "num_taggers")])
def test_our_own_worlds_name_options_of_the_wrong_kind(name, option):
    with pytest.raises(ValueError, match=f"Option {option} of {name} must be a whole number, got 'many'"):
        make(name, 2, **{option: "many"})


@pytest.mark.parametrize("seed", [1.5, "a", True, None])
def test_seeds_are_whole_numbers(seed):
    with pytest.raises(ValueError, match=f"The seed must be a whole number, got {seed!r}"):
        make("cartpole", 2, seed)
    if seed is not None:
        with pytest.raises(ValueError, match="The seed must be a whole number"):
            make("cartpole", 2).reset(seed)


def test_large_negative_and_numpys_seeds_are_fine():
    for seed in (2**63, -1, np.uint32(7)):
        assert make("cartpole", 2, seed).seed == int(seed)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import nothing_of_the_kind", r"broken\.py cannot be imported: ModuleNotFoundError"),
        ("x = (", r"broken\.py cannot be imported: SyntaxError"),
        ("1 / 0", r"broken\.py cannot be imported: ZeroDivisionError: division by zero"),
    ],
)
def test_a_file_that_cannot_be_imported_says_why(source, message, tmp_path):
    file = tmp_path / "broken.py"
    file.write_text(source)
    with pytest.raises(ValueError, match=message):
        make(f"{file}:Mine")


def test_a_file_is_a_module_of_its_own():
    module = module_in_file(small_worlds.__file__)
    assert module is not small_worlds and module.Drift.__name__ == "Drift"
