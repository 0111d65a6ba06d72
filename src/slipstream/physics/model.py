"""A MuJoCo model as static Python numbers, ready to be unrolled into a kernel.

Bodies that are welded together are fused into one *link*: a link is what moves as a whole. Link 0 is the
world with everything fixed to it. Degrees of freedom, joints, geoms and actuators keep MuJoCo's order, so
`qpos`, `qvel` and `ctrl` mean the same numbers in both engines.
"""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import mujoco

from slipstream.physics.hulls import Hull
from slipstream.physics.pairs import HeightField, LeftOut, Pair
from slipstream.physics.refusal import ModelError

Integrator = Literal["euler", "rk4", "implicitfast"]
JointKind = Literal["free", "ball", "slide", "hinge"]
Floats = tuple[float, ...]
DEFAULT_SLOTS = 6
"""For contacts of convex solids with what does not move, where there is no other self-contact."""


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
    force_range: Floats  # of all its actuators together
    carried_by_actuators: bool  # whether they, and no outer force, compensate for gravity

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
    gravity_compensation: float  # the part of its weight that is carried


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
    hull: Hull | None = None  # of a mesh that something collides with


@dataclass(frozen=True)
class Station:
    """A point that a spatial tendon runs through: a site, at its place on a link."""

    link: int
    pos: Floats
    divisor: float  # of all lengths from here on: one pulley after the other


@dataclass(frozen=True)
class Tendon:
    """A combination of joints, or a string along sites. Without either it only measures, and nobody asks for it."""

    name: str
    joints: tuple[tuple[int, int, float], ...]  # of a fixed tendon: address in qpos, dof and coefficient
    stations: tuple[tuple[Station, Station], ...]  # of a spatial tendon: its straight pieces
    limited: bool
    range: Floats
    margin: float
    solref: Floats
    solimp: Floats
    invweight: float
    stiffness: float
    rest: Floats  # between these lengths its spring is slack
    damping: float
    friction_loss: float
    friction_solref: Floats
    friction_solimp: Floats
    force_range: Floats  # of all its actuators together


ActivationKind = Literal["integrator", "filter", "filterexact"]


@dataclass(frozen=True)
class Activation:
    """The state of an actuator: its control arrives with a delay, or adds up."""

    kind: ActivationKind
    address: int  # in the state's `act`
    time: float  # constant of a filter, seconds
    range: Floats
    early: bool  # whether the force follows from the next activation


@dataclass(frozen=True)
class Actuator:
    """force = gain . (1, length, velocity) * input + bias . (1, length, velocity), clamped.

    The input is the control, or the activation.
    """

    name: str
    joint: int  # the one it drives; -1 if it pulls on a tendon
    tendon: int  # or -1
    gear: float
    gain: Floats
    bias: Floats
    ctrl_range: Floats
    force_range: Floats
    activation: Activation | None = None


@dataclass(frozen=True)
class CurveEquality:
    """Ties a joint (or a tendon) to a polynomial of another one, or to a constant."""

    is_tendon: bool
    one: int
    two: int  # or -1
    polynomial: Floats
    references: tuple[float, float]  # what both are measured from
    solref: Floats
    solimp: Floats
    weight: float


@dataclass(frozen=True)
class BodyEquality:
    """Ties a point of a link to a point of another one (connect), and their directions too (weld)."""

    links: tuple[int, int]
    points: tuple[Floats, Floats]  # in the frames of the links
    frames: tuple[Floats, Floats] | None  # quaternions on the links that shall be the same; None for a connect
    torque_scale: float
    solref: Floats
    solimp: Floats
    weights: tuple[float, float]  # of its point, and of its direction


@dataclass(frozen=True)
class Keyframe:
    """A state somebody gave a name."""

    name: str
    qpos: Floats
    qvel: Floats
    act: Floats
    ctrl: Floats


@dataclass(frozen=True)
class Options:
    timestep: float
    integrator: Integrator
    gravity: Floats
    density: float
    viscosity: float
    wind: Floats
    impratio: float
    elliptic: bool  # friction cones
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
    equalities: tuple[CurveEquality | BodyEquality, ...]
    keyframes: tuple[Keyframe, ...]
    pairs: tuple[Pair, ...]
    left_out: LeftOut
    height_field: HeightField | None
    self_contacts: int
    newton_iterations: int
    touch: tuple[tuple[int, ...], ...]  # geoms of each touch sensor
    nq: int
    nv: int
    nu: int
    na: int  # activations
    qpos0: Floats
    mass_growth: float  # by how much factoring the mass matrix lets rounding grow, in the default pose
    on_device: dict[Any, Any] = field(default_factory=dict, repr=False)  # see `solids.py`

    @property
    def slot_pairs(self) -> list[Pair]:
        """Pairs whose contacts go in slots."""
        return [pair for pair in self.pairs if pair.is_convex or not pair.is_external]

    @property
    def slots(self) -> int:
        """How many contacts of such pairs a world has room for."""
        return self.self_contacts or DEFAULT_SLOTS

    @property
    def can_drop_contacts(self) -> bool:
        """Whether there can be more of them at once than that."""
        return sum(1 + 4 * pair.is_convex for pair in self.slot_pairs) > self.slots

    def body(self, name: str) -> int:
        return _find(name, [body.name for body in self.bodies], "body")

    def joint(self, name: str) -> Joint:
        return self.joints[_find(name, [joint.name for joint in self.joints], "joint")]

    def keyframe(self, name: str) -> Keyframe:
        return self.keyframes[_find(name, [key.name for key in self.keyframes], "keyframe")]

    def geom(self, name: str) -> int:
        return _find(name, [geom.name for geom in self.geoms], "geom")


def _find(name: str, names: list[str], what: str) -> int:
    if name not in names:
        raise ModelError(f"The model has no {what} named {name!r}; it has: {', '.join(map(str, names))}.")
    return names.index(name)
