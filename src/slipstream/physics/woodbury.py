"""Self-contacts in the solver, added to the tree's factorisation with the Woodbury identity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.control import when
from slipstream.physics.dynamics import Factors, solve_upward
from slipstream.physics.model import Model
from slipstream.physics.selfcontact import Slot
from slipstream.physics.spatial import Matrix, Scalar


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


def over_slots(
    slots: Sequence[Slot], compute: Callable[[Slot], Sequence[Scalar]], count: int, first: int = 0
) -> list[Scalar]:
    """The sum of `compute(slot)` over the slots in use.

    Slots fill from the first to the last: a packet of worlds that does not use one uses none after it, and
    leaves here at once.
    """
    if first == len(slots):
        return [0.0] * count

    def level() -> tuple:
        return sp.plus(compute(slots[first]), over_slots(slots, compute, count, first + 1))

    return when(slots[first].used, level, count, slots[first].stiffness)


def slots_gradient(slots: Sequence[Slot], acceleration: Sequence[Scalar]) -> list[Scalar]:
    """What slots add to the gradient of the cost: nv scalars."""

    def compute(slot: Slot) -> list[Scalar]:
        force, _ = slot_forces(slot, slot_components(slot, acceleration, True))
        change: list[Scalar] = [0.0] * len(acceleration)
        for f, row in zip(force, slot.rows):
            change = [sp.fma(-f, r, c) for r, c in zip(row, change)]
        return change

    return over_slots(slots, compute, len(acceleration))


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
    nv = model.nv

    def level(k: int, before: list[Elimination]) -> list[Scalar]:
        """The change of `half` by slots k and later (nv), and their pull on each slot before k (3 each)."""
        done = [*before, _eliminate(model, factors, slots[k], acceleration, half, before)]
        size = nv + 3 * (k + 1)
        later: list[Scalar] = [0.0] * size
        if k + 1 < len(slots):
            later = when(slots[k + 1].used, lambda: level(k + 1, done), size, slots[k].stiffness)
        own = done[k]
        multiplier = sp.minus(own.multiplier, sp.rotate(own.weight, later[-3:]))
        change = [sp.dot(multiplier, column, start) for *column, start in zip(*own.half, later)]
        pulls = later[nv:-3]
        for j, block in enumerate(own.blocks):
            pulls[3 * j : 3 * j + 3] = sp.plus(pulls[3 * j : 3 * j + 3], sp.rotate_back(block, multiplier))
        return [*change, *pulls]

    if not slots:
        return half
    return list(sp.minus(half, when(slots[0].used, lambda: level(0, []), nv, slots[0].stiffness)))


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


def _inverse3(m: Matrix) -> Matrix:
    columns = [sp.cross(m[1], m[2]), sp.cross(m[2], m[0]), sp.cross(m[0], m[1])]
    scale = 1.0 / sp.dot(m[0], columns[0])
    return [[sp.mul(scale, columns[j][i]) for j in range(3)] for i in range(3)]
