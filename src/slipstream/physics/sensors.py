"""What a robot's sensors say, as functions of its state: MuJoCo's sensordata without noise and delay."""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import mujoco

from slipstream.physics import spatial as sp
from slipstream.physics.actuators import actuator_forces, transmission
from slipstream.physics.dynamics import link_motions
from slipstream.physics.equalities import link_drift
from slipstream.physics.kinematics import (
    Motion,
    Pose,
    centre_of_mass,
    link_quaternion,
    motion,
    pose,
    unit_quaternion,
)
from slipstream.physics.loading_tendons import on_link
from slipstream.physics.model import Model
from slipstream.physics.refusal import ModelError
from slipstream.physics.spatial import Scalar
from slipstream.physics.tendons import tendon_path

KIND, OBJECT = mujoco.mjtSensor, mujoco.mjtObj


def read_sensor(
    model: Model,
    name: str,
    qpos: Sequence[Scalar],
    qvel: Sequence[Scalar],
    qacc: Sequence[Scalar] = (),
    ctrl: Sequence[Scalar] = (),
    act: Sequence[Scalar] = (),
) -> list[Scalar]:
    """The numbers of a sensor of the model.

    Args:
        qacc: nv scalars, for accelerometers.
        ctrl: nu scalars, for forces of actuators.
        act: na scalars, for the same.
    """
    m: Any = model.mujoco
    number = mujoco.mj_name2id(m, OBJECT.mjOBJ_SENSOR, name)
    if number < 0:
        names = ", ".join(m.sensor(k).name for k in range(m.nsensor)) or "none"
        raise ModelError(f"The model has no sensor named {name!r}; it has: {names}.")
    kind = KIND(m.sensor_type[number])
    if kind not in READERS or m.sensor_reftype[number] != int(OBJECT.mjOBJ_UNKNOWN):
        what = kind.name.removeprefix("mjSENS_").lower()
        raise ModelError(f"<sensor><{what} name={name!r}>: not computed (nor are sensors relative to something).")
    values = list(READERS[kind](_Reading(model, number, qpos, qvel, qacc, ctrl, act)))
    cutoff = float(m.sensor_cutoff[number])
    if cutoff > 0 and kind != KIND.mjSENS_FRAMEQUAT:
        return [sp.clip(value, -cutoff, cutoff) for value in values]
    return values


@dataclass(frozen=True)
class _Reading:
    """A sensor, and the state it is in."""

    model: Model
    number: int
    qpos: Sequence[Scalar]
    qvel: Sequence[Scalar]
    qacc: Sequence[Scalar]
    ctrl: Sequence[Scalar]
    act: Sequence[Scalar]

    @property
    def object(self) -> int:
        return int(self.model.mujoco.sensor_objid[self.number])

    @cached_property
    def where(self) -> Pose:
        return pose(self.model, self.qpos)

    @cached_property
    def moving(self) -> Motion:
        return motion(self.model, self.where, self.qvel)

    @cached_property
    def frame(self) -> tuple[int, tuple, tuple]:
        """The link a sensor sits on, and its place and direction (a quaternion) there."""
        m, kind = self.model.mujoco, OBJECT(self.model.mujoco.sensor_objtype[self.number])
        table = {
            OBJECT.mjOBJ_SITE: ("site_bodyid", "site_pos", "site_quat"),
            OBJECT.mjOBJ_GEOM: ("geom_bodyid", "geom_pos", "geom_quat"),
        }
        if kind in table:
            owner, pos, quat = (getattr(m, field)[self.object] for field in table[kind])
        else:
            owner, quat = self.object, (1.0, 0.0, 0.0, 0.0)
            pos = (0.0, 0.0, 0.0)
            if kind == OBJECT.mjOBJ_BODY:  # the frame of its inertia
                pos, quat = m.body_ipos[owner], m.body_iquat[owner]
        body = self.model.bodies[int(owner)]
        return body.link, on_link(body, pos), sp.quaternion_product(body.quat, tuple(map(float, quat)))

    @cached_property
    def point(self) -> tuple:
        """The place of the frame, relative to the reference point of its tree."""
        link, pos, _ = self.frame
        return sp.rotate(self.where.rotation[link], pos, self.where.position[link])

    @cached_property
    def rotation(self) -> tuple:
        link, _, quat = self.frame
        return sp.matmul(self.where.rotation[link], sp.quaternion_matrix(quat))

    @property
    def velocity(self) -> tuple:
        return self.moving.velocity[self.frame[0]]


