"""A MuJoCo model as static Python numbers, ready to be unrolled into a kernel.

Bodies that are welded together are fused into one *link*: a link is what moves as a whole. Link 0 is the
world with everything fixed to it. Degrees of freedom, joints, geoms and actuators keep MuJoCo's order, so
`qpos`, `qvel` and `ctrl` mean the same numbers in both engines.
"""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import mujoco

from slipstream.physics.pairs import HeightField, Pair
from slipstream.physics.refusal import ModelError

Integrator = Literal["euler", "rk4", "implicitfast"]
JointKind = Literal["free", "ball", "slide", "hinge"]
Floats = tuple[float, ...]


@dataclass(frozen=True)
class Joint:
    name: str
    kind: JointKind
    link: int
    qpos: int  # address of its first coordinate
    dof: int  # address of its first degree of freedom
    pos: Floats  # anchor in the frame of the link
    axis: Floats
    reference: Floats  # coordinates in the default pose
    spring_reference: Floats
    stiffness: float
    limited: bool
    range: Floats
    solref: Floats
    solimp: Floats
    margin: float

    @property
    def dofs(self) -> range:
        return range(self.dof, self.dof + {"free": 6, "ball": 3}.get(self.kind, 1))


@dataclass(frozen=True)
class Link:
    """What moves as a whole: a body with joints, and all bodies welded to it."""

    name: str
    parent: int
    root: int
    pos: Floats  # of its frame in the parent link's frame, before its joints
    quat: Floats
    joints: tuple[Joint, ...]
    mass: float
    com: Floats
    inertia_quat: Floats
    inertia: Floats  # principal moments

    @property
    def dofs(self) -> range:
        return range(self.joints[0].dof, self.joints[-1].dofs.stop) if self.joints else range(0)


@dataclass(frozen=True)
class Body:
    """One of MuJoCo's bodies: where it sits on its link."""

    name: str
    root: int  # the child of the world it descends from
    link: int
    pos: Floats
    quat: Floats
    mass: float
    com: Floats  # in the frame of the body
    inertia_quat: Floats
    inertia: Floats


@dataclass(frozen=True)
class Dof:
    link: int
    ancestors: tuple[int, ...]  # from its parent to the root
    armature: float
    damping: float
    invweight: float
    friction_loss: float
    solref: Floats
    solimp: Floats


@dataclass(frozen=True)
class Geom:
    name: str
    kind: int  # mujoco.mjtGeom
    body: int
    link: int
    pos: Floats  # in the frame of the link
    quat: Floats
    size: Floats


@dataclass(frozen=True)
class Tendon:
    """A limited combination of joints along one branch of the tree."""

    dofs: tuple[int, ...]  # from the root outwards
    coordinates: tuple[int, ...]  # their addresses in qpos
    coefficients: Floats
    range: Floats
    margin: float
    solref: Floats
    solimp: Floats
    invweight: float


@dataclass(frozen=True)
class Actuator:
    """force = gain . (1, length, velocity) * ctrl + bias . (1, length, velocity), clamped."""

    name: str
    joint: int
    gear: float
    gain: Floats
    bias: Floats
    ctrl_range: Floats
    force_range: Floats


@dataclass(frozen=True)
class Options:
    timestep: float
    integrator: Integrator
    gravity: Floats
    density: float
    viscosity: float
    wind: Floats
    impratio: float
    implicit_damping: bool
    safe_reference: bool


@dataclass(frozen=True, eq=False)
class Model:
    """All a kernel needs to know about a robot. Made by `load`, never changed."""

    mujoco: mujoco.MjModel
    options: Options
    bodies: tuple[Body, ...]
    links: tuple[Link, ...]
    joints: tuple[Joint, ...]
    dofs: tuple[Dof, ...]
    geoms: tuple[Geom, ...]
    tendons: tuple[Tendon, ...]
    actuators: tuple[Actuator, ...]
    pairs: tuple[Pair, ...]
    height_field: HeightField | None
    self_contacts: int
    newton_iterations: int
    touch: tuple[tuple[int, ...], ...]  # geoms of each touch sensor
    nq: int
    nv: int
    nu: int
    qpos0: Floats
    mass_growth: float  # by how much factoring the mass matrix lets rounding grow, in the default pose

    @property
    def can_drop_contacts(self) -> bool:
        """Whether there can be more self-contacts at once than a world has room for."""
        return sum(not pair.is_external for pair in self.pairs) > self.self_contacts

    def body(self, name: str) -> int:
        return _find(name, [body.name for body in self.bodies], "body")

    def joint(self, name: str) -> Joint:
        return self.joints[_find(name, [joint.name for joint in self.joints], "joint")]

    def geom(self, name: str) -> int:
        return _find(name, [geom.name for geom in self.geoms], "geom")


def _find(name: str, names: list[str], what: str) -> int:
    if name not in names:
        raise ModelError(f"The model has no {what} named {name!r}; it has: {', '.join(map(str, names))}.")
    return names.index(name)
