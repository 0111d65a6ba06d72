"""Tendons: how long they are, and how joints pull on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.kinematics import Pose, pose
from slipstream.physics.model import Model, Tendon
from slipstream.physics.spatial import Scalar


@dataclass(frozen=True)
class Path:
    """A tendon in a pose.

    Attributes:
        dofs: degrees of freedom that move it, from the root outwards.
        pulls: by how much each of them makes it longer.
    """

    length: Scalar
    dofs: tuple[int, ...]
    pulls: tuple[Scalar, ...]

    def speed(self, qvel: Sequence[Scalar]) -> Scalar:
        return sp.dot(self.pulls, [qvel[d] for d in self.dofs])


def tendon_path(model: Model, tendon: Tendon, qpos: Sequence[Scalar], where: Pose | None = None) -> Path:
    """Where a tendon runs.

    Args:
        where: the pose at qpos, if it is known already.
    """
    if tendon.joints:
        addresses, dofs, coefficients = zip(*tendon.joints)
        return Path(sp.dot(coefficients, [qpos[q] for q in addresses]), dofs, coefficients)
    where = where or pose(model, qpos)
    length, pulls = 0.0, {}
    for one, two in tendon.stations:
        ends = [sp.rotate(where.rotation[s.link], s.pos, where.position[s.link]) for s in (one, two)]
        apart = sp.minus(ends[1], ends[0])
        if where.origin[one.link] is not where.origin[two.link]:
            apart = sp.plus(apart, sp.minus(where.origin[two.link], where.origin[one.link]))
        piece = dr.sqrt(sp.dot(apart, apart))
        length = sp.fma(1.0 / one.divisor, piece, length)
        direction = sp.scaled(1.0 / (one.divisor * sp.maximum(piece, 1e-15)), apart)
        chains = [chain_of(model, s.link) for s in (one, two)]
        for sign, chain, other, end in ((-1.0, *chains, ends[0]), (1.0, *chains[::-1], ends[1])):
            for d in chain:
                if d not in other:  # what moves both ends leaves the piece as long as it is
                    pull = sp.mul(sign, sp.dot(direction, sp.point_velocity(where.axes[d], end)))
                    pulls[d] = sp.add(pulls.get(d, 0.0), pull)
    dofs = tuple(sorted(pulls))
    return Path(length, dofs, tuple(pulls[d] for d in dofs))


def chain_of(model: Model, link: int) -> list[int]:
    """All degrees of freedom that move a link, from the root outwards."""
    chain: list[int] = []
    while link > 0:
        chain[:0] = model.links[link].dofs
        link = model.links[link].parent
    return chain


def tendon_forces(
    model: Model, where: Pose, qpos: Sequence[Scalar], qvel: Sequence[Scalar], start: Sequence[Scalar]
) -> list[Scalar]:
    """Springs and dampers of tendons, added to generalised forces."""
    result = list(start)
    for tendon in model.tendons:
        if tendon.stiffness == 0.0 and tendon.damping == 0.0:
            continue
        path = tendon_path(model, tendon, qpos, where)
        force = sp.mul(-tendon.damping, path.speed(qvel))
        if tendon.stiffness != 0.0:
            low, high = tendon.rest
            stretch = path.length - high if low == high else path.length - sp.clip(path.length, low, high)
            force = sp.fma(-tendon.stiffness, stretch, force)
        for d, pull in zip(path.dofs, path.pulls):
            result[d] = sp.fma(pull, force, result[d])
    return result
