"""`name=value` arguments."""

import json

import pytest

from slipstream.cli.values import parse_assignments, parse_pairs, strict_json


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n=3", {"n": 3}),
        ("rate=1e-3", {"rate": 1e-3}),
        ("flag=true", {"flag": True}),
        ("flag=False", {"flag": False}),
        ("limit=None", {"limit": None}),
        ("limit=null", {"limit": None}),
        ("hidden=[64, 32]", {"hidden": [64, 32]}),
        ("activation=relu", {"activation": "relu"}),
        ("num-taggers=5", {"num_taggers": 5}),
        ("my-policy.learning-rate=1", {"my-policy.learning_rate": 1}),
        ("path=a=b", {"path": "a=b"}),
        ("empty=", {"empty": ""}),
    ],
)
def test_a_value_is_json_if_it_can_be_and_else_text(text, expected):
    assert parse_assignments("--set", (text,)) == expected


@pytest.mark.parametrize("parse", [parse_assignments, parse_pairs])
@pytest.mark.parametrize("text", ["rate", "=3", ""])
def test_what_is_no_assignment_is_named(parse, text):
    with pytest.raises(ValueError, match=f"--set must look like name=value, got '{text}'"):
        parse("--set", (text,))


def test_the_last_of_several_values_counts():
    assert parse_assignments("--set", ("a=1", "b=2", "a=3")) == {"a": 3, "b": 2}


def test_pairs_keep_names_and_values_as_they_are():
    assert parse_pairs("--load", ("my-policy=runs/1", "b=007")) == {"my-policy": "runs/1", "b": "007"}


def test_json_for_programs_has_no_nan():
    text = strict_json({"a": [1.5, float("nan")], "b": {"c": float("-inf")}, "d": (1, None, "x")})
    assert json.loads(text) == {"a": [1.5, None], "b": {"c": None}, "d": [1, None, "x"]}
    assert "NaN" not in text and "Infinity" not in text
