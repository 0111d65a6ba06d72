"""`name=value` arguments."""

from __future__ import annotations

import json
from typing import Any


def parse_assignments(what: str, texts: tuple[str, ...]) -> dict[str, Any]:
    """`("a=1", "b=fast")` as `{"a": 1, "b": "fast"}`: a value is JSON if it can be, else text."""
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError(f"{what} must look like name=value, got {text!r}.")
        try:
            values[name.replace("-", "_")] = json.loads(value)
        except ValueError:
            values[name.replace("-", "_")] = {"True": True, "False": False, "None": None}.get(value, value)
    return values
