"""Contacts between two links that both move.

All pairs are tested; those that touch go into a few slots per world, since a robot touches itself in few
places at once. A slot holds which two geoms touch; what they are is then picked from all geoms of the world.
A slot couples two branches of the tree, which breaks the sparsity of the Hessian: the solver adds slots one
after the other on top of the tree's factorisation, with the Woodbury identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.collision import (
    Contact,
    Segment,
    default_tangent,
    nearest_points,
    segment,
    surface_contact,
)
from slipstream.physics.constraints import contact_cone
from slipstream.physics.control import as_array, when
from slipstream.physics.kinematics import Pose
from slipstream.physics.model import Model
from slipstream.physics.nearby import Found, add_convex
from slipstream.physics.pairs import Pair
from slipstream.physics.spatial import Scalar
from slipstream.physics.touches import COUNTS, bounding_radius, find_touches


@dataclass
class Slot:
    """One contact between moving links, in every world its own."""

    used: Scalar  # mask
    rows: list[list[Scalar]]  # Jacobian: normal, two scaled tangents, and scaled spins if there are; nv each
    offsets: list[Scalar]
    stiffness: Scalar
    point: tuple  # relative to the reference point of the first tree
    normal: tuple  # from the first geom to the second
    friction: list[Scalar]  # coefficients of sliding, spinning and rolling
    code: Scalar  # number of the pair
    pairs: Sequence[Pair]
    mu: Scalar | None = None  # of elliptic cones
    has_spins: list[Scalar] = field(default_factory=list)  # 1 or 0, for spins that only some contacts have

    @property
    def is_plain(self) -> bool:
        """Whether it is a pyramid without torques."""
        return len(self.rows) == 3 and self.mu is None

    @property
    def edge_stiffness(self) -> list[Scalar]:
        """Of a pyramid's edges, by tangent and spin."""
        return [self.stiffness] * 2 + [sp.mul(has, self.stiffness) for has in self.has_spins]

    def has_any(self, geoms: Sequence[int]) -> Scalar:
        """A mask of the worlds where one of these geoms takes part in the contact."""
        numbers = [k for k, pair in enumerate(self.pairs) if pair.geom1 in geoms or pair.geom2 in geoms]
        return _among(self.code, numbers) if numbers else self.used & ~self.used

    def sign(self, geoms: Sequence[int]) -> Scalar:
        """1 in the worlds where the second geom is one of these, -1 where the first is, 0 elsewhere."""
        first = [k for k, pair in enumerate(self.pairs) if pair.geom1 in geoms]
        second = [k for k, pair in enumerate(self.pairs) if pair.geom2 in geoms]
        one, two = (_side(_among(self.code, numbers) if numbers else None) for numbers in (first, second))
        return sp.sub(two, one)


def find_slots(model: Model, where: Pose, qvel: Sequence[Scalar], friction_scale: Scalar) -> tuple[list[Slot], Scalar]:
    """Test all pairs of moving geoms.

    Returns:
        The slots, and how many contacts found no free slot.
    """
    pairs = model.slot_pairs
    if not pairs:
        return [], 0.0
    chosen = sorted({g for pair in pairs for g in (pair.geom1, pair.geom2)})
    segments = {g: _common_segment(model, where, g) for g in chosen}
    # Where geoms touch that are not both round: seven numbers, kept with the code. For others they are found later.
    size = 0 if all(pair.is_round for pair in pairs) else 7
    found = Found([-1.0] * model.slots, [[0.0] * size for _ in range(model.slots)], 0.0)
    for index, pair in enumerate(pairs):
        if not pair.is_convex:
            for hit, values in _hits(model, where, pair, segments, size):
                found = found.add(hit, float(index), values)
    if any(pair.is_convex for pair in pairs):
        found = add_convex(model, where, pairs, lambda link: tree_offset(where, link), found, qvel[0])
    slots = [
        _make_slot(model, where, qvel, pairs, segments, code, numbers, friction_scale)
        for code, numbers in zip(found.codes, found.known)
    ]
    return slots, sp.maximum(found.count - float(model.slots), 0.0)


