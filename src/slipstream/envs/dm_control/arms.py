"""Reacher, finger, ball-in-cup and point mass: hands that reach, turn, catch and push."""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from typing import Any

import drjit as dr
import mujoco
import numpy as np

from slipstream.envs.dm_control.models import Change, find
from slipstream.envs.dm_control.starts import Sampled, any_angles, sample_angles, still, untouched
from slipstream.envs.dm_control.task import Target, Task, Terms
from slipstream.envs.dm_control.tolerance import small_control, tolerance
from slipstream.envs.dm_control.view import View
from slipstream.envs.locomotion.robot import length
from slipstream.random import Rng

# The reacher.


def _in_ring(rng: Rng) -> tuple[Any, Any]:
    sin, cos = dr.sincos(rng.uniform(0.0, 2.0 * math.pi))
    radius = rng.uniform(0.05, 0.2)
    return radius * sin, radius * cos


def _to_target(view: View) -> list[Any]:
    return [t - f for t, f in zip(view.target, view.geom("finger")[:2])]


def _see_reacher(view: View) -> dict[str, list[Any]]:
    return {"position": list(view.qpos), "to_target": _to_target(view), "velocity": list(view.qvel)}


def _touching_target(view: View) -> Terms:
    reach = view.geom_size("target")[0] + view.geom_size("finger")[0]
    return {"at_target": tolerance(length(_to_target(view)), (0.0, reach))}


def _reacher(summary: str, size: float) -> Task:
    def change(root: ET.Element) -> None:
        find(root, "geom", "target").set("size", str(size))

    return Task(
        summary, "reacher.xml", 1, still(any_angles), _see_reacher, _touching_target,
        change=change, target=Target(_in_ring, "xy"), camera=(0.8, -75.0),
    )  # fmt: skip


# The finger.

SPIN_SPEED = 15.0
HINGE = (0.2, 0.4)
"""x and z of the axis that is turned."""
TARGET_RADIUS = 0.13
"""How far from it the target is: at the end of the spinner."""
FINGERTIP = ("touchtop", "touchbottom")


def _on_circle(rng: Rng) -> tuple[Any, Any]:
    sin, cos = dr.sincos(rng.uniform(-math.pi, math.pi))
    return HINGE[0] + TARGET_RADIUS * sin, HINGE[1] + TARGET_RADIUS * cos


def _tip(view: View) -> list[Any]:
    """From the hinge to the tip of the spinner, x and z."""
    (x, _, z), (hinge_x, _, hinge_z) = view.site("tip"), view.place("spinner")
    return [x - hinge_x, z - hinge_z]


def _finger_target(view: View) -> list[Any]:
    """From the hinge to the target."""
    return [t - h for t, h in zip(view.target, HINGE)]


def _off_target(view: View) -> Any:
    """How far the tip is from the surface of the target."""
    return length([t - p for t, p in zip(_finger_target(view), _tip(view))]) - view.site_size("target")[0]


def _see_finger(view: View) -> dict[str, list[Any]]:
    joints = ("proximal", "distal")
    return {
        "position": [*(view.position(j) for j in joints), *_tip(view)],
        "velocity": [view.velocity(j) for j in (*joints, "hinge")],
        "touch": [dr.log(1.0 + view.sensor(name)[0]) for name in FINGERTIP],
    }


def _see_finger_and_target(view: View) -> dict[str, list[Any]]:
    return {**_see_finger(view), "target_position": _finger_target(view), "dist_to_target": [_off_target(view)]}


def _spinning(view: View) -> Terms:
    return {"spinning": dr.select(view.velocity("hinge") <= -SPIN_SPEED, 1.0, 0.0)}


def _turned(view: View) -> Terms:
    return {"at_target": dr.select(_off_target(view) <= 0.0, 1.0, 0.0)}


def _easy_to_spin(root: ET.Element) -> None:
    find(root, "joint", "hinge").set("damping", ".03")


def _target_of_size(size: float) -> Change:
    def change(root: ET.Element) -> None:
        find(root, "site", "target").set("size", str(size))

    return change


