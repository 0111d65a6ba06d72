"""Models with numbers that are not finite, refused before anything is computed with them.

MuJoCo reads `nan` and `inf` where it reads numbers; some it replaces silently, the others make every state NaN. The
file is looked at first, because only there it can be told where such a number stands, and then what MuJoCo made of it.
"""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import mujoco
import numpy as np

from slipstream.physics.refusal import ModelError

WAY_OUT = "numbers must be finite (for something without bounds, use a large one)."

NAMES = re.compile(
    r"(name|class|childclass|model|file|joint|jointinparent|body|geom|site|refsite|cranksite|slidersite|tendon|actuator"
    r"|mesh|material|texture|hfield|flex|skin|sensor|target|objname|refname|key|plugin|instance)\d*"
)
"""Attributes that hold a name, which may well be `inf`."""

ELEMENTS = {"geom": "geom", "jnt": "joint", "dof": "joint", "actuator": "actuator", "tendon": "tendon", "body": "body"}
"""How the fields of a compiled model begin, and what MJCF calls these things."""

UNREAD = ("M0", "aabb", "acc0", "invweight0", "length", "length0", "rbound", "rgba", "subtreemass", "user")
"""What MuJoCo computes from other fields, and what the physics does not read."""


def refuse_non_finite_text(text: str | None, file: Path | None) -> None:
    """Raise a `ModelError` that names the first attribute with a number that is not finite.

    Args:
        text: a string of XML, or None.
        file: otherwise the file to read (and those it includes).
    """
    places = list(_in_file(file) if file is not None else _in_tree(_parsed(text or ""), "the XML"))
    if places:
        others = f" (and at {len(places) - 1} more places)" if len(places) > 1 else ""
        raise ModelError(f"{places[0]}{others}: {WAY_OUT}")


def _in_file(file: Path) -> Iterator[str]:
    try:
        tree = _parsed(file.read_text(errors="replace"))
    except OSError:
        return  # MuJoCo says what is wrong with it
    yield from _in_tree(tree, str(file))
    for include in tree.iter("include"):
        yield from _in_file(file.parent / include.get("file", ""))


def _parsed(text: str) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(text.strip())
    except ElementTree.ParseError:
        return ElementTree.Element("mujoco")  # MuJoCo says what is wrong with it


def _in_tree(tree: ElementTree.Element, source: str) -> Iterator[str]:
    for element in tree.iter():
        for attribute, value in element.items():
            if not NAMES.fullmatch(attribute) and _has_non_finite(value):
                name = f" name={element.get('name')!r}" if element.get("name") else ""
                yield f"{source}: <{element.tag}{name} {attribute}={value!r}>"


def _has_non_finite(value: str) -> bool:
    """Whether a text is a list of numbers of which one is not finite."""
    try:
        return not all(math.isfinite(float(word)) for word in value.split())
    except ValueError:
        return False


def refuse_non_finite_model(m: mujoco.MjModel, source: str) -> None:
    """Raise a `ModelError` that names the first field of a compiled model with a number that is not finite.

    Args:
        m: the model.
        source: where it comes from.
    """
    for where in _in_model(m):
        raise ModelError(f"{source}: {where}: {WAY_OUT}")


def _in_model(m: mujoco.MjModel) -> Iterator[str]:
    for name in ("timestep", "gravity", "wind", "density", "viscosity", "impratio"):
        if not np.isfinite(getattr(m.opt, name)).all():
            yield f"<option {name}>"
    for prefix, element in ELEMENTS.items():
        for field, values in _numbers(m, prefix):
            for i in np.flatnonzero(~np.isfinite(values).all(axis=1)).tolist():
                number = int(m.dof_jntid[i]) if prefix == "dof" else i
                yield f"<{element} name={getattr(m, element)(number).name or f'#{number}'!r} {field}>"
    for name in ("qpos0", "qpos_spring", "hfield_size", "hfield_data", "pair_friction", "pair_solref", "pair_solimp"):
        if not np.isfinite(getattr(m, name)).all():
            yield name


def _numbers(m: mujoco.MjModel, prefix: str) -> Iterator[tuple[str, np.ndarray]]:
    """The fields of a kind of element, and their numbers: `[elements, numbers of each]`."""
    for name in dir(m):
        field = name.removeprefix(f"{prefix}_")
        if field != name and field not in UNREAD:
            values = np.asarray(getattr(m, name))
            if values.dtype.kind == "f" and values.size:
                yield field, values.reshape(len(values), -1)
