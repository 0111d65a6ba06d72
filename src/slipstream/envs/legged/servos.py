"""Reading the robot's file, so that it stands on something and takes joint angles as its actions."""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from slipstream.physics import ModelError
from slipstream.physics.loading import read_mujoco

engine: Any = mujoco  # its own description leaves some functions out

REACH = 0.4
"""By default a servo gives all its torque when it is so many radians off."""
DAMPING = 1.0 / 40.0
"""Of a servo by default, in seconds: its stiffness times this."""


def with_ground(path: Path) -> Any:
    """MuJoCo's description of a robot, on a floor of its own if the file has none."""
    read_mujoco(str(path))  # which says what is wrong with a file, if anything is
    spec = engine.MjSpec.from_file(str(path))
    floor = floor_of(spec)
    if floor is not None and floor.type == engine.mjtGeom.mjGEOM_HFIELD:
        raise ModelError("Legged robots learn on a plane, or on ground of our own (ground=rough): remove the hfield.")
    if floor is None:
        spec.worldbody.add_geom(
            name="ground of slipstream",
            type=engine.mjtGeom.mjGEOM_PLANE,
            size=[0.0, 0.0, 0.1],
            rgba=[0.8, 0.82, 0.84, 1.0],
        )
        spec.worldbody.add_light(pos=[0.0, 0.0, 4.0], dir=[0.0, 0.0, -1.0])
    return spec


def floor_of(spec: Any) -> Any:
    """The geom that is the ground, if there is one."""
    grounds = (engine.mjtGeom.mjGEOM_PLANE, engine.mjtGeom.mjGEOM_HFIELD)
    return next((geom for geom in spec.worldbody.geoms if geom.type in grounds), None)


def add_servos(m: Any, stiffness: float | None, damping: float | None) -> list[str]:
    """Turn motors that are told a torque into servos that are told an angle; others stay what they are.

    Args:
        m: MuJoCo's model, which is changed.
        stiffness: of all servos, in Nm/rad; None: that of the file's own, and of motors their whole torque for `REACH`.
        damping: in Nms/rad; None: that of the file's own, and of motors a fortieth of a second of stiffness.

    Returns:
        The names of those that were motors.
    """
    changed = []
    for i in range(m.nu):
        if _is_motor(m, i):
            changed.append(_name(m, i))
            _to_servo(m, i, stiffness, damping)
        elif _is_servo(m, i):
            kp = m.actuator_gainprm[i, 0] if stiffness is None else stiffness
            kd = -m.actuator_biasprm[i, 2] if damping is None else damping
            m.actuator_gainprm[i, 0], m.actuator_biasprm[i, 1], m.actuator_biasprm[i, 2] = kp, -kp, -kd
        else:
            raise ModelError(
                f"Actuator {_name(m, i)} is neither a <motor> nor a <position> servo: legged robots are told "
                "joint angles."
            )
    return changed


def _name(m: Any, i: int) -> str:
    return repr(m.actuator(i).name) if m.actuator(i).name else f"number {i}"


def _is_motor(m: Any, i: int) -> bool:
    """Whether an actuator's force is proportional to what it is told."""
    fixed = m.actuator_gaintype[i] == engine.mjtGain.mjGAIN_FIXED
    return bool(fixed and m.actuator_biastype[i] == engine.mjtBias.mjBIAS_NONE and m.actuator_gainprm[i, 0] > 0)


def _is_servo(m: Any, i: int) -> bool:
    """Whether an actuator's force is proportional to how far its joint is from what it is told."""
    fixed = m.actuator_gaintype[i] == engine.mjtGain.mjGAIN_FIXED
    affine = m.actuator_biastype[i] == engine.mjtBias.mjBIAS_AFFINE
    opposed = np.isclose(m.actuator_biasprm[i, 1], -m.actuator_gainprm[i, 0])
    return bool(fixed and affine and opposed and m.actuator_gainprm[i, 0] > 0)


def _to_servo(m: Any, i: int, stiffness: float | None, damping: float | None) -> None:
    joint, gear = int(m.actuator_trnid[i, 0]), abs(float(m.actuator_gear[i, 0]))
    if m.actuator_trntype[i] != engine.mjtTrn.mjTRN_JOINT or m.actuator_dyntype[i] != engine.mjtDyn.mjDYN_NONE:
        raise ModelError(f"Motor {_name(m, i)} does not turn a joint directly: it cannot become a servo.")
    limit = _torque_limit(m, i, joint, gear)
    kp = limit / REACH if stiffness is None else stiffness
    kd = kp * DAMPING if damping is None else damping
    if not np.isfinite(kp):
        raise ModelError(
            f"Motor {_name(m, i)} has no limit (ctrlrange or forcerange): give the stiffness of the servos."
        )
    m.actuator_gear[i] = 0.0
    m.actuator_gear[i, 0] = 1.0
    m.actuator_gainprm[i, :3] = kp, 0.0, 0.0
    m.actuator_biastype[i] = engine.mjtBias.mjBIAS_AFFINE
    m.actuator_biasprm[i, :3] = 0.0, -kp, -kd
    m.actuator_forcelimited[i] = np.isfinite(limit)
    m.actuator_forcerange[i] = (-limit, limit) if np.isfinite(limit) else (0.0, 0.0)
    m.actuator_ctrllimited[i] = m.jnt_limited[joint]
    m.actuator_ctrlrange[i] = m.jnt_range[joint]


def _torque_limit(m: Any, i: int, joint: int, gear: float) -> float:
    limits = [np.inf]
    if m.actuator_ctrllimited[i]:
        limits.append(gear * m.actuator_gainprm[i, 0] * np.abs(m.actuator_ctrlrange[i]).max())
    if m.actuator_forcelimited[i]:
        limits.append(gear * np.abs(m.actuator_forcerange[i]).max())
    if m.jnt_actfrclimited[joint]:
        limits.append(np.abs(m.jnt_actfrcrange[joint]).max())
    return float(min(limits))


def prepare(
    path: Path, stiffness: float | None, damping: float | None, lay: Callable[[Any], None] | None = None
) -> tuple[Any, list[str]]:
    """MuJoCo's model of a robot that is told joint angles, and which of its actuators were motors.

    Args:
        lay: changes the floor of the description, say to a height field.
    """
    spec = with_ground(path)
    if lay is not None:
        lay(spec)
    try:
        m = spec.compile()
    except ValueError as error:
        raise ModelError(f"MuJoCo cannot compile {path} with its ground: {error}") from error
    return m, add_servos(m, stiffness, damping)
