"""Contacts between two links that both move.

All pairs are tested; those that touch go into a few slots per world, since a robot touches itself in few
places at once. A slot couples two branches of the tree, which breaks the sparsity of the Hessian: the solver
adds slots one after the other on top of the tree's factorisation, with the Woodbury identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.collision import Contact, default_tangent, nearest_points, segment, surface_contact
from slipstream.physics.constraints import contact_cone
from slipstream.physics.control import when
from slipstream.physics.dynamics import Factors, solve_upward
from slipstream.physics.kinematics import Motion, Pose
from slipstream.physics.model import Model
from slipstream.physics.pairs import Pair
from slipstream.physics.spatial import Matrix, Scalar

NUMBERS = 13  # per slot: point 3, normal 3, scaled tangent 3, offsets 3, stiffness


@dataclass
class Slot:
    """One contact between moving links, in every world its own."""

    used: Scalar  # mask
    rows: list[list[Scalar]]  # Jacobian: normal and two scaled tangents, nv each
    offsets: list[Scalar]
    stiffness: Scalar


@dataclass
class Table:
    """Slots while they are filled: memory a kernel indexes per world."""

    numbers: Any
    signs: Any
    count: Scalar


def find_slots(
    model: Model, where: Pose, moving: Motion, friction_scale: Scalar
) -> tuple[list[Slot], Scalar | None]:
    """Test all pairs of moving geoms.

    Returns:
        The slots, and how many contacts found no free slot (None if no pair can touch).
    """
    pairs = [pair for pair in model.pairs if not pair.is_external]
    if not pairs:
        return [], None
    geoms = {g for pair in pairs for g in (pair.geom1, pair.geom2)}
    segments = {g: _common_segment(model, where, g) for g in geoms}
    table = _empty_table(model, where)
    for pair in pairs:
        table = _test(model, where, moving, pair, segments, table, friction_scale)
    slots = [_read_slot(model, where, table, k) for k in range(model.self_contacts)]
    return slots, dr.maximum(table.count, model.self_contacts) - model.self_contacts


def _common_segment(model: Model, where: Pose, g: int) -> tuple:
    """A geom's segment relative to the reference point of the first tree, which slots are kept in."""
    centre, half, squared = segment(where, model.geoms[g])
    return sp.plus(centre, tree_offset(where, model.geoms[g].link)), half, squared


def tree_offset(where: Pose, link: int) -> tuple:
    """From the first tree's reference point to the one of a link's tree."""
    if where.origin[link] is where.origin[1]:
        return sp.ZERO3
    return sp.minus(where.origin[link], where.origin[1])


def _empty_table(model: Model, where: Pose) -> Table:
    kind = next(type(x) for axes in where.axes for x in axes if not sp.is_constant(x))
    unsigned = dr.uint32_array_t(kind)
    words = 2 * _words(model)
    return Table(
        numbers=dr.alloc_local(kind, NUMBERS * model.self_contacts, kind(0.0)),
        signs=dr.alloc_local(unsigned, words * model.self_contacts, unsigned(0)),
        count=unsigned(0),
    )


def _words(model: Model) -> int:
    return (model.nv + 31) // 32


def _test(
    model: Model, where: Pose, moving: Motion, pair: Pair, segments: dict, table: Table, friction_scale: Scalar
) -> Table:
    one, two = segments[pair.geom1], segments[pair.geom2]
    radius1, radius2 = (model.geoms[g].size[0] for g in (pair.geom1, pair.geom2))
    nearest1, nearest2 = nearest_points(one, two)
    between = sp.minus(nearest2, nearest1)
    squared = sp.dot(between, between)
    hit = squared < (radius1 + radius2 + pair.margin) ** 2

    def store(numbers: Any, signs: Any, count: Any, nearest: list, between: list, squared: Scalar) -> tuple:
        point, distance, normal = surface_contact(tuple(nearest), tuple(between), squared, radius1, radius2)
        entry = _entry(model, where, moving, pair, point, distance, normal, friction_scale)
        free = count < model.self_contacts
        for k, value in enumerate(entry):
            numbers.write(type(squared)(value), count * NUMBERS + k, free)
        words = _sign_words(model, pair)
        for k, word in enumerate(words):
            signs.write(type(count)(word), count * len(words) + k, free)
        return numbers, signs, count + 1

    def skip(numbers: Any, signs: Any, count: Any, *_: Any) -> tuple:
        return numbers, signs, count

    arguments = (table.numbers, table.signs, table.count, list(nearest1), list(between), squared)
    return Table(*dr.if_stmt(arguments, hit, store, skip))