def _hits(
    model: Model, where: Pose, pair: Pair, segments: dict[int, Segment], size: int
) -> list[tuple[Scalar, list[Scalar]]]:
    """Masks of the worlds where the geoms of a pair touch, by point, and what is known of the points."""
    if pair.is_round:
        return [(_touches(model, pair, segments), [0.0] * size)]
    (one, _, _), (two, _, _) = segments[pair.geom1], segments[pair.geom2]
    between = sp.minus(two, one)
    reach = sum(bounding_radius(model.geoms[g]) for g in (pair.geom1, pair.geom2)) + pair.margin
    number = COUNTS[pair.kinds]

    def compute() -> list[Scalar]:
        flat: list[Scalar] = []
        for touch in find_touches(model, where, pair, lambda link: tree_offset(where, link)):
            hit = (touch.distance < pair.margin) & touch.exists
            flat += [dr.select(hit, 1.0, 0.0), touch.distance, *touch.point, *touch.normal]
        return flat

    found = when(sp.dot(between, between) < reach * reach, compute, 8 * number, between[0])
    return [(found[8 * k] > 0.5, found[8 * k + 1 : 8 * k + 8]) for k in range(number)]


def _common_segment(model: Model, where: Pose, g: int) -> Segment:
    """A geom's segment relative to the reference point of the first tree, which slots are kept in."""
    centre, half, squared = segment(where, model.geoms[g])
    return sp.plus(centre, tree_offset(where, model.geoms[g].link)), half, squared


def tree_offset(where: Pose, link: int) -> tuple:
    """From the first tree's reference point to the one of a link's tree."""
    if where.origin[link] is where.origin[1]:
        return sp.ZERO3
    return sp.minus(where.origin[link], where.origin[1])


def _touches(model: Model, pair: Pair, segments: dict[int, Segment]) -> Scalar:
    nearest1, nearest2 = nearest_points(segments[pair.geom1], segments[pair.geom2])
    between = sp.minus(nearest2, nearest1)
    reach = model.geoms[pair.geom1].size[0] + model.geoms[pair.geom2].size[0] + pair.margin
    return sp.dot(between, between) < reach * reach


def _make_slot(
    model: Model,
    where: Pose,
    qvel: Sequence[Scalar],
    pairs: Sequence[Pair],
    segments: dict[int, Segment],
    code: Scalar,
    known: Sequence[Scalar],
    friction_scale: Scalar,
) -> Slot:
    """A slot with the contact of the pair number `code`; empty where that is -1.

    Args:
        known: distance, point and normal, where that pair is not round.
    """
    dofs = dividing_dofs(model, pairs)
    size = len(dofs)
    used = code >= 0.0

    spins = max(max(pair.condim for pair in pairs) - 3, 0)
    count = 3 + spins
    kinds = (spins > 0) + (spins > 1)

    def compute() -> list[Scalar]:
        one, two = (_pick_geom(model, pairs, segments, code, side, qvel[0]) for side in (0, 1))
        nearest1, nearest2 = nearest_points(one.segment, two.segment)
        between = sp.minus(nearest2, nearest1)
        point, distance, normal = surface_contact(nearest1, between, sp.dot(between, between), one.radius, two.radius)
        if known:
            found = [distance, *point, *normal]
            numbers = [k for k, pair in enumerate(pairs) if pair.is_round]
            if numbers:
                is_round = _among(code, numbers)
                found = [dr.select(is_round, a, b) for a, b in zip(found, known)]
            else:
                found = list(known)
            distance, point, normal = found[0], tuple(found[1:4]), tuple(found[4:])
        rows = _rows(model, where, dofs, point, normal, one, two, spins)
        speeds = [sp.dot(row, [qvel[d] for d in dofs]) for row in rows]
        law = _pick_cone(model, pairs, code, distance, speeds, one.weight + two.weight, friction_scale)
        scales = (1.0, law.friction[0], law.friction[0], *law.friction[1:], *law.friction[2:])
        rows[1:] = [[sp.mul(scale, value) for value in row] for row, scale in zip(rows[1:], scales[1:])]
        flat = [value for row in rows for value in row]
        return [*flat, *law.offsets, law.stiffness, *point, *normal, *law.friction, *law.mu, *law.has_spins]

    flat = when(used, compute, count * size + count + 8 + kinds + _is_elliptic(model, pairs) + spins, qvel[0])
    rows: list[list[Scalar]] = [[0.0] * model.nv for _ in range(count)]
    for k, row in enumerate(rows):
        for d, value in zip(dofs, flat[k * size : (k + 1) * size]):
            row[d] = value
    rest = iter(flat[count * size :])

    def take(number: int) -> list[Scalar]:
        return [next(rest) for _ in range(number)]

    # What nobody uses of this is not in the kernel.
    offsets, (stiffness,), point, normal = take(count), take(1), take(3), take(3)
    friction, mu, has_spins = take(1 + kinds), take(int(_is_elliptic(model, pairs))), take(spins)
    same = len({pair.condim for pair in pairs}) == 1
    return Slot(
        used,
        rows,
        offsets,
        stiffness,
        tuple(point),
        tuple(normal),
        friction,
        code,
        pairs,
        mu[0] if mu else None,
        [1.0] * spins if same else has_spins,
    )


