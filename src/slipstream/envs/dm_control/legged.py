"""Humanoid and quadruped."""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import drjit as dr
import mujoco
import numpy as np

from slipstream.envs.dm_control.models import find, remove
from slipstream.envs.dm_control.planar import SPEED, fast
from slipstream.envs.dm_control.starts import Sampled, sample_angles, untouched
from slipstream.envs.dm_control.task import Task, Terms
from slipstream.envs.dm_control.tolerance import small_control, tolerance
from slipstream.envs.dm_control.view import View
from slipstream.envs.locomotion.robot import length

# The humanoid.

HUMANOID_HEIGHT = 1.4
"""Of the head."""


def _see_humanoid(view: View) -> dict[str, list[Any]]:
    limbs = [f"{side}_{limb}" for side in ("left", "right") for limb in ("hand", "foot")]
    return {
        "joint_angles": list(view.qpos[7:]),
        "head_height": [view.place("head")[2]],
        "extremities": [x for limb in limbs for x in view.from_body("torso", view.place(limb))],
        "torso_vertical": list(view.rotation("torso")[2]),
        "com_velocity": list(view.sensor(SPEED)),
        "velocity": list(view.qvel),
    }


def _humanoid_terms(speed: float) -> Callable[[View], Terms]:
    def terms(view: View) -> Terms:
        velocity = view.sensor(SPEED)[:2]
        if speed:
            move = {"speed": (5.0 * fast(length(velocity), speed, speed, 0.0) + 1.0) * (1.0 / 6.0)}
        else:
            move = {"still": 0.5 * sum(tolerance(v, margin=2.0) for v in velocity)}
        return {
            "small_control": small_control(view.action),
            "standing": tolerance(view.place("head")[2], (HUMANOID_HEIGHT, math.inf), HUMANOID_HEIGHT / 4),
            "upright": tolerance(view.upright("torso"), (0.9, math.inf), 1.9, "linear", 0.0),
            **move,
        }

    return terms


def _humanoid(summary: str, speed: float) -> Task:
    start = Sampled(untouched(sample_angles))
    return Task(summary, "humanoid.xml", 5, start, _see_humanoid, _humanoid_terms(speed))


# The quadruped.

TIME = 20.0
"""Seconds of an episode: so far, times its speed, the floor goes."""
LIFT, HIGHEST = 0.01, 256
"""It is lifted by so many metres at a time, so often at most."""
TOES = ("toe_front_left", "toe_front_right", "toe_back_right", "toe_back_left")
TOE_SENSORS = tuple(f"{kind}_{toe}" for kind in ("force", "torque") for toe in TOES)


def _drop(m: mujoco.MjModel, data: mujoco.MjData, draw: np.random.Generator) -> None:
    """In any direction, as low as it can be without touching, to the centimetre."""
    quat = draw.standard_normal(4)
    data.qpos[:2], data.qpos[3:7] = 0.0, quat / np.linalg.norm(quat)
    touching, free = -1, HIGHEST
    while free - touching > 1:
        middle = (touching + free) // 2
        data.qpos[2] = LIFT * middle
        mujoco.mj_fwdPosition(m, data)
        touching, free = (middle, free) if data.ncon else (touching, middle)
    data.qpos[2] = LIFT * free


def _see_quadruped(view: View) -> dict[str, list[Any]]:
    hinges = [joint for joint in view.model.joints if joint.kind == "hinge"]
    own = [view.qpos[joint.qpos] for joint in hinges], [view.qvel[joint.dof] for joint in hinges]
    return {
        "egocentric_state": [*own[0], *own[1], *view.act],
        "torso_velocity": list(view.sensor("velocimeter")),
        "torso_upright": [view.upright("torso")],
        "imu": [*view.sensor("imu_accel"), *view.sensor("imu_gyro")],
        "force_torque": [_arcsinh(x) for name in TOE_SENSORS for x in view.sensor(name)],
    }


def _arcsinh(x: Any) -> Any:
    size = dr.abs(x)
    return dr.select(x < 0.0, -1.0, 1.0) * dr.log(size + dr.sqrt(size * size + 1.0))


def _quadruped(summary: str, speed: float) -> Task:
    def change(root: ET.Element) -> None:
        """Without what other tasks have."""
        remove(root, "geom", "terrain", "wall_px", "wall_py", "wall_nx", "wall_ny")
        remove(root, "body", "ball")
        remove(root, "site", "target")
        remove(root, "rangefinder")
        find(root, "geom", "floor").set("size", f"{TIME * speed} {TIME * speed} .5")

    def terms(view: View) -> Terms:
        forward = view.sensor("velocimeter")[0]
        return {
            "upright": tolerance(view.upright("torso"), (1.0, math.inf), 2.0, "linear", 0.0),
            "speed": fast(forward, speed, speed, 0.5),
        }

    return Task(
        summary, "quadruped.xml", 4, Sampled(_drop), _see_quadruped, terms,
        change=change, sensors=("imu_accel", *TOE_SENSORS), leave_out_pairs=True,
    )  # fmt: skip


TASKS = {
    "humanoid-stand": _humanoid("A humanoid that stands up.", 0.0),
    "humanoid-walk": _humanoid("A humanoid that walks at 1 m/s.", 1.0),
    "humanoid-run": _humanoid("A humanoid that runs at 10 m/s.", 10.0),
    "quadruped-walk": _quadruped("Four legs that walk at 0.5 m/s.", 0.5),
    "quadruped-run": _quadruped("Four legs that run at 5 m/s.", 5.0),
}
