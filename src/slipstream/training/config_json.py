"""Configurations to and from JSON, with errors that name the value and the way out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import cattrs
from cattrs.gen import make_dict_structure_fn

from slipstream.algos.settings import ALGORITHMS, Settings
from slipstream.envs.registry import nearest_names
from slipstream.training.config import DRIVERS, Driver, PolicyConfig, TrainConfig

Record = TypeVar("Record")

NAMES = {
    TrainConfig: "training setting",
    PolicyConfig: "policy setting",
    **{driver: f"setting of the {kind} driver" for kind, driver in DRIVERS.items()},
    **{entry.settings: f"{algo} setting" for algo, entry in ALGORITHMS.items()},
}
"""What the fields of a record are called in an error."""


def to_json(config: TrainConfig) -> dict[str, Any]:
    return dataclasses.asdict(config)


def from_json(data: Any) -> TrainConfig:
    """A configuration from what `to_json` returned (a `format` beside it is left out)."""
    if isinstance(data, Mapping):
        data = {name: value for name, value in data.items() if name != "format"}
    return _structured(data, TrainConfig)


def make_settings(algo: str, values: Mapping[str, Any], base: Settings | None = None) -> Settings:
    """Settings of an algorithm from plain values, checked for their names and types.

    Args:
        algo: name of the algorithm.
        values: what differs from `base`.
        base: where to start from; by default the algorithm's own defaults.
    """
    if algo not in ALGORITHMS:
        raise ValueError(f"Unknown algorithm {algo!r}: {nearest_names(algo, list(ALGORITHMS))}")
    kind = ALGORITHMS[algo].settings
    return changed(base if base is not None else kind(), values)


def changed(record: Any, values: Mapping[str, Any]) -> Any:
    """A configuration record with some fields from plain values, checked for their names and types."""
    return _structured({**dataclasses.asdict(record), **values}, type(record))


def field_names(record: type) -> list[str]:
    return [f.name for f in dataclasses.fields(record)]


def _structured(data: Any, kind: type[Record]) -> Record:
    try:
        return _converter.structure(data, kind)
    except (ValueError, KeyError, cattrs.BaseValidationError) as error:
        text = _explained(error)
        raise ValueError(f"A configuration {text}" if text.startswith("must") else text) from error


def _explained(error: Exception) -> str:
    """The first thing that is wrong, with the name of the field."""
    first = cattrs.transform_error(error, format_exception=lambda e, _: _text(e))[0]
    text, _, path = first.rpartition(" @ $")
    return f"{path.removeprefix('.')} {text}" if path and text.startswith(("must", "is missing")) else text


def _text(error: BaseException) -> str:
    return "is missing." if isinstance(error, KeyError) else str(error)


def _exactly(kind: type, words: str) -> Callable[[Any, Any], Any]:
    def check(value: Any, _: Any) -> Any:
        if type(value) is not kind:
            raise ValueError(f"must be {words}, got {value!r}.")
        return value

    return check


def _number(value: Any, _: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"must be a number, got {value!r}.")
    return float(value)


def _optional(value: Any, hint: Any) -> Any:
    kind = next(a for a in hint.__args__ if a is not type(None))
    return None if value is None else _converter.structure(value, kind)


def _list(value: Any, hint: Any) -> tuple:
    items = value if isinstance(value, list | tuple) else [value]
    kind = hint.__args__[0]
    if any(type(item) is not kind for item in items):
        raise ValueError(f"must be a list of {'whole numbers' if kind is int else 'names'}, got {value!r}.")
    return tuple(items)


def _by_name(value: Any, hint: Any) -> dict[str, Any]:
    kind = hint.__args__[1]
    if kind is Any:
        return dict(_object(value))
    made = {}
    for name, item in _object(value).items():
        try:
            made[name] = _converter.structure(item, kind)
        except (ValueError, KeyError, cattrs.BaseValidationError) as error:
            raise ValueError(f"Policy {name!r}: {_explained(error)}") from error
    return made


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"must be an object, got {value!r}.")
    return value


def _one_of(value: Any, hint: Any) -> Any:
    if value not in hint.__args__:
        raise ValueError(f"must be one of {', '.join(map(str, hint.__args__))}, got {value!r}.")
    return value


def _record(kind: type) -> Callable[[Any, Any], Any]:
    """How a configuration record is made: unknown names are refused with the nearest ones."""
    structure = make_dict_structure_fn(kind, _converter)
    known = field_names(kind)

    def make(value: Any, _: Any) -> Any:
        for name in _object(value):
            if name not in known:
                raise ValueError(f"Unknown {NAMES[kind]} {name!r}: {nearest_names(str(name), known)}")
        return structure(value, kind)

    return make


def _policy(value: Any, _: Any) -> PolicyConfig:
    """Settings are those of the policy's algorithm."""
    made = make_settings(_object(value).get("algo", "ppo"), _object(value.get("settings", {})))
    members = tuple(_policy(member, None) for member in value.get("members", ()))
    return _make_policy({**value, "settings": made, "members": members}, PolicyConfig)


def _driver(value: Any, _: Any) -> Driver:
    kind = value.get("kind", "fused") if isinstance(value, Mapping) else value
    if kind not in DRIVERS:
        raise ValueError(f"Unknown driver {kind!r}: {nearest_names(str(kind), list(DRIVERS))}")
    return _record(DRIVERS[kind])(value, None)


def _is_optional(hint: Any) -> bool:
    return type(None) in getattr(hint, "__args__", ()) and len(hint.__args__) == 2


_converter = cattrs.Converter()
_converter.register_structure_hook(int, _exactly(int, "a whole number"))
_converter.register_structure_hook(str, _exactly(str, "text"))
_converter.register_structure_hook(bool, _exactly(bool, "true or false"))
_converter.register_structure_hook(float, _number)
_converter.register_structure_hook_func(_is_optional, _optional)
_converter.register_structure_hook_func(lambda hint: getattr(hint, "__origin__", None) is tuple, _list)
_converter.register_structure_hook_func(lambda hint: getattr(hint, "__origin__", None) is Mapping, _by_name)
_converter.register_structure_hook_func(lambda hint: str(hint).startswith("typing.Literal"), _one_of)
_converter.register_structure_hook(Settings, lambda value, _: value)
_make_policy = _record(PolicyConfig)
_converter.register_structure_hook(PolicyConfig, _policy)
_converter.register_structure_hook_func(lambda hint: hint == Driver or hint in DRIVERS.values(), _driver)
# A record's own hook looks up those of its fields, so the outermost comes last.
for _kind in (*(entry.settings for entry in ALGORITHMS.values()), TrainConfig):
    _converter.register_structure_hook(_kind, _record(_kind))
