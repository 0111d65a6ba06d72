"""How episodes begin.

Where the suite draws numbers, so does the kernel. Where it draws until nothing touches, lifts a robot until it is free,
or lets it fall first, MuJoCo does the same when the worlds are made, and an episode begins with one of those states.
"""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from slipstream import physics
from slipstream.random import Rng

JOINT = mujoco.mjtJoint


@dataclass(frozen=True)
class Drawn:
    """Poses and velocities from random numbers."""

    draw: Callable[[physics.Model, Rng], tuple[Sequence[Any], Sequence[Any]]]


@dataclass(frozen=True)
class Sampled:
    """States that MuJoCo found.

    Attributes:
        sample: changes `qpos` and `qvel` of data that was just reset.
        count: how many there are.
    """

    sample: Callable[[mujoco.MjModel, mujoco.MjData, np.random.Generator], None]
    count: int = 1024

    def table(self, model: physics.Model, sensors: Sequence[str]) -> np.ndarray:
        """`[features, states]`: qpos, qvel, and what the sensors say there."""
        m, draw = copy.copy(model.mujoco), np.random.default_rng(0)
        data = mujoco.MjData(m)
        rows = []
        for _ in range(self.count):
            mujoco.mj_resetData(m, data)
            self.sample(m, data, draw)
            forward(m, data)
            felt = [data.sensor(name).data for name in sensors]
            rows.append(np.concatenate([data.qpos, data.qvel, *felt]))
        return np.stack(rows, axis=1)


# In kernels.


def still(positions: Callable[[physics.Model, Rng], Sequence[Any]]) -> Drawn:
    """A pose without velocity."""
    return Drawn(lambda model, rng: (positions(model, rng), [0.0] * model.nv))


def any_angles(model: physics.Model, rng: Rng) -> list[Any]:
    """Joints with limits anywhere between them, hinges without limits at any angle, the rest where it is."""
    qpos: list[Any] = list(model.qpos0)
    for joint in model.joints:
        if joint.limited:
            qpos[joint.qpos] = rng.uniform(*joint.range)
        elif joint.kind == "hinge":
            qpos[joint.qpos] = rng.uniform(-math.pi, math.pi)
    return qpos


# In MuJoCo.


def forward(m: mujoco.MjModel, data: mujoco.MjData) -> None:
    """Compute everything that follows from a state, without the motors."""
    flags = int(m.opt.disableflags)
    m.opt.disableflags = flags | int(mujoco.mjtDisableBit.mjDSBL_ACTUATION)
    mujoco.mj_forward(m, data)
    m.opt.disableflags = flags


def sample_angles(m: mujoco.MjModel, data: mujoco.MjData, draw: np.random.Generator) -> None:
    """`any_angles`, and free joints in some direction."""
    for j in range(m.njnt):
        first = m.jnt_qposadr[j]
        if m.jnt_limited[j]:
            data.qpos[first] = draw.uniform(*m.jnt_range[j])
        elif m.jnt_type[j] == JOINT.mjJNT_HINGE:
            data.qpos[first] = draw.uniform(-np.pi, np.pi)
        elif m.jnt_type[j] == JOINT.mjJNT_FREE:
            # Not every direction: the suite, too, draws positive numbers here.
            quat = draw.random(4)
            data.qpos[first + 3 : first + 7] = quat / np.linalg.norm(quat)


def untouched(
    sample: Callable[[mujoco.MjModel, mujoco.MjData, np.random.Generator], None],
) -> Callable[[mujoco.MjModel, mujoco.MjData, np.random.Generator], None]:
    """Sample until nothing touches."""

    def until_free(m: mujoco.MjModel, data: mujoco.MjData, draw: np.random.Generator) -> None:
        while True:
            sample(m, data, draw)
            mujoco.mj_fwdPosition(m, data)
            if data.ncon == 0:
                return

    return until_free
