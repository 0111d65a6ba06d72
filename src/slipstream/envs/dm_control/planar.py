"""Walker, cheetah and hopper: robots in a vertical plane."""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import drjit as dr
import mujoco
import numpy as np

from slipstream.envs.dm_control.starts import Sampled, any_angles, sample_angles, still
from slipstream.envs.dm_control.task import Task, Terms
from slipstream.envs.dm_control.tolerance import small_control, tolerance
from slipstream.envs.dm_control.view import View

SPEED = "torso_subtreelinvel"
"""The sensor of the velocity of the centre of mass."""


def fast(speed: Any, wanted: float, margin: float, value_at_margin: float) -> Any:
    """1 from the wanted speed on, linear below."""
    return tolerance(speed, (wanted, math.inf), margin, "linear", value_at_margin)


# The walker.

WALKER_HEIGHT = 1.2


def _see_walker(view: View) -> dict[str, list[Any]]:
    rotations = [view.rotation(b) for b in range(1, len(view.model.bodies))]
    return {
        "orientations": [x for r in rotations for x in (r[0][0], r[0][2])],
        "height": [view.place("torso")[2]],
        "velocity": list(view.qvel),
    }


def _walking(speed: float) -> Callable[[View], Terms]:
    def terms(view: View) -> Terms:
        height = view.place("torso")[2]
        paid = {
            "standing": tolerance(height, (WALKER_HEIGHT, math.inf), WALKER_HEIGHT / 2),
            "upright": 0.5 * (1.0 + view.upright("torso")),
        }
        return paid | ({"speed": fast(view.sensor(SPEED)[0], speed, speed / 2, 0.5)} if speed else {})

    return terms


def _walker_reward(terms: Sequence[Any]) -> Any:
    standing, upright, *speed = terms
    posture = 0.25 * (3.0 * standing + upright)
    return posture * (5.0 * speed[0] + 1.0) * (1.0 / 6.0) if speed else posture


def _walker(summary: str, speed: float) -> Task:
    return Task(summary, "walker.xml", 10, still(any_angles), _see_walker, _walking(speed), _walker_reward)


# The cheetah.

CHEETAH_SPEED = 10.0
SETTLING = 200
"""Physics steps before the first control step."""


def _settle(m: mujoco.MjModel, data: mujoco.MjData, draw: np.random.Generator) -> None:
    """Joints anywhere within their limits, then two seconds of rest."""
    limited = m.jnt_limited.astype(bool)
    data.qpos[limited] = draw.uniform(*m.jnt_range[limited].T)
    mujoco.mj_step(m, data, SETTLING)


def _see_cheetah(view: View) -> dict[str, list[Any]]:
    return {"position": list(view.qpos[1:]), "velocity": list(view.qvel)}


def _running(view: View) -> Terms:
    return {"speed": fast(view.sensor(SPEED)[0], CHEETAH_SPEED, CHEETAH_SPEED, 0.0)}


# The hopper.

HOPPER_HEIGHTS, HOP_SPEED = (0.6, 2.0), 2.0
FOOT = ("touch_toe", "touch_heel")


def _see_hopper(view: View) -> dict[str, list[Any]]:
    touch = [dr.log(1.0 + view.sensor(name)[0]) for name in FOOT]
    return {"position": list(view.qpos[1:]), "velocity": list(view.qvel), "touch": touch}


def _hopper_stands(view: View) -> Any:
    return tolerance(view.centre("torso")[2] - view.centre("foot")[2], HOPPER_HEIGHTS)


def _standing(view: View) -> Terms:
    return {"standing": _hopper_stands(view), "small_control": small_control(view.action)}


def _hopping(view: View) -> Terms:
    return {"standing": _hopper_stands(view), "speed": fast(view.sensor(SPEED)[0], HOP_SPEED, HOP_SPEED / 2, 0.5)}


def _hopper(summary: str, terms: Callable[[View], Terms]) -> Task:
    return Task(summary, "hopper.xml", 4, Sampled(sample_angles), _see_hopper, terms, sensors=FOOT)


TASKS = {
    "walker-stand": _walker("Two legs in a plane that stand.", 0.0),
    "walker-walk": _walker("Two legs in a plane that walk at 1 m/s.", 1.0),
    "walker-run": _walker("Two legs in a plane that run at 8 m/s.", 8.0),
    "cheetah-run": Task(
        "Half a cheetah that runs at 10 m/s.", "cheetah.xml", 1, Sampled(_settle, count=256), _see_cheetah, _running
    ),
    "hopper-stand": _hopper("A leg in a plane that stands.", _standing),
    "hopper-hop": _hopper("A leg in a plane that hops at 2 m/s.", _hopping),
}
