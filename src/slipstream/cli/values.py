"""`name=value` arguments, and what commands print."""

from __future__ import annotations

import json
import math
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from slipstream.envs.options import value_of


def parse_assignments(what: str, texts: tuple[str, ...]) -> dict[str, Any]:
    """`("a=1", "b=fast")` as `{"a": 1, "b": "fast"}`: a value is JSON if it can be, else text.

    Options and settings may be written with dashes; what comes before a dot is the name of a policy, and stays.
    """
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError(f"{what} must look like name=value, got {text!r}.")
        owner, dot, setting = name.rpartition(".")
        values[owner + dot + setting.replace("-", "_")] = value_of(value)
    return values


def parse_pairs(what: str, texts: tuple[str, ...]) -> dict[str, str]:
    """`("a=b", "c=d")` as `{"a": "b", "c": "d"}`, with names and values as they are."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (equals and name and value):
            raise ValueError(f"{what} must look like name=value, got {text!r}.")
        pairs[name] = value
    return pairs


def strict_json(value: Any) -> str:
    """JSON for other programs: what is not finite becomes null, because JSON has no NaN."""

    def plain(v: Any) -> Any:
        if isinstance(v, dict):
            return {k: plain(x) for k, x in v.items()}
        if isinstance(v, list | tuple):
            return [plain(x) for x in v]
        return None if isinstance(v, float) and not math.isfinite(v) else v

    return json.dumps(plain(value), indent=2, allow_nan=False)


def warn(text: str) -> None:
    print(f"Warning: {text}", file=sys.stderr)


def progress_bar() -> tuple[Any, AbstractContextManager]:
    """A bar for each part of the work, and the context that shows it: on a terminal only, and gone when all is done."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    progress = Progress(console=console, transient=True, disable=not console.is_terminal)
    return progress, progress if console.is_terminal else nullcontext()
