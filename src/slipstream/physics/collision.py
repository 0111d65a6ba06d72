"""Contacts with what does not move: floors, terrain, and fixed spheres and capsules.

Each of these acts on a single link, which is why the Hessian of the solver keeps the sparsity of the tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.control import as_array
from slipstream.physics.ground import Points, cylinder_points, ellipsoid_point, hull_points, large_hull_points
from slipstream.physics.kinematics import Pose
from slipstream.physics.model import Geom, Model
from slipstream.physics.pairs import BOX, CAPSULE, CYLINDER, ELLIPSOID, HFIELD, PLANE, SPHERE, Pair
from slipstream.physics.refusal import ModelError
from slipstream.physics.solids import large_hull, solid_reaches
from slipstream.physics.spatial import Scalar
from slipstream.physics.terrain import Terrain, distance_to_terrain
from slipstream.physics.touches import find_touches


@dataclass
class Contact:
    """A point where a geom of a link may touch something.

    The frame is where MuJoCo has it: the normal points away from what is touched, the first tangent along
    a capsule's axis.
    """

    pair: Pair
    link: int
    point: tuple  # relative to the reference point of the link's tree
    distance: Scalar
    normal: tuple
    tangent: tuple


def external_contacts(model: Model, where: Pose, terrain: Terrain | None) -> list[Contact]:
    """All contacts that may exist with what does not move, whatever their distance, but for those that go in slots."""
    pairs = (pair for pair in model.pairs if pair.is_external and not pair.is_convex)
    return [contact for pair in pairs for contact in _pair_contacts(model, where, pair, terrain)]


def _pair_contacts(model: Model, where: Pose, pair: Pair, terrain: Terrain | None) -> list[Contact]:
    if pair.kinds[0] == PLANE:
        return _plane_contacts(model, where, pair)
    if pair.kinds[0] == HFIELD:
        return _terrain_contacts(model, where, pair, terrain)
    return [_round_contact(model, where, pair)] if pair.is_round else _other_contacts(model, where, pair)


def _other_contacts(model: Model, where: Pose, pair: Pair) -> list[Contact]:
    """Boxes and cylinders against what does not move."""
    link, sign = (pair.link2, 1.0) if pair.link1 == 0 else (pair.link1, -1.0)

    def place(of: int) -> tuple:
        return sp.ZERO3 if of == link else sp.negative(where.origin[link])

    contacts = []
    for touch in find_touches(model, where, pair, place):
        distance = touch.distance
        if touch.exists is not True:
            distance = dr.select(touch.exists, distance, pair.margin + 1.0)
        tangent = default_tangent(touch.normal)
        normal, tangent = sp.scaled(sign, touch.normal), sp.scaled(sign, tangent)
        contacts.append(Contact(pair, link, touch.point, distance, normal, tangent))
    return contacts


def geom_pose(where: Pose, geom: Geom) -> tuple[tuple, tuple]:
    """A geom's centre, relative to its tree's reference point, and its rotation."""
    centre = sp.rotate(where.rotation[geom.link], geom.pos, where.position[geom.link])
    return centre, sp.matmul(where.rotation[geom.link], sp.quaternion_matrix(geom.quat))


def capsule_axis(where: Pose, geom: Geom) -> tuple:
    """The direction of a capsule (its local z)."""
    local = sp.column(sp.quaternion_matrix(geom.quat), 2)
    return sp.rotate(where.rotation[geom.link], [round(x, 15) for x in local])


def default_tangent(normal: tuple) -> tuple:
    """MuJoCo's first tangent where a collision does not ask for one."""
    if all(map(sp.is_constant, normal)):
        seed = (0.0, 1.0, 0.0) if abs(normal[1]) < 0.5 else (0.0, 0.0, 1.0)
        return sp.normalized(sp.scaled(-sp.dot(seed, normal), normal, seed))
    upright = dr.abs(normal[1]) < 0.5
    seed = (0.0, dr.select(upright, 1.0, 0.0), dr.select(upright, 0.0, 1.0))
    return sp.normalized(sp.scaled(-sp.dot(seed, normal), normal, seed))


