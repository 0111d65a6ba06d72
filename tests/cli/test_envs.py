"""`slipstream envs` can be read in a narrow terminal, and says what options mean."""

import json

import pytest

from slipstream.cli.envs import option_meanings
from slipstream.cli.main import OK, main
from slipstream.envs.registry import NAMES, env_class, env_options

WORLD = '''
from dataclasses import dataclass
from slipstream import Box, Discrete, Env, Group

@dataclass
class State:
    x: float

class Base(Env):
    groups = (Group("one", Box(1), Discrete(2)),)

    def __init__(self, *, pace: float = 2.0, colour: str = "[red]"):
        """Args:
        pace: how fast it goes,
            and for how long.
        colour: is overridden.
        """

    def reset(self, rng):
        return State(0.0)

    def step(self, state, action, rng):
        return state, 0.0, False

    def observe(self, state):
        return (state.x,)

class Plain(Base):
    """A world [of mine]."""

    def __init__(self, reach: tuple = (0.5, float("inf")), unexplained: int = 3, **base):
        """Something else.

        Args:
            reach: from where to where.
            colour: what it looks like.
        """
        super().__init__(**base)
'''


def shown(capsys, monkeypatch, columns: int, *arguments: str) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["envs", *arguments]) == OK
    return capsys.readouterr().out.splitlines()


def test_each_world_takes_two_lines_of_80_columns(capsys, monkeypatch):
    lines = shown(capsys, monkeypatch, 80)
    assert len(lines) == 2 * len(NAMES) + 2 and max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[0:-2:2]] == list(NAMES)
    assert all(line.startswith("  ") and line.endswith(".") for line in lines[1:-2:2])
    assert "10 taggers, 1 runner; 100 steps" in lines[2 * list(NAMES).index("tag-gridworld")]


@pytest.mark.parametrize("columns", [40, 60])
def test_a_narrower_terminal_only_wraps_what_is_explained(capsys, monkeypatch, columns):
    lines = shown(capsys, monkeypatch, columns)
    worlds = lines[: lines.index("")]
    assert [line.split()[0] for line in worlds if not line.startswith(" ")] == list(NAMES)
    wrapped = [line for line in worlds if line.startswith(" ")]
    assert max(map(len, wrapped)) <= columns and min(len(line) - len(line.lstrip()) for line in wrapped) == 2


def test_one_world_is_shown_with_defaults_and_meanings(capsys, monkeypatch, tmp_path):
    (tmp_path / "mine.py").write_text(WORLD)
    lines = shown(capsys, monkeypatch, 80, f"{tmp_path}/mine.py:Plain")
    assert lines[0].endswith("mine.py:Plain  1 one; no limit of steps") and lines[1] == "  A world [of mine]."
    assert lines[3] == "  one  sees Box(1), does Discrete(2)"
    assert lines[6:] == [
        "  reach = [0.5, inf]",
        "      from where to where.",
        "  unexplained = 3",
        "  pace = 2.0",
        "      how fast it goes, and for how long.",
        "  colour = [red]",
        "      what it looks like.",
    ]


def test_a_world_without_options_says_so(capsys, monkeypatch):
    assert shown(capsys, monkeypatch, 80, "cartpole")[-1] == "It has no options."


@pytest.mark.parametrize("name", NAMES)
def test_every_option_of_every_world_is_explained(name):
    unexplained = set(env_options(name)) - set(option_meanings(env_class(name)))
    assert unexplained == set()


def test_programs_get_defaults_and_meanings_as_strict_json(capsys):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    assert main(["envs", "humanoid", "--json"]) == OK
    (row,) = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert row["options"]["frame_skip"] == 5 and row["options"]["contact_cost_range"] == [None, 10.0]
    assert row["meanings"]["frame_skip"] == "physics steps per control step."
