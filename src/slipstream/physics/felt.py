"""What sensors of forces say: MuJoCo's touch, force and torque sensors and accelerometers.

Unlike other sensors they need the solution of the contacts, so they are read in a physics step. Like MuJoCo's own they
say what was so in the last evaluation of the dynamics: at the last stage of the step, not after it.
"""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Mapping, Sequence

import drjit as dr
import mujoco

from slipstream.physics import spatial as sp
from slipstream.physics.control import as_array
from slipstream.physics.dynamics import link_motions
from slipstream.physics.kinematics import Pose
from slipstream.physics.loading_tendons import on_link
from slipstream.physics.model import Model
from slipstream.physics.problem import Problem, cone_rows, contact_forces
from slipstream.physics.refusal import ModelError
from slipstream.physics.selfcontact import Slot, tree_offset
from slipstream.physics.sensors import read_sensor
from slipstream.physics.solver import Solution
from slipstream.physics.spatial import Scalar
from slipstream.physics.woodbury import over_slots, slot_components

KIND, GEOM = mujoco.mjtSensor, mujoco.mjtGeom


def count_numbers(model: Model, sensors: Sequence[str]) -> int:
    """How many numbers these sensors give together."""
    return sum(int(model.mujoco.sensor_dim[_number(model, name)]) for name in sensors)


def _number(model: Model, name: str) -> int:
    number = mujoco.mj_name2id(model.mujoco, mujoco.mjtObj.mjOBJ_SENSOR, name)
    if number < 0:
        raise ModelError(f"The model has no sensor named {name!r}.")
    return number


def read_forces(
    model: Model,
    sensors: Sequence[str],
    qpos: Sequence[Scalar],
    qvel: Sequence[Scalar],
    solution: Solution,
    gravity: Sequence[Scalar],
    mass: Mapping[int, Scalar],
) -> list[Scalar]:
    """What the sensors say, one after the other.

    Args:
        qpos: of the evaluation that the solution is of.
        qvel: the same.
        mass: factors on the mass of links.
    """
    values: list[Scalar] = []
    acceleration = solution.exact()
    for name in sensors:
        number = _number(model, name)
        kind = KIND(model.mujoco.sensor_type[number])
        if kind == KIND.mjSENS_TOUCH:
            values.append(_touch(solution.problem, acceleration, int(model.mujoco.sensor_objid[number])))
        elif kind == KIND.mjSENS_ACCELEROMETER:
            values += read_sensor(model, name, qpos, qvel, solution.qacc)
        else:
            what = kind.name.removeprefix("mjSENS_").lower()
            raise ModelError(f"<sensor><{what} name={name!r}>: not computed in a step.")
    return [as_array(value, solution.qacc[0]) for value in values]


# Touch.


def _touch(problem: Problem, acceleration: Sequence[Scalar], site: int) -> Scalar:
    """The sum of the normal forces on a body of all contacts at a site."""
    model, m = problem.model, problem.model.mujoco
    body = int(m.site_bodyid[site])
    inside = _Volume(model, problem.where, site)
    total: Scalar = 0.0
    motions = link_motions(model, problem.where, acceleration)
    for link, cones in problem.cones.items():
        for cone in cones:
            if model.geoms[cone.geom].body == body:
                push, *_ = contact_forces(cone, cone_rows(cone, motions[link]))
                point = sp.plus(cone.point, tree_offset(problem.where, link))
                hit = inside.is_hit(point, sp.negative(cone.normal))
                total = sp.add(total, dr.select(hit & (push > 0.0), push, 0.0))
    own = [g for g, geom in enumerate(model.geoms) if geom.body == body]

    def of_slot(slot: Slot) -> list[Scalar]:
        push, *_ = contact_forces(slot, slot_components(slot, acceleration, True))
        sign = slot.sign(own)
        hit = inside.is_hit(slot.point, sp.scaled(sp.sub(0.0, sign), slot.normal))
        return [dr.select(hit & (push > 0.0) & (sign != 0.0), push, 0.0)]

    return sp.add(total, over_slots(problem.slots, of_slot, 1)[0]) if problem.slots else total


class _Volume:
    """The volume of a site, a sphere or an ellipsoid."""

    def __init__(self, model: Model, where: Pose, site: int):
        m = model.mujoco
        kind, size = GEOM(m.site_type[site]), [float(s) for s in m.site_size[site]]
        if kind not in (GEOM.mjGEOM_SPHERE, GEOM.mjGEOM_ELLIPSOID):
            name = kind.name.removeprefix("mjGEOM_").lower()
            raise ModelError(f"<site name={m.site(site).name!r} type={name!r}>: a touch sensor's must be round.")
        body = model.bodies[int(m.site_bodyid[site])]
        link = body.link
        self.size = [size[0]] * 3 if kind == GEOM.mjGEOM_SPHERE else size
        relative = sp.rotate(where.rotation[link], on_link(body, m.site_pos[site]), where.position[link])
        self.centre = sp.plus(relative, tree_offset(where, link))
        quat = sp.quaternion_product(body.quat, tuple(map(float, m.site_quat[site])))
        self.rotation = sp.matmul(where.rotation[link], sp.quaternion_matrix(quat))

    def is_hit(self, point: tuple, direction: tuple) -> Scalar:
        """Whether a ray from a point of the body outwards meets the volume, as MuJoCo asks of every contact.

        Args:
            point: relative to the reference point of the first tree.
        """
        p = _divided(sp.rotate_back(self.rotation, sp.minus(point, self.centre)), self.size)
        d = _divided(sp.rotate_back(self.rotation, direction), self.size)
        a, b, c = sp.dot(d, d), sp.dot(p, d), sp.sub(sp.dot(p, p), 1.0)
        # The ray starts inside, or it comes in ahead.
        return (c <= 0.0) | ((b < 0.0) & (b * b >= a * c))


def _divided(v: Sequence[Scalar], size: Sequence[float]) -> tuple:
    return tuple(sp.mul(1.0 / s, x) for s, x in zip(size, v))
