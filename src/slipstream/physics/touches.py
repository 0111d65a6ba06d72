"""Where two geoms touch that are not both round: by pairs of kinds."""

from __future__ import annotations

import math
from collections.abc import Callable

from slipstream.physics import spatial as sp
from slipstream.physics.boxes import MOST_CORNERS, Block, Touch, box_box, sphere_box, sphere_cylinder
from slipstream.physics.capsules import capsule_box
from slipstream.physics.control import as_array, unsigned
from slipstream.physics.convex import solid_touch
from slipstream.physics.kinematics import Pose
from slipstream.physics.model import Geom, Model
from slipstream.physics.pairs import BOX, CAPSULE, CYLINDER, SPHERE, Pair
from slipstream.physics.solids import model_table, pick_solid, solid_numbers

Place = Callable[[int], tuple]
"""By link, from the point that positions shall be relative to, to the reference point of the link's tree."""

COUNTS = {(SPHERE, BOX): 1, (SPHERE, CYLINDER): 1, (CAPSULE, BOX): 2, (BOX, BOX): MOST_CORNERS}
"""How many points are looked at, by kinds of geoms."""


def find_touches(model: Model, where: Pose, pair: Pair, place: Place) -> list[Touch]:
    """All points where the geoms of a pair may touch, whatever their distance."""
    one, two = (_block(where, model.geoms[g], place) for g in (pair.geom1, pair.geom2))
    if pair.is_convex:
        return [_solid_touch(model, pair, one, two)]
    if pair.kinds == (BOX, BOX):
        return box_box(one, two)
    radius = model.geoms[pair.geom1].size[0]
    if pair.kinds == (CAPSULE, BOX):
        half = sp.scaled(model.geoms[pair.geom1].size[1], one.axes[2])
        return capsule_box(one.centre, half, radius, two)
    if pair.kinds == (SPHERE, BOX):
        return [sphere_box(one.centre, radius, two)]
    return [sphere_cylinder(one.centre, radius, two)]


def _solid_touch(model: Model, pair: Pair, one: Block, two: Block) -> Touch:
    """The deepest point where two convex solids touch."""
    like = next((x for x in (*one.centre, *two.centre) if not sp.is_constant(x)), 0.0)
    table, numbers = model_table(model, like), solid_numbers(model)
    solids = (
        pick_solid(table, unsigned(numbers[g], like), tuple(as_array(x, like) for x in block.centre), block.axes)
        for g, block in ((pair.geom1, one), (pair.geom2, two))
    )
    return solid_touch(*solids)


def _block(where: Pose, geom: Geom, place: Place) -> Block:
    centre = sp.rotate(where.rotation[geom.link], geom.pos, where.position[geom.link])
    rotation = sp.matmul(where.rotation[geom.link], sp.quaternion_matrix(geom.quat))
    size = (geom.size[0], geom.size[0], geom.size[1]) if geom.kind == CYLINDER else geom.size
    return Block(sp.plus(centre, place(geom.link)), [sp.column(rotation, k) for k in range(3)], size)


def bounding_radius(geom: Geom) -> float:
    """Of the sphere around a geom."""
    if geom.kind == BOX:
        return math.hypot(*geom.size)
    if geom.kind == CAPSULE:
        return geom.size[0] + geom.size[1]
    return math.hypot(*geom.size[:2]) if geom.kind == CYLINDER else geom.size[0]