def _finger(summary: str, observe: Callable, terms: Callable[[View], Terms], change: Change, **target: Any) -> Task:
    # Decorations at the axes are cylinders; what they could touch lies behind the capsules around them.
    return Task(
        summary, "finger.xml", 2, Sampled(untouched(sample_angles)), observe, terms,
        change=change, sensors=FINGERTIP, leave_out_pairs=True, camera=(1.2, -10.0), **target,
    )  # fmt: skip


# Ball in cup.


def _throw(m: mujoco.MjModel, data: mujoco.MjData, draw: np.random.Generator) -> None:
    for name, low, high in (("ball_x", -0.2, 0.2), ("ball_z", 0.2, 0.5)):
        data.qpos[m.joint(name).qposadr[0]] = draw.uniform(low, high)


def _see_ball(view: View) -> dict[str, list[Any]]:
    return {"position": list(view.qpos), "velocity": list(view.qvel)}


def _caught(view: View) -> Terms:
    (x, _, z), (ball_x, _, ball_z) = view.site("target"), view.place("ball")
    size, radius = view.site_size("target"), view.geom_size("ball")[0]
    inside = (dr.abs(x - ball_x) < size[0] - radius) & (dr.abs(z - ball_z) < size[2] - radius)
    return {"in_cup": dr.select(inside, 1.0, 0.0)}


# The point mass.

LEAST_TURN = math.acos(0.9)
"""The motors of the hard task pull in directions that differ by at least this angle, as lines."""


def _near_middle(view: View) -> Terms:
    apart = length([t - p for t, p in zip(view.geom("target"), view.geom("pointmass"))])
    size = view.geom_size("target")[0]
    return {"near_target": tolerance(apart, (0.0, size), size), "small_control": small_control(view.action)}


def _two_directions(rng: Rng) -> tuple[Any, ...]:
    """Unit vectors: one in any direction, one that is not too parallel to it."""
    first = rng.uniform(-math.pi, math.pi)
    turn = rng.uniform(LEAST_TURN, math.pi - LEAST_TURN)
    second = first + dr.select(rng.chance(0.5), turn, -turn)
    (sin1, cos1), (sin2, cos2) = dr.sincos(first), dr.sincos(second)
    return cos1, sin1, cos2, sin2


def _wired(action: Sequence[Any], gains: Sequence[Any]) -> tuple[Any, Any]:
    """Both motors along x and y, at half of what is asked: they are twice as strong, so that nothing is cut off."""
    (a, b), (x1, y1, x2, y2) = action, gains
    return 0.5 * (a * x1 + b * x2), 0.5 * (a * y1 + b * y2)


def _twice_as_strong(root: ET.Element) -> None:
    for motor in root.iter("motor"):
        if motor.get("gear"):
            motor.set("gear", str(2.0 * float(motor.get("gear", "1"))))


def _point_mass(summary: str, **differing: Any) -> Task:
    return Task(
        summary, "point_mass.xml", 1, still(any_angles), _see_ball, _near_middle, camera=(0.9, -80.0), **differing
    )


TASKS = {
    "reacher-easy": _reacher("A two-link arm that reaches for a target of 5 cm.", 0.05),
    "reacher-hard": _reacher("A two-link arm that reaches for a target of 1.5 cm.", 0.015),
    "finger-spin": _finger("A finger that keeps a body spinning.", _see_finger, _spinning, _easy_to_spin),
    "finger-turn-easy": _finger(
        "A finger that turns a body to a target of 7 cm.", _see_finger_and_target, _turned, _target_of_size(0.07),
        target=Target(_on_circle, "xz", "site"),
    ),
    "finger-turn-hard": _finger(
        "A finger that turns a body to a target of 3 cm.", _see_finger_and_target, _turned, _target_of_size(0.03),
        target=Target(_on_circle, "xz", "site"),
    ),
    "ball-in-cup-catch": Task(
        "Swing a ball on a string into a cup.", "ball_in_cup.xml", 10, Sampled(untouched(_throw)), _see_ball, _caught,
        camera=(1.5, -10.0),
    ),
    "point-mass-easy": _point_mass("Push a point mass to the middle."),
    "point-mass-hard": _point_mass(
        "Push a point mass to the middle with motors that pull in unknown directions.",
        change=_twice_as_strong, gains=_two_directions, drive=_wired,
    ),
}  # fmt: skip
