"""What contacts do to bodies: MuJoCo's cfrc_ext."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slipstream.physics import spatial as sp
from slipstream.physics.collision import default_tangent
from slipstream.physics.constraints import Cone
from slipstream.physics.control import when
from slipstream.physics.dynamics import link_motions
from slipstream.physics.kinematics import Pose
from slipstream.physics.model import Body, Model
from slipstream.physics.problem import Problem, any_touching, cone_rows, contact_forces
from slipstream.physics.selfcontact import Slot, tree_offset
from slipstream.physics.spatial import Scalar
from slipstream.physics.woodbury import over_slots, slot_components


def wrenches_on_bodies(problem: Problem, acceleration: Sequence[Scalar], mass: Mapping[int, Scalar]) -> list[tuple]:
    """Torque and force of all contacts on each body, the world's left out (zeros).

    Torques are about the centre of mass of the body's tree, in the axes of the world.

    Args:
        acceleration: the solution of the problem.
        mass: factors on the mass of links.
    """
    model = problem.model
    centres = tree_centres(model, problem.where, mass)
    totals = [sp.ZERO6] * len(model.bodies)
    motions = link_motions(model, problem.where, acceleration) if problem.cones else []
    for link, cones in problem.cones.items():
        _add(totals, _cone_wrenches(problem, cones, motions[link], centres, acceleration[0]))
    if problem.slots:
        _add(totals, _slot_wrenches(problem, acceleration, centres))
    return totals


def _add(totals: list[tuple], wrenches: dict[int, tuple]) -> None:
    for body, wrench in wrenches.items():
        totals[body] = sp.plus(totals[body], wrench)


def tree_centres(model: Model, where: Pose, mass: Mapping[int, Scalar]) -> dict[int, tuple]:
    """By root, the centre of mass of all its bodies.

    Positions are relative to the reference point of the first tree here, as those of self-contacts are.
    """
    centres: dict[int, tuple] = {}
    for root in {body.root for body in model.bodies}:
        parts = [(body, body.mass) for body in model.bodies if body.root == root and body.mass > 0]
        total, centre = 0.0, sp.ZERO3
        for body, own in parts or [(model.bodies[root], 1.0)]:
            weight = sp.mul(own, mass.get(body.link, 1.0))
            total = sp.add(total, weight)
            centre = sp.scaled(weight, _body_centre(where, body), centre)
        centres[root] = sp.scaled(1.0 / total, centre)
    return centres


def _body_centre(where: Pose, body: Body) -> tuple:
    on_link = sp.rotate(sp.quaternion_matrix(body.quat), body.com, body.pos)
    relative = sp.rotate(where.rotation[body.link], on_link, where.position[body.link])
    return sp.plus(relative, tree_offset(where, body.link))


def _cone_wrenches(
    problem: Problem, cones: list[Cone], motion: tuple, centres: dict[int, tuple], like: Scalar
) -> dict[int, tuple]:
    """By body, what the contacts of one link with things that do not move do to it, and to them."""
    geoms, all_bodies = problem.model.geoms, problem.model.bodies
    bodies = sorted({geoms[g].body for cone in cones for g in (cone.geom, cone.against)} - {0})

    def compute() -> list[Scalar]:
        sums = {body: sp.ZERO6 for body in bodies}
        for cone in cones:
            components = contact_forces(cone, cone_rows(cone, motion))
            force = _along((cone.normal, *cone.tangents), components)
            torque = _along(cone.spins, components[3:])
            point = sp.plus(cone.point, tree_offset(problem.where, cone.link))
            for geom, sign in ((cone.geom, 1.0), (cone.against, -1.0)):
                body = geoms[geom].body
                if body > 0:
                    arm = sp.minus(point, centres[all_bodies[body].root])
                    wrench = sp.plus(sp.point_force(sp.scaled(sign, force), arm), (*sp.scaled(sign, torque), *sp.ZERO3))
                    sums[body] = sp.plus(sums[body], wrench)
        return _flat(sums)

    return _unflat(bodies, when(any_touching(cones), compute, 6 * len(bodies), like))


def _slot_wrenches(problem: Problem, acceleration: Sequence[Scalar], centres: dict[int, tuple]) -> dict[int, tuple]:
    """By body, what contacts between moving links do to it."""
    geoms = problem.model.geoms
    bodies = sorted({geoms[g].body for pair in problem.slots[0].pairs for g in (pair.geom1, pair.geom2)})
    roots = {body: problem.model.bodies[body].root for body in bodies}
    geoms_of = {body: [g for g, geom in enumerate(geoms) if geom.body == body] for body in bodies}

    def compute(slot: Slot) -> list[Scalar]:
        first = default_tangent(slot.normal)
        second = sp.cross(slot.normal, first)
        components = contact_forces(slot, slot_components(slot, acceleration, True))
        slide, *spin = slot.friction
        force = _along((slot.normal, sp.scaled(slide, first), sp.scaled(slide, second)), components)
        torque = _along(
            [sp.scaled(s, a) for s, a in zip((*spin, *spin[1:]), (slot.normal, first, second))], components[3:]
        )
        about = {
            root: sp.plus(sp.point_force(force, sp.minus(slot.point, centres[root])), (*torque, *sp.ZERO3))
            for root in set(roots.values())
        }
        return _flat({body: sp.scaled(slot.sign(geoms_of[body]), about[roots[body]]) for body in bodies})

    return _unflat(bodies, over_slots(problem.slots, compute, 6 * len(bodies)))


def _along(axes: Sequence[tuple], components: Sequence[Scalar]) -> tuple:
    total = sp.ZERO3
    for axis, component in zip(axes, components):
        total = sp.scaled(component, axis, total)
    return total


def _flat(wrenches: dict[int, tuple]) -> list[Scalar]:
    return [value for wrench in wrenches.values() for value in wrench]


def _unflat(bodies: Sequence[int], values: Sequence[Scalar]) -> dict[int, tuple]:
    return {body: tuple(values[6 * k : 6 * k + 6]) for k, body in enumerate(bodies)}