@dataclass
class _Picked:
    """The geom on one side of a slot, in every world its own."""

    segment: Segment
    radius: Scalar
    weight: Scalar
    carried_by: list[Scalar | None]  # by link: a mask of the worlds where that link moves the geom


def _pick_geom(
    model: Model, pairs: Sequence[Pair], segments: dict[int, Segment], code: Scalar, side: int, like: Scalar
) -> _Picked:
    geoms = sorted(segments)
    choices = [(g, [k for k, pair in enumerate(pairs) if (pair.geom1, pair.geom2)[side] == g]) for g in geoms]
    masks = [(g, _among(code, numbers)) for g, numbers in choices if numbers]

    def pick(values: dict[int, Scalar]) -> Scalar:
        result = values[masks[0][0]]
        if all(map(sp.is_constant, values.values())) and len(set(values.values())) == 1:
            return result
        for g, mask in masks[1:]:
            result = dr.select(mask, as_array(values[g], like), as_array(result, like))
        return result

    centre = tuple(pick({g: segments[g][0][k] for g in geoms}) for k in range(3))
    half = tuple(pick({g: (segments[g][1] or sp.ZERO3)[k] for g in geoms}) for k in range(3))
    squared = pick({g: max(segments[g][2], 1e-12) for g in geoms})
    bodies = {g: model.geoms[g].body for g in geoms}
    return _Picked(
        segment=(centre, half, squared),
        radius=pick({g: model.geoms[g].size[0] for g in geoms}),
        weight=pick({g: float(model.mujoco.body_invweight0[bodies[g], 0]) for g in geoms}),
        carried_by=_carried_by(model, masks),
    )


def _among(code: Scalar, numbers: Sequence[int]) -> Scalar:
    """Whether a code is one of some numbers, as tests for runs of consecutive ones."""
    result, start = None, numbers[0]
    for number, following in zip(numbers, (*numbers[1:], -1)):
        if following == number + 1:
            continue
        inside = code == float(start) if start == number else (code >= float(start)) & (code <= float(number))
        result = inside if result is None else result | inside
        start = following
    return result


def _carried_by(model: Model, masks: Sequence[tuple[int, Scalar]]) -> list[Scalar | None]:
    carried: list[Scalar | None] = [None] * len(model.links)

    def also(link: int, mask: Scalar | None) -> None:
        if mask is not None:
            old = carried[link]
            carried[link] = mask if old is None else old | mask

    for g, mask in masks:
        also(model.geoms[g].link, mask)
    for link in range(len(model.links) - 1, 0, -1):
        also(model.links[link].parent, carried[link])
    return carried


def dividing_dofs(model: Model, pairs: Sequence[Pair]) -> list[int]:
    """Degrees of freedom that move only one geom of some pair; the others have empty Jacobian columns."""
    dividing: set[int] = set()
    for pair in pairs:
        dividing |= _moving_dofs(model, pair.link1) ^ _moving_dofs(model, pair.link2)
    return sorted(dividing)


