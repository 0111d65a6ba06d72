"""Self-contacts in the solver, added to the tree's factorisation with the Woodbury identity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.cones import Modes, elliptic_modes, pyramid_modes
from slipstream.physics.constraints import Row, row_force
from slipstream.physics.control import when
from slipstream.physics.dynamics import Factors, solve_upward
from slipstream.physics.model import Model
from slipstream.physics.selfcontact import Slot
from slipstream.physics.spatial import Scalar


def slot_components(slot: Slot, vector: Sequence[Scalar], with_offset: bool) -> list[Scalar]:
    starts = slot.offsets if with_offset else [0.0] * len(slot.rows)
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


def slot_modes(slot: Slot, components: Sequence[Scalar]) -> tuple[list[Scalar], Modes]:
    """Force components, and the springs they come from."""
    if slot.mu is not None:
        return elliptic_modes(slot.stiffness, slot.mu, components)
    return pyramid_modes(slot.edge_stiffness, components)


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
        components = slot_components(slot, acceleration, True)
        force = slot_forces(slot, components)[0] if slot.is_plain else slot_modes(slot, components)[0]
        change: list[Scalar] = [0.0] * len(acceleration)
        for f, row in zip(force, slot.rows):
            change = [sp.fma(-f, r, c) for r, c in zip(row, change)]
        return change

    return over_slots(slots, compute, len(acceleration))


@dataclass
class Mode:
    """One of the three springs that the active stiffness of a slot is made of, after those before it are eliminated."""

    half: list[Scalar]  # L^-T of its row, nv
    blocks: list[Scalar]  # coupling with each mode before
    weight: Scalar
    multiplier: Scalar


def with_slots(
    model: Model,
    crossing: Sequence[Row],
    slots: Sequence[Slot],
    factors: Factors,
    acceleration: Sequence[Scalar],
    half: list[Scalar],
    measure_condition: bool,
) -> tuple[list[Scalar], Scalar]:
    """Correct a half-solved Newton step, L^-T (-gradient), for rows that cross the tree and for the slots.

    With H = L^T D L of the tree, rows j and stiffnesses k of all modes and G = J H^-1 J^T between them, the
    step changes by -H^-1 J^T m where m solves (1 + k G) m = k J step. The modes are eliminated one by one, so that
    k / (1 + k g) is all that is ever asked of a stiffness: it may vanish, and be very large.

    Returns:
        The corrected half, and by how much rounding grew on the way (or 0, if it is not measured).
    """
    nv, extra = model.nv, int(measure_condition)

    def level(index: int, before: list[Mode]) -> list[Scalar]:
        """The change of `half` by this slot and later ones (nv), their pull on each mode before, and the condition."""
        modes, condition = _eliminate(model, factors, slots[index], acceleration, half, before)
        size = nv + len(modes) + extra
        later: list[Scalar] = [0.0] * size
        if index + 1 < len(slots):
            used = slots[index + 1].used
            later = when(used, lambda: level(index + 1, modes), size, slots[index].stiffness)
        change, pulls = later[:nv], later[nv : size - extra]
        for mode in reversed(modes[len(before) :]):
            change, pulls = _resolve(mode, change, pulls)
        return [*change, *pulls, *([sp.maximum(condition, later[-1])] if measure_condition else [])]

    if not slots and not crossing:
        return half, 0.0
    modes, condition = _eliminate_rows(model, factors, crossing, acceleration, half)
    size = nv + len(modes) + extra
    later: list[Scalar] = [0.0] * size
    if slots:
        later = when(slots[0].used, lambda: level(0, modes), size, slots[0].stiffness)
    change, pulls = later[:nv], later[nv : size - extra]
    for mode in reversed(modes):
        change, pulls = _resolve(mode, change, pulls)
    if measure_condition:
        condition = sp.maximum(condition, later[-1])
    return list(sp.minus(half, change)), condition


def _resolve(mode: Mode, change: list[Scalar], pulls: list[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
    """Add the change by a mode, once all later ones are known; the last of the pulls is theirs on this one."""
    *pulls, pull = pulls
    multiplier = mode.multiplier - mode.weight * pull
    change = [sp.fma(multiplier, y, c) for y, c in zip(mode.half, change)]
    return change, [sp.fma(block, multiplier, p) for block, p in zip(mode.blocks, pulls)]


def _eliminate_rows(
    model: Model, factors: Factors, rows: Sequence[Row], acceleration: Sequence[Scalar], half: Sequence[Scalar]
) -> tuple[list[Mode], Scalar]:
    modes: list[Mode] = []
    condition = 0.0
    for row in rows:
        full: list[Scalar] = [0.0] * model.nv
        for d, value in zip(row.dofs, row.direction):
            full[d] = value
        x = sp.dot(row.direction, [acceleration[d] for d in row.dofs], row.offset)
        _, stiffness = row_force(row, x)
        own = _add_mode(factors, modes, solve_upward(model, factors, full), stiffness, half)
        condition = sp.maximum(condition, own)
    return modes, condition


def _eliminate(
    model: Model,
    factors: Factors,
    slot: Slot,
    acceleration: Sequence[Scalar],
    half: Sequence[Scalar],
    before: Sequence[Mode],
) -> tuple[list[Mode], Scalar]:
    """The modes before, and those of a slot; and by how much its stiffness lets rounding grow."""
    if not slot.is_plain:
        return _eliminate_modes(model, factors, slot, acceleration, half, before)
    normal, *tangents = (solve_upward(model, factors, row) for row in slot.rows)
    value, *along = slot_components(slot, acceleration, True)
    # Where both edges of a tangent push, the normal and the tangent are springs; where one does, that edge is.
    springs, both = [], 0.0
    for row, t in zip(tangents, along):
        plus, minus = (dr.select(x < 0.0, slot.stiffness, 0.0) for x in (value + t, value - t))
        side = dr.select(plus > minus, 1.0, dr.select(plus < minus, -1.0, 0.0))
        springs.append((plus + minus, [sp.fma(side, n, x) for n, x in zip(normal, row)]))
        both = sp.add(both, 2.0 * sp.minimum(plus, minus))
    modes, condition = list(before), 0.0
    for stiffness, row in ((both, normal), *springs):
        condition = sp.maximum(condition, _add_mode(factors, modes, row, stiffness, half))
    return modes, condition


def _eliminate_modes(
    model: Model,
    factors: Factors,
    slot: Slot,
    acceleration: Sequence[Scalar],
    half: Sequence[Scalar],
    before: Sequence[Mode],
) -> tuple[list[Mode], Scalar]:
    """The same for contacts of other kinds than a pyramid without torques."""
    axes = [solve_upward(model, factors, row) for row in slot.rows]
    modes, condition = list(before), 0.0
    for stiffness, direction in slot_modes(slot, slot_components(slot, acceleration, True))[1]:
        row: list[Scalar] = [0.0] * model.nv
        for weight, axis in zip(direction, axes):
            row = [sp.fma(weight, x, total) for x, total in zip(axis, row)]
        condition = sp.maximum(condition, _add_mode(factors, modes, row, stiffness, half))
    return modes, condition


def _add_mode(
    factors: Factors, modes: list[Mode], row: list[Scalar], stiffness: Scalar, half: Sequence[Scalar]
) -> Scalar:
    """Eliminate one more mode. Returns by how much its stiffness lets rounding grow.

    Args:
        row: L^-T of it.
    """
    scaled = [sp.mul(y, d) for y, d in zip(row, factors[1])]
    blocks: list[Scalar] = []
    for k, other in enumerate(modes):
        block = sp.dot(scaled, other.half)
        for m in range(k):
            block = sp.fma(-blocks[m] * modes[m].weight, other.blocks[m], block)
        blocks.append(block)
    alone, residual = sp.dot(scaled, row), sp.dot(scaled, half)
    own = alone
    for block, other in zip(blocks, modes):
        own = sp.fma(-block * other.weight, block, own)
        residual = sp.fma(-block, other.multiplier, residual)
    pivot = 1.0 / sp.fma(stiffness, own, 1.0)
    weight = stiffness * pivot
    modes.append(Mode(row, blocks, weight, weight * residual))
    return dr.abs(sp.fma(stiffness, alone, 1.0) * pivot)
