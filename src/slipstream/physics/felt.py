"""What sensors of forces say: MuJoCo's touch, force and torque sensors and accelerometers.

Unlike other sensors they need the solution of the contacts, so they are read in a physics step. Like MuJoCo's own they
say what was so at the start of the last time step, not after it.
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
from slipstream.physics.equalities import link_drift
from slipstream.physics.kinematics import Pose, motion
from slipstream.physics.loading_tendons import on_link
from slipstream.physics.model import BodyEquality, Model
from slipstream.physics.problem import Problem, cone_rows, contact_forces
from slipstream.physics.refusal import ModelError
from slipstream.physics.selfcontact import Slot, tree_offset
from slipstream.physics.sensors import read_sensor
from slipstream.physics.solver import Solution
from slipstream.physics.spatial import Scalar
from slipstream.physics.woodbury import over_slots, slot_components
from slipstream.physics.wrenches import tree_centres, wrenches_on_bodies

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
    carried: Carried | None = None
    for name in sensors:
        number = _number(model, name)
        kind = KIND(model.mujoco.sensor_type[number])
        site = int(model.mujoco.sensor_objid[number])
        if kind == KIND.mjSENS_TOUCH:
            found: Sequence[Scalar] = [_touch(solution.problem, acceleration, site)]
        elif kind == KIND.mjSENS_ACCELEROMETER:
            found = read_sensor(model, name, qpos, qvel, solution.qacc)
        elif kind in (KIND.mjSENS_FORCE, KIND.mjSENS_TORQUE):
            carried = carried or Carried(solution.problem, acceleration, qvel, gravity, mass)
            found = carried.at_site(site)[0 if kind == KIND.mjSENS_FORCE else 1]
        else:
            what = kind.name.removeprefix("mjSENS_").lower()
            raise ModelError(f"<sensor><{what} name={name!r}>: not computed in a step.")
        cutoff = float(model.mujoco.sensor_cutoff[number])
        values += [sp.clip(value, -cutoff, cutoff) for value in found] if cutoff > 0.0 else found
    return [as_array(value, solution.qacc[0]) for value in values]


class SiteFrame:
    """Where a site is, relative to the reference point of the first tree, and how it is turned."""

    def __init__(self, model: Model, where: Pose, site: int):
        m = model.mujoco
        body = model.bodies[int(m.site_bodyid[site])]
        link = body.link
        relative = sp.rotate(where.rotation[link], on_link(body, m.site_pos[site]), where.position[link])
        self.place = sp.plus(relative, tree_offset(where, link))
        quat = sp.quaternion_product(body.quat, tuple(map(float, m.site_quat[site])))
        self.rotation = sp.matmul(where.rotation[link], sp.quaternion_matrix(quat))


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
        self.size = [size[0]] * 3 if kind == GEOM.mjGEOM_SPHERE else size
        self.frame = SiteFrame(model, where, site)

    def is_hit(self, point: tuple, direction: tuple) -> Scalar:
        """Whether a ray from a point of the body outwards meets the volume, as MuJoCo asks of every contact.

        Args:
            point: relative to the reference point of the first tree.
        """
        p = _divided(sp.rotate_back(self.frame.rotation, sp.minus(point, self.frame.place)), self.size)
        d = _divided(sp.rotate_back(self.frame.rotation, direction), self.size)
        a, b, c = sp.dot(d, d), sp.dot(p, d), sp.sub(sp.dot(p, p), 1.0)
        # The ray starts inside, or it comes in ahead.
        return (c <= 0.0) | ((b < 0.0) & (b * b >= a * c))


def _divided(v: Sequence[Scalar], size: Sequence[float]) -> tuple:
    return tuple(sp.mul(1.0 / s, x) for s, x in zip(size, v))


# Force and torque.


class Carried:
    """What a body is held by: the force and torque that its parent exerts on it and on all it carries itself."""

    def __init__(
        self,
        problem: Problem,
        acceleration: Sequence[Scalar],
        qvel: Sequence[Scalar],
        gravity: Sequence[Scalar],
        mass: Mapping[int, Scalar],
    ):
        model = problem.model
        if any(isinstance(equality, BodyEquality) for equality in model.equalities):
            raise ModelError("Sensors of force and torque do not know what connect and weld add to them.")
        self.model, self.where, self.gravity, self.mass = model, problem.where, gravity, mass
        self.moving = motion(model, problem.where, qvel)
        self.motions = link_motions(model, problem.where, acceleration)
        self.contacts = wrenches_on_bodies(problem, acceleration, mass)
        self.centres = tree_centres(model, problem.where, mass)

    def at_site(self, site: int) -> tuple[tuple, tuple]:
        """In the frame of a site, and about it."""
        frame = SiteFrame(self.model, self.where, site)
        force, torque = sp.ZERO3, sp.ZERO3
        for body in self._carried_by(int(self.model.mujoco.site_bodyid[site])):
            for part in (self._inertial(body, frame.place), self._contact(body, frame.place)):
                force, torque = sp.plus(force, part[0]), sp.plus(torque, part[1])
        return sp.rotate_back(frame.rotation, force), sp.rotate_back(frame.rotation, torque)

    def _carried_by(self, body: int) -> list[int]:
        parents, chosen = self.model.mujoco.body_parentid, [body]
        for child in range(body + 1, len(self.model.bodies)):
            if int(parents[child]) in chosen:
                chosen.append(child)
        return chosen

    def _inertial(self, number: int, place: tuple) -> tuple[tuple, tuple]:
        """What accelerates a body against gravity: a force, and its torque about a place."""
        body = self.model.bodies[number]
        link, factor = body.link, self.mass.get(body.link, 1.0)
        turned = self.where.rotation[link]
        quat = sp.quaternion_product(body.quat, body.inertia_quat)
        com = sp.rotate(sp.quaternion_matrix(body.quat), body.com, body.pos)
        centre = sp.rotate(turned, com, self.where.position[link])
        velocity = self.moving.velocity[link]
        spatial = sp.plus(self.motions[link], link_drift(self.model, self.moving, link))
        along = sp.plus(sp.point_velocity(spatial, centre), sp.cross(velocity[:3], sp.point_velocity(velocity, centre)))
        force = sp.scaled(sp.mul(factor, body.mass), sp.minus(along, self.gravity))

        axes = sp.matmul(turned, sp.quaternion_matrix(quat))
        spin, faster = sp.rotate_back(axes, velocity[:3]), sp.rotate_back(axes, spatial[:3])
        momentum = [sp.mul(i, w) for i, w in zip(body.inertia, spin)]
        own = sp.cross(spin, momentum, [sp.mul(i, w) for i, w in zip(body.inertia, faster)])
        arm = sp.minus(sp.plus(centre, tree_offset(self.where, link)), place)
        return force, sp.cross(arm, force, sp.scaled(factor, sp.rotate(axes, own)))

    def _contact(self, number: int, place: tuple) -> tuple[tuple, tuple]:
        """What contacts take off."""
        wrench = sp.negative(self.contacts[number])
        arm = sp.minus(self.centres[self.model.bodies[number].root], place)
        return wrench[3:], sp.cross(arm, wrench[3:], wrench[:3])