def aligned_tangent(normal: tuple, axis: tuple) -> tuple:
    """The part of an axis along the surface; world x where the axis is the normal."""
    along = sp.scaled(sp.sub(0.0, sp.dot(axis, normal)), normal, axis)
    squared = sp.dot(along, along)
    if sp.is_constant(squared):
        return sp.normalized(along) if squared > 1e-12 else (1.0, 0.0, 0.0)
    tiny = squared < 1e-12
    scale = dr.select(tiny, 0.0, dr.rcp(dr.sqrt(squared)))
    x, y, z = sp.scaled(scale, along)
    return sp.add(x, dr.select(tiny, 1.0, 0.0)), y, z


def _plane_contacts(model: Model, where: Pose, pair: Pair) -> list[Contact]:
    plane, geom = model.geoms[pair.geom1], model.geoms[pair.geom2]
    normal = tuple(round(x, 15) for x in sp.column(sp.quaternion_matrix(plane.quat), 2))
    origin = where.origin[geom.link]
    # Heights add the (small) relative position to the tree's own height over the plane.
    base = sp.sub(sp.dot(normal, origin), sp.dot(normal, plane.pos))

    def sphere(centre: tuple, radius: float, tangent: tuple) -> Contact:
        distance = sp.add(sp.dot(normal, centre, base), -radius)
        point = sp.scaled(sp.sub(-radius, sp.mul(0.5, distance)), normal, centre)
        return Contact(pair, geom.link, point, distance, normal, tangent)

    if geom.kind == SPHERE:
        centre = sp.rotate(where.rotation[geom.link], geom.pos, where.position[geom.link])
        return [sphere(centre, geom.size[0], default_tangent(normal))]
    if geom.kind == CAPSULE:
        tangent = aligned_tangent(normal, capsule_axis(where, geom))
        return [sphere(end, geom.size[0], tangent) for end in capsule_ends(where, geom)]
    tangent = default_tangent(normal)
    if geom.kind == BOX:
        corners = _lower_corners(where, geom, lambda v: sp.dot(normal, v))
        return [sphere(corner, 0.0, tangent) for corner in corners]
    contacts = []
    for point, counts in _low_points(model, where, pair.geom2, normal, base, pair.margin):
        contact = sphere(point, 0.0, tangent)
        if counts is not True:
            contact = replace(contact, distance=dr.select(counts, contact.distance, pair.margin + 1.0))
        contacts.append(contact)
    return contacts


def _low_points(
    model: Model, where: Pose, g: int, normal: tuple, base: Scalar | None = None, margin: float = 0.0
) -> Points:
    """Of a cylinder, an ellipsoid or a mesh.

    Args:
        base: of a plane, the height of the reference point of the geom's tree over it.
    """
    geom = model.geoms[g]
    centre, rotation = geom_pose(where, geom)
    if geom.kind == CYLINDER:
        return cylinder_points(centre, rotation, geom.size, normal)
    if geom.kind == ELLIPSOID:
        return ellipsoid_point(centre, rotation, geom.size, normal)
    if geom.hull is None:
        moving = (x for row in rotation for x in row if not sp.is_constant(x))
        like = next(moving, 0.0)
        turned = tuple(tuple(as_array(x, like) for x in row) for row in rotation)
        reach = solid_reaches(model)[g]
        near = sp.dot(normal, centre, base) < reach + margin if base is not None else True
        return large_hull_points(centre, turned, large_hull(model, g, like), normal, near)
    return hull_points(centre, rotation, geom.hull, normal)


def capsule_ends(where: Pose, geom: Geom) -> list[tuple]:
    """Both ends of a capsule's segment, relative to its tree's reference point; the far end of z first."""
    local = sp.column(sp.quaternion_matrix(geom.quat), 2)
    ends = []
    for sign in (1.0, -1.0):
        end = tuple(round(c + sign * geom.size[1] * a, 15) for c, a in zip(geom.pos, local))
        ends.append(sp.rotate(where.rotation[geom.link], end, where.position[geom.link]))
    return ends


