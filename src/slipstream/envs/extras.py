"""Worlds that need packages which are not always installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from slipstream.names import OPTIONAL

TRADING = ("pandas", "pyarrow", "skfolio", "talib")
"""What trading needs."""


class ExtraMissing(ValueError):
    """A package that a world needs is not installed; the message names the command that installs it."""

    def __init__(self, package: str):
        who, extra = ("Trading needs", "trading") if package in TRADING else ("Robots need", "robots")
        if package == "dm_control":
            who, extra = "The control suite needs", "dm-control"
        super().__init__(f"{who} {package}: pip install slipstream-rl[{extra}]")


@contextmanager
def robots_extra() -> Iterator[None]:
    """Say how to install what a robot's module could not import."""
    with _explaining(OPTIONAL):
        yield


@contextmanager
def trading_extra() -> Iterator[None]:
    """Say how to install what trading could not import."""
    with _explaining(TRADING):
        yield


@contextmanager
def _explaining(packages: tuple[str, ...]) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in packages:
            raise
        raise ExtraMissing(error.name) from error


@contextmanager
def gymnasium_extra(what: str) -> Iterator[None]:
    """Say how to install what an adapter could not import."""
    extras = {"gymnasium": "gymnasium", "pettingzoo": "pettingzoo"}
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in extras:
            raise
        raise ValueError(f"{what} needs {error.name}: pip install slipstream-rl[{extras[error.name]}]") from error
