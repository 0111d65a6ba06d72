"""The options of a world: the parameters of its `__init__`, and whether values fit them."""

from __future__ import annotations

import inspect
import json
import numbers
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from slipstream.envs.env import Env


def value_of(text: str) -> Any:
    """A value as a user writes it: JSON if it can be, Python's names for nothing and for flags, else text."""
    try:
        return json.loads(text)
    except ValueError:
        return {"True": True, "False": False, "None": None}.get(text, text)


def options_of(env_class: type[Env]) -> dict[str, inspect.Parameter]:
    """By name. If `__init__` takes `**others`, they are the keyword-only ones of the class it derives from."""
    options: dict[str, inspect.Parameter] = {}
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    for init in _inits(env_class):
        parameters = list(inspect.signature(init).parameters.values())[1:]
        options |= {p.name: p for p in parameters if p.kind in kinds and p.name not in options}
        if all(p.kind is not p.VAR_KEYWORD for p in parameters):
            break
        kinds = (inspect.Parameter.KEYWORD_ONLY,)
    return options


def check_options(name: str, env_class: type[Env], values: Mapping[str, Any]) -> None:
    """Refuse values that are not of the kind that `__init__` says of its parameters."""
    hints: dict[str, Any] = {}
    for init in _inits(env_class):
        try:
            hints = typing.get_type_hints(init) | hints
        except (NameError, TypeError):  # a user's annotation that means nothing here
            continue
    for option, value in values.items():
        expected = hints.get(option, Any)
        if not _fits(value, expected):
            kind = " or ".join(_describe(kind) for kind in _members(expected))
            raise ValueError(f"Option {option} of {name} must be {kind}, got {value!r}.")


def _inits(env_class: type[Env]) -> Iterator[Any]:
    for base in env_class.__mro__:
        if base is not object and "__init__" in vars(base):
            yield vars(base)["__init__"]


def _members(expected: Any) -> tuple[Any, ...]:
    union = isinstance(expected, types.UnionType) or typing.get_origin(expected) is typing.Union
    return typing.get_args(expected) if union else (expected,)


def _fits(value: Any, expected: Any) -> bool:
    """Whether a value is of a kind; of kinds that are not plain ones, anything is."""
    for kind in _members(expected):
        if kind is bool:
            fits = isinstance(value, bool)
        elif kind is int:
            fits = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        elif kind is float:
            fits = isinstance(value, numbers.Real) and not isinstance(value, bool)
        elif kind is str or kind is type(None):
            fits = isinstance(value, kind)
        elif typing.get_origin(kind) is typing.Literal:
            fits = value in typing.get_args(kind)
        else:
            fits = True
        if fits:
            return True
    return False


def _describe(kind: Any) -> str:
    if typing.get_origin(kind) is typing.Literal:
        return " or ".join(map(repr, typing.get_args(kind)))
    named = {int: "a whole number", float: "a number", bool: "True or False", str: "a text", type(None): "None"}
    return named.get(kind, str(kind))