def _lower_corners(where: Pose, geom: Geom, height: Callable[[tuple], Scalar]) -> list[tuple]:
    """The four corners of a box on the side of the floor: of two opposite corners, always the lower one."""
    centre, rotation = geom_pose(where, geom)
    x, y, z = (sp.scaled(size, sp.column(rotation, k)) for k, size in enumerate(geom.size))
    corners = []
    for sx, sy in ((-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0), (1.0, 1.0)):
        corner = sp.plus(sp.plus(sp.scaled(sx, x), sp.scaled(sy, y)), sp.negative(z))
        flip = dr.select(height(corner) > 0.0, -1.0, 1.0)
        corners.append(sp.scaled(flip, corner, centre))
    return corners


def _round_contact(model: Model, where: Pose, pair: Pair) -> Contact:
    """A sphere or capsule against one that does not move."""
    moving, link, sign = (pair.geom2, pair.link2, 1.0) if pair.link1 == 0 else (pair.geom1, pair.link1, -1.0)
    origin = where.origin[link]
    segments = [segment(where, model.geoms[g]) for g in (pair.geom1, pair.geom2)]
    other = 0 if moving == pair.geom2 else 1
    centre, half, squared = segments[other]
    segments[other] = (sp.minus(centre, origin), half, squared)
    radius1, radius2 = (model.geoms[g].size[0] for g in (pair.geom1, pair.geom2))
    nearest1, nearest2 = nearest_points(segments[0], segments[1])
    between = sp.minus(nearest2, nearest1)
    point, distance, normal = surface_contact(nearest1, between, sp.dot(between, between), radius1, radius2)
    tangent = default_tangent(normal)
    return Contact(pair, link, point, distance, sp.scaled(sign, normal), sp.scaled(sign, tangent))


Segment = tuple[tuple, tuple | None, float]


def segment(where: Pose, geom: Geom) -> Segment:
    """The segment inside a round geom: its middle, half of it as a vector (None for a sphere), |half|^2."""
    centre = sp.rotate(where.rotation[geom.link], geom.pos, where.position[geom.link])
    if geom.kind != CAPSULE:
        return centre, None, 0.0
    return centre, sp.scaled(geom.size[1], capsule_axis(where, geom)), geom.size[1] ** 2


def surface_contact(
    nearest1: tuple, between: tuple, squared: Scalar, radius1: float, radius2: float
) -> tuple[tuple, Scalar, tuple]:
    """The contact of two spheres around the nearest points of two segments.

    Returns:
        The contact's point, the distance between the surfaces, and the normal from the first to the second.
    """
    length = dr.sqrt(squared)
    tiny = length < 1e-12
    x, y, z = sp.scaled(dr.select(tiny, 0.0, 1.0 / dr.select(tiny, 1.0, length)), between)
    normal = (sp.add(x, dr.select(tiny, 1.0, 0.0)), y, z)
    distance = length - (radius1 + radius2)
    return sp.scaled(0.5 * distance + radius1, normal, nearest1), distance, normal


def nearest_points(one: Segment, two: Segment) -> tuple[tuple, tuple]:
    """The points of two segments (or middles of spheres) that are nearest to each other."""
    (c1, h1, a), (c2, h2, c) = one, two
    if h1 is None and h2 is None:
        return c1, c2
    if h1 is None:
        return c1, _nearest_on_segment(c1, two)
    if h2 is None:
        return _nearest_on_segment(c2, one), c2
    between = sp.minus(c1, c2)
    b, u, v = sp.dot(h1, h2), sp.sub(0.0, sp.dot(h1, between)), sp.dot(h2, between)
    determinant = sp.maximum(sp.sub(a * c, sp.mul(b, b)), 1e-7 * a * c)
    x1 = sp.clip(sp.fma(b, v, sp.mul(c, u)) / determinant, -1.0, 1.0)
    x2 = sp.clip(sp.mul(1.0 / c, sp.fma(b, x1, v)), -1.0, 1.0)
    x1 = sp.clip(sp.mul(1.0 / a, sp.fma(b, x2, u)), -1.0, 1.0)
    return sp.scaled(x1, h1, c1), sp.scaled(x2, h2, c2)


