"""`slipstream check` on the command line."""

import json

import pytest

from slipstream.cli.main import main

BROKEN = """
from slipstream.envs.classic.cartpole import CartPole
class Broken(CartPole):
    def observe(self, state):
        return (state.x,)
"""


def test_a_sound_world_gives_exit_code_0_and_a_line_for_each_test(capsys):
    assert main(["check", "cartpole", "--worlds", "3", "--steps", "5"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("pass") >= 8 and "cartpole passes all 9 tests" in shown


def test_a_broken_world_gives_exit_code_1_and_a_table(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    path = tmp_path / "mine.py"
    path.write_text(BROKEN)
    assert main(["check", f"{path}:Broken", "--worlds", "3", "--steps", "5"]) == 1
    shown = capsys.readouterr().out
    for word in ("FAIL", "world", "step", "field", "expected", "got", "1 features for group 'cart'"):
        assert word in shown


def test_json_is_for_programs(capsys):
    sizes = ["--worlds", "2", "--steps", "3", "--option", "num_taggers=2", "--option", "grid_length=4"]
    assert main(["check", "tag-gridworld", "--json", *sizes]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["passed"] and result["env"] == "tag-gridworld"
    assert {"name", "passed", "problems", "note"} <= set(result["results"][0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cartpol"], "'cartpole'"),
        (["cartpole", "--steps", "0"], "at least 2, got 0"),
        (["tag-gridworld", "--option", "num_tagers=2"], "'num_taggers'"),
        (["tag-gridworld", "--option", "num_taggers"], "name=value"),
    ],
)
def test_what_cannot_be_checked_gives_exit_code_2_and_one_error(capsys, arguments, message):
    assert main(["check", *arguments]) == 2
    assert message in capsys.readouterr().err.replace("\n", " ")