def _entry(
    model: Model, where: Pose, moving: Motion, pair: Pair, point: tuple, distance: Scalar, normal: tuple, friction: Scalar
) -> tuple:
    """The numbers of a slot."""
    speeds = [
        sp.point_velocity(moving.velocity[link], sp.minus(point, tree_offset(where, link)))
        for link in (pair.link1, pair.link2)
    ]
    contact = Contact(pair, pair.link2, point, distance, normal, default_tangent(normal))
    cone = contact_cone(model, contact, sp.minus(speeds[1], speeds[0]), friction)
    if cone.tangents:
        return (*point, *normal, *cone.tangents[0], *cone.offsets, cone.stiffness)
    # Without friction all four edges of the pyramid are the normal, and share its stiffness.
    return (*point, *normal, *sp.ZERO3, cone.offsets[0], 0.0, 0.0, 0.25 * cone.stiffness)


def _sign_words(model: Model, pair: Pair) -> list[int]:
    """Which degrees of freedom move only the second geom, and which only the first, as bits."""
    moves1, moves2 = (_moving_dofs(model, link) for link in (pair.link1, pair.link2))
    words = []
    for dofs in (moves2 - moves1, moves1 - moves2):
        words += [sum(1 << (d - 32 * w) for d in dofs if d // 32 == w) for w in range(_words(model))]
    return words


def _moving_dofs(model: Model, link: int) -> set[int]:
    dofs: set[int] = set()
    while link > 0:
        dofs.update(model.links[link].dofs)
        link = model.links[link].parent
    return dofs


def _read_slot(model: Model, where: Pose, table: Table, k: int) -> Slot:
    unsigned = type(table.count)
    used = table.count > k
    v = [table.numbers.read(unsigned(NUMBERS * k + i), used) for i in range(NUMBERS)]
    words = _words(model)
    bits = [table.signs.read(unsigned(2 * words * k + i), used) for i in range(2 * words)]

    def rows() -> list[Scalar]:
        point, normal, tangent = tuple(v[:3]), tuple(v[3:6]), tuple(v[6:9])
        axes = (normal, tangent, sp.cross(normal, tangent))
        result: list[list[Scalar]] = [[], [], []]
        offsets = {link.root: sp.minus(point, tree_offset(where, link.root)) for link in model.links[1:]}
        for d, dof in enumerate(model.dofs):
            word, bit = d // 32, 1 << (d % 32)
            plus, minus = ((bits[word + side * words] & bit) != 0 for side in (0, 1))
            speed = sp.point_velocity(where.axes[d], offsets[model.links[dof.link].root])
            for row, axis in zip(result, axes):
                value = sp.dot(axis, speed)
                row.append(dr.select(plus, value, dr.select(minus, -value, 0.0)))
        return [value for row in result for value in row]

    flat = when(used, rows, 3 * model.nv, v[0])
    nv = model.nv
    return Slot(used, [flat[i * nv : (i + 1) * nv] for i in range(3)], v[9:12], v[12])


# In the solver --------------------------------------------------------------------------------------


def slot_components(slot: Slot, vector: Sequence[Scalar], with_offset: bool) -> list[Scalar]:
    starts = slot.offsets if with_offset else (0.0, 0.0, 0.0)
    return [sp.dot(row, vector, start) for row, start in zip(slot.rows, starts)]


def slot_forces(slot: Slot, components: Sequence[Scalar]) -> tuple[list[Scalar], tuple]:
    """Force components, and the 3 x 3 stiffness (nn, n1, n2, 11, 22) between them."""
    normal, *tangential = components
    force, stiffness, ks = [0.0], 0.0, []
    for t in tangential:
        plus, minus = normal + t, normal - t
        k_plus, k_minus = (dr.select(x < 0.0, slot.stiffness, 0.0) for x in (plus, minus))
        f_plus, f_minus = -k_plus * plus, -k_minus * minus
        force[0] = sp.add(force[0], f_plus + f_minus)
        force.append(f_plus - f_minus)
        stiffness = sp.add(stiffness, k_plus + k_minus)
        ks.append((k_plus - k_minus, k_plus + k_minus))
    return force, (stiffness, ks[0][0], ks[1][0], ks[0][1], ks[1][1])


def slot_gradient(slot: Slot, acceleration: Sequence[Scalar]) -> list[Scalar]:
    """What a slot adds to the gradient of the cost: nv scalars."""

    def compute() -> list[Scalar]:
        force, _ = slot_forces(slot, slot_components(slot, acceleration, True))
        change: list[Scalar] = [0.0] * len(acceleration)
        for f, row in zip(force, slot.rows):
            change = [sp.fma(-f, r, c) for r, c in zip(row, change)]
        return change

    return when(slot.used, compute, len(acceleration), slot.stiffness)


@dataclass
class Elimination:
    """A slot after elimination of the slots before it. Matrices are 3 x 3, as rows."""

    half: list[list[Scalar]]  # L^-T of the slot's three rows, nv each
    blocks: list[Matrix]  # coupling with each slot before
    weight: Matrix
    multiplier: list[Scalar]


def with_slots(
    model: Model, slots: Sequence[Slot], factors: Factors, acceleration: Sequence[Scalar], half: list[Scalar]
) -> list[Scalar]:
    """Correct a half-solved Newton step, L^-T (-gradient), for the stiffness of the slots.

    With H = L^T D L of the tree, G = J H^-1 J^T between slots and k the active stiffness of a slot, the
    step changes by -H^-1 J^T m where m solves (1 + k G) m = k J step. The slots are eliminated one by one;
    (1 + k G)^-1 k exists for a singular k too.
    """
    done: list[Elimination] = []
    nv = model.nv
    for slot in slots:
        count = 3 * nv + 9 * len(done) + 12

        def compute(slot: Slot = slot) -> list[Scalar]:
            return _flatten(_eliminate(model, factors, slot, acceleration, half, done))

        done.append(_unflatten(when(slot.used, compute, count, slot.stiffness), nv, len(done)))
    multipliers: list[list[Scalar]] = [[]] * len(done)
    for k in range(len(done) - 1, -1, -1):
        pulled: list[Scalar] = [0.0] * 3
        for i in range(k + 1, len(done)):
            pulled = list(sp.plus(pulled, sp.rotate_back(done[i].blocks[k], multipliers[i])))
        multipliers[k] = list(sp.minus(done[k].multiplier, sp.rotate(done[k].weight, pulled)))
    for slot, elimination, multiplier in zip(slots, done, multipliers):

        def change(elimination: Elimination = elimination, multiplier: list = multiplier) -> list[Scalar]:
            return [sp.dot(multiplier, [row[d] for row in elimination.half]) for d in range(nv)]

        half = list(sp.minus(half, when(slot.used, change, nv, slot.stiffness)))
    return half


def _eliminate(
    model: Model,
    factors: Factors,
    slot: Slot,
    acceleration: Sequence[Scalar],
    half: Sequence[Scalar],
    before: Sequence[Elimination],
) -> Elimination:
    rows = [solve_upward(model, factors, row) for row in slot.rows]
    scaled = [[sp.mul(y, d) for y, d in zip(row, factors[1])] for row in rows]
    blocks: list[Matrix] = []
    for k, other in enumerate(before):
        block: Matrix = [[sp.dot(s, y) for y in other.half] for s in scaled]
        for m in range(k):
            block = _minus_product(block, blocks[m], sp.matmul(before[m].weight, _transposed(other.blocks[m])))
        blocks.append(block)
    own: Matrix = [[sp.dot(s, y) for y in rows] for s in scaled]
    residual = [sp.dot(s, half) for s in scaled]
    for block, other in zip(blocks, before):
        own = _minus_product(own, block, sp.matmul(other.weight, _transposed(block)))
        residual = list(sp.minus(residual, sp.rotate(block, other.multiplier)))
    _, (nn, n1, n2, k11, k22) = slot_forces(slot, slot_components(slot, acceleration, True))
    stiffness = ((nn, n1, n2), (n1, k11, 0.0), (n2, 0.0, k22))
    system = [sp.plus(row, sp.IDENTITY[i]) for i, row in enumerate(sp.matmul(stiffness, own))]
    weight = sp.matmul(_inverse3(system), stiffness)
    return Elimination(rows, blocks, weight, list(sp.rotate(weight, residual)))


def _minus_product(start: Matrix, a: Matrix, b: Matrix) -> Matrix:
    return [sp.minus(row, product) for row, product in zip(start, sp.matmul(a, b))]


def _transposed(m: Matrix) -> Matrix:
    return [sp.column(m, k) for k in range(3)]


def _flatten(e: Elimination) -> list[Scalar]:
    rows = [*e.half, *(row for block in e.blocks for row in block), *e.weight, e.multiplier]
    return [value for row in rows for value in row]


def _unflatten(flat: Sequence[Scalar], nv: int, before: int) -> Elimination:
    half = [list(flat[k * nv : (k + 1) * nv]) for k in range(3)]
    rest = [tuple(flat[i : i + 3]) for i in range(3 * nv, len(flat), 3)]
    blocks = [rest[3 * k : 3 * k + 3] for k in range(before)]
    return Elimination(half, blocks, rest[3 * before : 3 * before + 3], list(rest[-1]))


def _inverse3(m: Matrix) -> Matrix:
    columns = [sp.cross(m[1], m[2]), sp.cross(m[2], m[0]), sp.cross(m[0], m[1])]
    scale = 1.0 / sp.dot(m[0], columns[0])
    return [[sp.mul(scale, columns[j][i]) for j in range(3)] for i in range(3)]
