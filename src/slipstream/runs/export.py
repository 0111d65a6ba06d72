"""A folder to share policies in, laid out as model hubs expect it: weights, configuration and a model card.

`config.json` says what there is, `model.safetensors` has the weights, `README.md` is the card; other forms of the
policies lie beside them. There are no pickles, and reading it runs no code.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.runs.array_file import Seen, check_file, read_arrays, write_arrays
from slipstream.runs.directory import CONFIG, RunError, writing

LIBRARY = "slipstream"
FORMAT = 1
"""Version of the layout."""
WEIGHTS, CARD = "model.safetensors", "README.md"


def is_shared_folder(path: str | Path) -> bool:
    """Whether a folder is one of these (and not a run, whose configuration has another form)."""
    try:
        return json.loads((Path(path) / CONFIG).read_text()).get("library_name") == LIBRARY
    except (OSError, ValueError, AttributeError):
        return False


def write_shared_folder(
    path: Path,
    config: Mapping[str, Any],
    weights: Mapping[str, np.ndarray],
    card: str,
    others: Mapping[str, str | bytes],
) -> list[Path]:
    """Write a folder, as a whole or not at all. One that was written before is replaced; anything else is left alone.

    Args:
        path: the folder.
        config: what there is.
        weights: by name.
        card: the model card, in Markdown.
        others: contents of further files, by name.

    Returns:
        The files in it.
    """
    if path.exists() and not is_shared_folder(path) and (not path.is_dir() or any(path.iterdir())):
        raise RunError(f"{path} is there already and was not written by `slipstream export`: choose another --out.")
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with writing(path):
        try:
            temporary.mkdir(parents=True)
            seen = write_arrays(temporary / WEIGHTS, weights)
            whole = {"library_name": LIBRARY, "format": FORMAT, **config, "weights": vars(seen)}
            (temporary / CONFIG).write_text(json.dumps(whole, indent=2) + "\n")
            (temporary / CARD).write_text(card)
            for name, content in others.items():
                (temporary / name).write_bytes(content.encode() if isinstance(content, str) else content)
            if path.exists():
                shutil.rmtree(path)
            temporary.rename(path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return sorted(path.iterdir())


def read_shared_folder(path: str | Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The configuration and the weights of a folder, checked for damage."""
    folder = Path(path)
    config = json.loads((folder / CONFIG).read_text())
    if config.get("format") != FORMAT:
        raise RunError(
            f"{folder} has format {config.get('format')!r}, and this version of Slipstream reads {FORMAT}: upgrade it."
        )
    try:
        with (folder / WEIGHTS).open("rb") as file:
            check_file(file, Seen(**config["weights"]))
            return config, read_arrays(file)
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RunError(f"{folder / WEIGHTS} is damaged: {reason}.") from error