def _nearest_on_segment(point: tuple, where: Segment) -> tuple:
    centre, half, squared = where
    assert half is not None
    along = sp.mul(1.0 / squared, sp.dot(half, sp.minus(point, centre)))
    return sp.scaled(sp.clip(along, -1.0, 1.0), half, centre)


def geom_distance(model: Model, where: Pose, geom1: int, geom2: int) -> Scalar:
    """The distance between the surfaces of two spheres or capsules, negative where they overlap."""
    geoms = [model.geoms[g] for g in (geom1, geom2)]
    for geom in geoms:
        if geom.kind not in (SPHERE, CAPSULE):
            raise ModelError(f"geom {geom.name!r} is neither a sphere nor a capsule.")
    segments = [segment(where, geom) for geom in geoms]
    centre, half, squared = segments[1]
    apart = sp.minus(where.origin[geoms[1].link], where.origin[geoms[0].link])
    nearest1, nearest2 = nearest_points(segments[0], (sp.plus(centre, apart), half, squared))
    between = sp.minus(nearest2, nearest1)
    return dr.sqrt(sp.dot(between, between)) - (geoms[0].size[0] + geoms[1].size[0])


def touches_ground(model: Model, where: Pose, geom: int, terrain: Terrain | None = None) -> Any:
    """Whether a geom has a contact with something that does not move: a mask of the worlds."""
    pairs = [pair for pair in model.pairs if pair.is_external and geom in (pair.geom1, pair.geom2)]
    contacts = (contact for pair in pairs for contact in _pair_contacts(model, where, pair, terrain))
    return reduce(or_, (contact.distance < contact.pair.margin for contact in contacts), False)


def clearance(model: Model, where: Pose, terrain: Terrain | None = None) -> Scalar:
    """The distance between a robot and the nearest thing that does not move, negative where they overlap."""
    pairs = (pair for pair in model.pairs if pair.is_external)
    distances = [c.distance for pair in pairs for c in _pair_contacts(model, where, pair, terrain)]
    if not distances:
        raise ModelError("Nothing of the model collides with anything that is fixed.")
    return reduce(sp.minimum, distances)


def _terrain_contacts(model: Model, where: Pose, pair: Pair, terrain: Terrain | None) -> list[Contact]:
    if terrain is None:
        raise ModelError("This model stands on a height field: pass Parameters(terrain=make_terrain(...)).")
    geom = model.geoms[pair.geom2]
    measure = distance_to_terrain(model, terrain)
    counts: list[Any] = []
    if geom.kind == SPHERE:
        points, radius = (
            [sp.rotate(where.rotation[geom.link], geom.pos, where.position[geom.link])],
            geom.size[0],
        )
    elif geom.kind == CAPSULE:
        points, radius = capsule_ends(where, geom), geom.size[0]
    elif geom.kind == BOX:
        points, radius = _lower_corners(where, geom, lambda corner: corner[2]), 0.0
    else:  # what is lowest over the slope under its middle
        _, slope = measure(geom_pose(where, geom)[0], where.origin[geom.link])
        low = _low_points(model, where, pair.geom2, slope)
        points, radius, counts = [point for point, _ in low], 0.0, [exists for _, exists in low]
    contacts = []
    for k, centre in enumerate(points):
        over, normal = measure(centre, where.origin[geom.link])
        distance = sp.add(over, -radius)
        point = sp.scaled(sp.sub(-radius, sp.mul(0.5, distance)), normal, centre)
        tangent = (
            aligned_tangent(normal, capsule_axis(where, geom)) if geom.kind == CAPSULE else default_tangent(normal)
        )
        if counts and counts[k] is not True:
            distance = dr.select(counts[k], distance, pair.margin + 1.0)
        contacts.append(Contact(pair, geom.link, point, distance, normal, tangent))
    return contacts
