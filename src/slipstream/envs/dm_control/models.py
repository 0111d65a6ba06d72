"""The suite's models, from wherever dm_control is installed. It is read, never imported."""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import copy
import importlib.util
import xml.etree.ElementTree as ET
from collections.abc import Callable
from functools import cache
from pathlib import Path

import mujoco

from slipstream.envs.extras import ExtraMissing
from slipstream.envs.locomotion.robot import without_mujoco_warnings

Change = Callable[[ET.Element], None]
"""What a task changes in a file before it is compiled."""


def suite_folder() -> Path:
    """Where the installed dm_control keeps its models."""
    spec = importlib.util.find_spec("dm_control")
    if spec is None or not spec.submodule_search_locations:
        raise ExtraMissing("dm_control")
    return Path(next(iter(spec.submodule_search_locations))) / "suite"


def compile_model(file: Path, change: Change | None = None) -> mujoco.MjModel:
    """A model of the suite, the caller's own."""
    return copy.copy(_compile(file, change))


@cache  # most of the time goes into the sky
def _compile(file: Path, change: Change | None) -> mujoco.MjModel:
    # What MuJoCo deprecates in these files is nothing a user could mend, and not told.
    with without_mujoco_warnings():
        if change is None:
            return mujoco.MjModel.from_xml_path(str(file))
        root = ET.parse(file).getroot()
        change(root)
        shared = {f"./common/{path.name}": path.read_bytes() for path in (file.parent / "common").glob("*.xml")}
        return mujoco.MjModel.from_xml_string(ET.tostring(root, encoding="unicode"), shared)


def find(root: ET.Element, tag: str, name: str) -> ET.Element:
    """An element by its name."""
    return next(element for element in root.iter(tag) if element.get("name") == name)


def remove(root: ET.Element, tag: str, *names: str) -> None:
    """Take elements out, by their names (or all of a kind)."""
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag == tag and (not names or child.get("name") in names):
                parent.remove(child)


def segments(count: int) -> Change:
    """A swimmer of so many links, of which the file has the first."""

    def change(root: ET.Element) -> None:
        parent = find(root, "body", "head")
        actuator, sensor = ET.SubElement(root, "actuator"), ET.SubElement(root, "sensor")
        limit = 360.0 / count
        for k in range(count - 1):
            parent = ET.SubElement(parent, "body", name=f"segment_{k}", pos="0 .1 0")
            for kind in ("visual", "inertial"):
                ET.SubElement(parent, "geom", {"class": kind, "name": f"{kind}_{k}"})
            ET.SubElement(parent, "site", name=f"site_{k}")
            ET.SubElement(parent, "joint", name=f"joint_{k}", range=f"{-limit} {limit}")
            ET.SubElement(actuator, "motor", name=f"motor_{k}", joint=f"joint_{k}")
            for kind in ("velocimeter", "gyro"):
                ET.SubElement(sensor, kind, name=f"{kind}_{k}", site=f"site_{k}")

    return change