def _moving_dofs(model: Model, link: int) -> set[int]:
    dofs: set[int] = set()
    while link > 0:
        dofs.update(model.links[link].dofs)
        link = model.links[link].parent
    return dofs


def _rows(
    model: Model,
    where: Pose,
    dofs: Sequence[int],
    point: tuple,
    normal: tuple,
    one: _Picked,
    two: _Picked,
    spins: int,
) -> list[list[Scalar]]:
    """The Jacobian of the second geom's velocity against the first's: normal, tangents and spins, some dofs."""
    tangent = default_tangent(normal)
    axes = (normal, tangent, sp.cross(normal, tangent))
    links = sorted({model.dofs[d].link for d in dofs})
    signs = {link: _side(two.carried_by[link]) - _side(one.carried_by[link]) for link in links}
    points = {root: sp.minus(point, tree_offset(where, root)) for root in {model.links[i].root for i in links}}
    rows: list[list[Scalar]] = [[] for _ in range(3 + spins)]
    for d in dofs:
        link = model.dofs[d].link
        speed = sp.scaled(signs[link], sp.point_velocity(where.axes[d], points[model.links[link].root]))
        for row, axis in zip(rows, axes):
            row.append(sp.dot(axis, speed))
        for row, axis in zip(rows[3:], axes):
            row.append(sp.mul(signs[link], sp.dot(axis, where.axes[d][:3])))
    return rows


def _side(mask: Scalar | None) -> Scalar:
    return 0.0 if mask is None else dr.select(mask, 1.0, 0.0)


def _is_elliptic(model: Model, pairs: Sequence[Pair]) -> bool:
    """Whether slots hold elliptic cones: without any friction there is no cone."""
    return model.options.elliptic and any(pair.condim > 1 for pair in pairs)


@dataclass
class _Law:
    """How the contact in a slot pushes."""

    friction: list[Scalar]
    offsets: list[Scalar]
    stiffness: Scalar
    mu: list[Scalar]  # one, or none
    has_spins: list[Scalar]


def _pick_cone(
    model: Model,
    pairs: Sequence[Pair],
    code: Scalar,
    distance: Scalar,
    speeds: Sequence[Scalar],
    weight: Scalar,
    friction_scale: Scalar,
) -> _Law:
    """How the contact of a slot pushes, by the kind of contact its pair has."""
    kinds: dict[tuple, list[int]] = {}
    for k, pair in enumerate(pairs):
        spin = pair.spin_friction if pair.condim > 3 else ()
        kinds.setdefault((pair.condim, pair.friction, spin, pair.solref, pair.solimp, pair.margin), []).append(k)
    spins = len(speeds) - 3
    groups = (spins > 0) + (spins > 1)
    result: list[Scalar] = []
    for numbers in kinds.values():
        contact = Contact(pairs[numbers[0]], 1, sp.ZERO3, distance, (1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
        spin = (*speeds[3:], 0.0, 0.0)[:3]
        cone = contact_cone(model, contact, tuple(speeds[:3]), friction_scale, weight, spin)
        padding = [0.0] * (3 + spins - len(cone.offsets))
        missing = spins - len(cone.spins)
        if cone.tangents:
            friction = [cone.tangents[0][1], *(spin[k] for k, spin in enumerate(cone.spins[:2]))]
            friction += [0.0] * (1 + groups - len(friction))
            values = [*friction, *cone.offsets, *padding, cone.stiffness, *([] if cone.mu is None else [cone.mu])]
        else:  # all four edges of a pyramid are the normal, and share its stiffness
            share, mu = (1.0, [1.0]) if _is_elliptic(model, pairs) else (0.25, [])
            values = [0.0] * (1 + groups) + [*cone.offsets, *padding, sp.mul(share, cone.stiffness), *mu]
        values += [1.0] * (spins - missing) + [0.0] * missing
        mask = _among(code, numbers)
        result = [dr.select(mask, a, b) for a, b in zip(values, result)] if result else values
    rest = iter(result)

    def take(number: int) -> list[Scalar]:
        return [next(rest) for _ in range(number)]

    return _Law(take(1 + groups), take(3 + spins), take(1)[0], take(int(_is_elliptic(model, pairs))), take(spins))