def _position(r: _Reading) -> tuple:
    return sp.plus(r.point, r.where.origin[r.frame[0]])


def _quaternion(r: _Reading) -> tuple:
    link, _, quat = r.frame
    return sp.quaternion_product(link_quaternion(r.model, r.qpos, link), quat)


def _accelerometer(r: _Reading) -> tuple:
    if len(r.qacc) != r.model.nv:
        raise ValueError("An accelerometer needs qacc, the accelerations.")
    link = r.frame[0]
    spatial = sp.plus(link_motions(r.model, r.where, r.qacc)[link], link_drift(r.model, r.moving, link))
    turned = sp.cross(r.velocity[:3], sp.point_velocity(r.velocity, r.point))
    return sp.rotate_back(
        r.rotation, sp.minus(sp.plus(sp.point_velocity(spatial, r.point), turned), r.model.options.gravity)
    )


def _actuator(r: _Reading) -> tuple:
    path = transmission(r.model, r.model.actuators[r.object], r.qpos, r.where)
    return path.length, path.speed(r.qvel)


def _tendon(r: _Reading) -> tuple:
    path = tendon_path(r.model, r.model.tendons[r.object], r.qpos, r.where)
    return path.length, path.speed(r.qvel)


def _subtree(r: _Reading) -> list[int]:
    """The links of all bodies that descend from a body, itself included."""
    links, first = r.model.links, r.model.bodies[r.object].link
    chosen = {first}
    for index in range(first + 1, len(links)):
        if links[index].parent in chosen:
            chosen.add(index)
    return sorted(chosen)


def _subtree_velocity(r: _Reading) -> tuple:
    total, mass = sp.ZERO3, 0.0
    for index in _subtree(r):
        link = r.model.links[index]
        centre = sp.rotate(r.where.rotation[index], link.com, r.where.position[index])
        total, mass = sp.scaled(link.mass, sp.point_velocity(r.moving.velocity[index], centre), total), mass + link.mass
    return sp.scaled(1.0 / mass, total)


READERS: dict[Any, Callable[[_Reading], Sequence[Scalar]]] = {
    KIND.mjSENS_GYRO: lambda r: sp.rotate_back(r.rotation, r.velocity[:3]),
    KIND.mjSENS_VELOCIMETER: lambda r: sp.rotate_back(r.rotation, sp.point_velocity(r.velocity, r.point)),
    KIND.mjSENS_ACCELEROMETER: _accelerometer,
    KIND.mjSENS_FRAMEPOS: _position,
    KIND.mjSENS_FRAMEQUAT: _quaternion,
    KIND.mjSENS_FRAMEXAXIS: lambda r: sp.column(r.rotation, 0),
    KIND.mjSENS_FRAMEYAXIS: lambda r: sp.column(r.rotation, 1),
    KIND.mjSENS_FRAMEZAXIS: lambda r: sp.column(r.rotation, 2),
    KIND.mjSENS_FRAMELINVEL: lambda r: sp.point_velocity(r.velocity, r.point),
    KIND.mjSENS_FRAMEANGVEL: lambda r: r.velocity[:3],
    KIND.mjSENS_JOINTPOS: lambda r: (r.qpos[r.model.joints[r.object].qpos],),
    KIND.mjSENS_JOINTVEL: lambda r: (r.qvel[r.model.joints[r.object].dof],),
    KIND.mjSENS_BALLQUAT: lambda r: unit_quaternion(r.qpos, r.model.joints[r.object].qpos),
    KIND.mjSENS_BALLANGVEL: lambda r: [r.qvel[d] for d in r.model.joints[r.object].dofs],
    KIND.mjSENS_TENDONPOS: lambda r: _tendon(r)[:1],
    KIND.mjSENS_TENDONVEL: lambda r: _tendon(r)[1:],
    KIND.mjSENS_ACTUATORPOS: lambda r: _actuator(r)[:1],
    KIND.mjSENS_ACTUATORVEL: lambda r: _actuator(r)[1:],
    KIND.mjSENS_SUBTREECOM: lambda r: centre_of_mass(r.model, r.where, _subtree(r)),
    KIND.mjSENS_SUBTREELINVEL: _subtree_velocity,
    KIND.mjSENS_ACTUATORFRC: lambda r: (actuator_forces(r.model, r.qpos, r.qvel, r.ctrl, r.act, r.where)[r.object],),
}
"""By kind of sensor, how it is read."""
