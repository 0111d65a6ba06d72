"""Which parts of a model are its base and its feet, and how it stands: found, unless the user says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slipstream import physics
from slipstream.physics import Model, ModelError, Terrain
from slipstream.physics import spatial as sp
from slipstream.physics.collision import Contact, external_contacts

HOMES = ("home", "stand", "standing")
"""Names of keyframes in which robots stand, the likeliest first."""
FOOT_TOLERANCE = 0.05
"""What is nearer to the ground at home than this share of the base's height stands on it."""


@dataclass(frozen=True)
class Foot:
    """What a leg stands on."""

    name: str  # of its body
    link: int
    geoms: tuple[int, ...]  # those that are on the ground at home
    point: tuple[float, ...]  # the middle of its sole, in the frame of the link
    place: tuple[float, ...]  # of that point at home, in the world, the base being at (0, 0)


@dataclass(frozen=True)
class Anatomy:
    """How a robot is made, as far as walking is concerned.

    Attributes:
        base: the body that floats.
        home: the coordinates in which it stands on flat ground, nq.
        source: where they are from, in words.
        driven: for each actuator, the number of the joint it drives.
        feet: in the order of their angle around the base.
    """

    base: int
    home: tuple[float, ...]
    source: str
    driven: tuple[int, ...]
    feet: tuple[Foot, ...]

    @property
    def height(self) -> float:
        """Of the base over the ground, at home."""
        return self.home[2]

    def describe(self, model: Model) -> str:
        """In one line, for people."""
        feet = ", ".join(foot.name for foot in self.feet)
        return f"base {model.bodies[self.base].name}, {self.height:.2f} m high in {self.source}; feet: {feet}"


def find_anatomy(
    model: Model, home: str | None = None, feet: Sequence[str] = (), ground: Terrain | None = None
) -> Anatomy:
    """Find out how a robot is made.

    Args:
        home: the keyframe it stands in; by default one that is named so, else the first, else the default pose.
        feet: names of geoms or bodies; by default whatever is on the ground at home.
        ground: what it stands on, where that is a height field.

    Raises:
        ModelError: it has no legs to stand on; the message says what is missing.
    """
    base = _base(model)
    pose, source = _home(model, home)
    # A base that hovers or sinks a little in its keyframe would fall before its first step.
    low = physics.clearance(model, physics.pose(model, pose), ground)
    pose = (0.0, 0.0, pose[2] - float(low), *pose[3:])
    if pose[2] <= 0:
        raise ModelError(
            f"The base of a legged robot is above its feet, and the ground at height 0; at home the base is at "
            f"{pose[2]:.2f} m."
        )
    found = _feet(model, base, pose, feet, ground)
    return Anatomy(base, pose, source, _driven(model), tuple(sorted(found, key=_angle)))


def _base(model: Model) -> int:
    first = model.joints[0] if model.joints else None
    if first is None or first.kind != "free":
        raise ModelError("A legged robot floats: its first joint must be a free one (<freejoint/> in its base).")
    return next(i for i, body in enumerate(model.bodies) if body.link == first.link)


def _home(model: Model, name: str | None) -> tuple[tuple[float, ...], str]:
    names = [key.name for key in model.keyframes]
    if name is None:
        name = next((known for known in HOMES if known in names), names[0] if names else None)
    if name is None:
        return model.qpos0, "its default pose"
    return model.keyframe(name).qpos, f"keyframe {name!r}"


def _driven(model: Model) -> tuple[int, ...]:
    for actuator in model.actuators:
        if actuator.joint < 0 or model.joints[actuator.joint].kind != "hinge":
            raise ModelError(f"Actuator {actuator.name!r} does not drive a hinge; legs are moved by hinges.")
    if not model.actuators:
        raise ModelError("The model has no actuators: nothing can move its legs.")
    return tuple(actuator.joint for actuator in model.actuators)


def _feet(model: Model, base: int, home: Sequence[float], names: Sequence[str], ground: Terrain | None) -> list[Foot]:
    where = physics.pose(model, home)
    contacts = [c for c in external_contacts(model, where, ground) if c.link != model.bodies[base].link]
    if names:
        chosen = [_named(model, base, contacts, name) for name in names]
        if len({c[0].link for c in chosen}) < len(chosen):
            raise ModelError(f"Each foot has a link of its own; of {', '.join(names)} two are on the same one.")
    else:
        lowest = [c for c in contacts if float(c.distance) < FOOT_TOLERANCE * home[2]]
        links = {c.link for c in lowest}
        above = {link for foot in links for link in _ancestors(model, foot)}  # an ankle is not a foot of its own
        chosen = [[c for c in lowest if c.link == link] for link in sorted(links - above)]
    if len(chosen) < 2:
        found = ", ".join(model.links[c[0].link].name for c in chosen) or "none"
        raise ModelError(
            f"A legged robot stands on two feet or more; on the ground at home: {found}. Choose another keyframe "
            "(home), or name the geoms or bodies that are feet (feet)."
        )
    return [_foot(model, where, contacts) for contacts in chosen]


def _ancestors(model: Model, link: int) -> list[int]:
    parent = model.links[link].parent
    return [parent, *_ancestors(model, parent)] if parent else []


def _named(model: Model, base: int, contacts: Sequence[Contact], name: str) -> list[Contact]:
    geoms = [i for i, g in enumerate(model.geoms) if g.link and name in (g.name, model.bodies[g.body].name)]
    if geoms and model.geoms[geoms[0]].link == model.bodies[base].link:
        raise ModelError(f"{name!r} cannot be a foot: it belongs to the base.")
    if not geoms:
        raise ModelError(f"The model has no geom or body named {name!r} that could be a foot.")
    found = [c for c in contacts if {c.pair.geom1, c.pair.geom2} & set(geoms)]
    if not found:
        raise ModelError(f"{name!r} cannot be a foot: it does not collide with the ground.")
    least = min(float(c.distance) for c in found)
    return [c for c in found if float(c.distance) < least + 1e-3]


def _foot(model: Model, where: Any, contacts: Sequence[Contact]) -> Foot:
    """A foot whose sole is in the middle of all the points that are on the ground."""
    link = contacts[0].link
    middle = tuple(sum(float(c.point[k]) for c in contacts) / len(contacts) for k in range(3))
    place = sp.plus(middle, where.origin[link])
    point = sp.rotate_back(where.rotation[link], sp.minus(middle, where.position[link]))
    touching = {geom for c in contacts for geom in (c.pair.geom1, c.pair.geom2) if model.geoms[geom].link == link}
    name = model.links[link].name
    return Foot(name, link, tuple(sorted(touching)), tuple(map(float, point)), tuple(map(float, place)))


def _angle(foot: Foot) -> float:
    return math.atan2(foot.place[1], foot.place[0]) % (2.0 * math.pi)


def with_yaw(home: Sequence[float], angle: Any) -> list[Any]:
    """The coordinates of a robot that stands as at home, turned about the vertical by an angle."""
    import drjit as dr

    sin, cos = dr.sincos(0.5 * angle)
    return [*home[:3], *sp.quaternion_product((cos, 0.0, 0.0, sin), tuple(home[3:7])), *home[7:]]
