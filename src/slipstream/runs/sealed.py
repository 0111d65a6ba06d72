"""JSON files that notice any damage to themselves, down to a single bit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

SEAL = "checksum"


def seal(content: Mapping[str, Any]) -> bytes:
    """The text of a file that holds `content` and a checksum of it."""
    checksum = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return (json.dumps({**content, SEAL: checksum}, indent=2) + "\n").encode()


def unseal(data: bytes) -> dict[str, Any]:
    """The content of a sealed file.

    Raises:
        ValueError: if this is not, byte for byte, what `seal` made.
    """
    content = json.loads(data)
    if not isinstance(content, dict) or SEAL not in content:
        raise ValueError(f"it has no {SEAL}")
    del content[SEAL]
    # Sealed anew and compared as a whole: spaces and spellings that mean the same do not pass either.
    if seal(content) != data:
        raise ValueError(f"its {SEAL} does not match")
    return content
