"""Worlds that need packages which are not always installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from slipstream.names import OPTIONAL


class ExtraMissing(ValueError):
    """A package that a world needs is not installed; the message names the command that installs it."""

    def __init__(self, package: str):
        super().__init__(f"Robots need {package}: pip install slipstream-rl[robots]")


@contextmanager
def robots_extra() -> Iterator[None]:
    """Say how to install what a robot's module could not import."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in OPTIONAL:
            raise
        raise ExtraMissing(error.name) from error
