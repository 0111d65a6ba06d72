"""The convex problem whose minimum are the accelerations, and the forces of its constraint rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import drjit as dr

from slipstream.physics import spatial as sp
from slipstream.physics.cones import elliptic_modes, pyramid_modes
from slipstream.physics.constraints import Cone, Row
from slipstream.physics.dynamics import TreeMatrix, link_motions
from slipstream.physics.kinematics import Pose
from slipstream.physics.model import Model
from slipstream.physics.selfcontact import Slot
from slipstream.physics.spatial import Scalar
from slipstream.physics.woodbury import slot_components

Stiffness = Literal["soft", "stiff", "hard"]
"""Soft: float32 does. Stiff: float32 with more care, and double in the worlds that need it. Hard: double precision."""

LinkValues = dict[int, list[list[Scalar]]]
"""By link and contact, the accelerations along its normal and its (scaled) tangents, measured from their references."""


@dataclass
class Problem:
    """What does not change between iterations."""

    model: Model
    where: Pose
    mass: TreeMatrix
    force: Sequence[Scalar]  # smooth generalised forces, nv
    rows: list[Row]
    cones: dict[int, list[Cone]]  # by link
    slots: list[Slot]
    dropped: Scalar  # contacts between moving links that found no slot
    stiffness: Stiffness

    @property
    def crossing(self) -> list[Row]:
        """Rows that tie branches of the tree to each other."""
        return [row for row in self.rows if not row.is_on_one_branch(self.model)]

    @property
    def constrained(self) -> bool:
        return bool(self.rows or self.cones or self.slots)


def cone_rows(cone: Cone, motion: Sequence[Scalar]) -> list[Scalar]:
    """Accelerations along the normal and the (scaled) tangents, from their references."""
    return list(map(sp.add, cone_motion(cone, motion), cone.offsets)) if cone.spins else _linear_rows(cone, motion)


def _linear_rows(cone: Cone, motion: Sequence[Scalar]) -> list[Scalar]:
    at = sp.point_velocity(motion, cone.point)
    return [sp.dot(axis, at, offset) for axis, offset in zip((cone.normal, *cone.tangents), cone.offsets)]


def cone_motion(cone: Cone, motion: Sequence[Scalar]) -> list[Scalar]:
    """How fast a link moves along the axes of a contact."""
    at = sp.point_velocity(motion, cone.point)
    linear = [sp.dot(axis, at) for axis in (cone.normal, *cone.tangents)]
    return linear + [sp.dot(axis, motion[:3]) for axis in cone.spins]


def cone_edges(values: Sequence[Scalar]) -> list[Scalar]:
    """Normal and tangential components as components along the edges of the pyramid."""
    normal, *tangential = values
    if not tangential:
        return [normal]
    return [edge for t in tangential for edge in (normal + t, normal - t)]


def any_touching(cones: list[Cone]) -> Scalar:
    touching = cones[0].touching
    for cone in cones[1:]:
        touching = touching | cone.touching
    return touching


def touch_forces(problem: Problem, acceleration: Sequence[Scalar]) -> list[Scalar]:
    """The normal contact force on each of the model's touch sensors."""
    model = problem.model
    forces: list[Scalar] = [0.0] * len(model.touch)
    if not forces:
        return forces
    motions = link_motions(model, problem.where, acceleration)
    for index, geoms in enumerate(model.touch):
        for link, cones in problem.cones.items():
            for cone in cones:
                if cone.geom in geoms:
                    push, *_ = contact_forces(cone, cone_rows(cone, motions[link]))
                    forces[index] = sp.add(forces[index], push)
        for slot in problem.slots:
            push, *_ = contact_forces(slot, slot_components(slot, acceleration, True))
            forces[index] = sp.add(forces[index], dr.select(slot.has_any(geoms), push, 0.0))
    return forces


def contact_forces(contact: Cone | Slot, rows: Sequence[Scalar]) -> list[Scalar]:
    """The force of a contact along its normal and its scaled tangents (and torques along its spins)."""
    if contact.mu is not None and len(rows) > 1:
        return elliptic_modes(contact.stiffness, contact.mu, rows)[0]
    if isinstance(contact, Slot) and not contact.is_plain:
        return pyramid_modes(contact.edge_stiffness, rows)[0]
    edges = [-contact.stiffness * sp.minimum(x, 0.0) for x in cone_edges(rows)]
    return [sp.sum_of(edges), *(plus - minus for plus, minus in zip(edges[::2], edges[1::2]))]
