"""Which geoms can touch, and how their contact behaves: MuJoCo's rules, applied when a model is loaded."""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import mujoco
import numpy as np

from slipstream.physics.refusal import Refusal, grouped

PLANE = int(mujoco.mjtGeom.mjGEOM_PLANE)
HFIELD = int(mujoco.mjtGeom.mjGEOM_HFIELD)
SPHERE = int(mujoco.mjtGeom.mjGEOM_SPHERE)
CAPSULE = int(mujoco.mjtGeom.mjGEOM_CAPSULE)
BOX = int(mujoco.mjtGeom.mjGEOM_BOX)
CYLINDER = int(mujoco.mjtGeom.mjGEOM_CYLINDER)
ELLIPSOID = int(mujoco.mjtGeom.mjGEOM_ELLIPSOID)
MESH = int(mujoco.mjtGeom.mjGEOM_MESH)

COLLIDERS = {
    (PLANE, SPHERE), (PLANE, CAPSULE), (PLANE, BOX), (PLANE, CYLINDER), (PLANE, ELLIPSOID), (PLANE, MESH),
    (HFIELD, SPHERE), (HFIELD, CAPSULE), (HFIELD, BOX), (HFIELD, CYLINDER), (HFIELD, ELLIPSOID), (HFIELD, MESH),
    (SPHERE, SPHERE), (SPHERE, CAPSULE), (CAPSULE, CAPSULE), (SPHERE, BOX), (SPHERE, CYLINDER), (BOX, BOX),
    (CAPSULE, BOX),
}  # fmt: skip
ROUND = (SPHERE, CAPSULE)
CONVEX = {
    (SPHERE, ELLIPSOID), (SPHERE, MESH), (CAPSULE, ELLIPSOID), (CAPSULE, CYLINDER), (CAPSULE, MESH),
    (ELLIPSOID, ELLIPSOID), (ELLIPSOID, CYLINDER), (ELLIPSOID, BOX), (ELLIPSOID, MESH),
    (CYLINDER, CYLINDER), (CYLINDER, BOX), (CYLINDER, MESH), (BOX, MESH), (MESH, MESH),
}  # fmt: skip
"""Pairs of solids that a kernel picks by number, in one loop over those that are near each other."""
COSTS = {(BOX, BOX): 60, (CAPSULE, BOX): 20, (SPHERE, BOX): 3, (SPHERE, CYLINDER): 3}
"""For how many pairs of round geoms a pair of others counts."""

MOST_SELF_PAIRS = 3000
"""All pairs of moving geoms are tested in every step, and a kernel that tests more would compile for many minutes."""
SMALLEST_FRICTION = 1e-5
SMALLEST_IMPEDANCE, LARGEST_IMPEDANCE = 1e-4, 0.9999


@dataclass(frozen=True)
class Pair:
    """Two geoms that may touch, the one of the lower geom type first, and the contact's parameters."""

    geom1: int
    geom2: int
    kinds: tuple[int, int]
    link1: int
    link2: int
    condim: int
    friction: float
    spin_friction: tuple[float, float]  # about the normal, and of rolling
    solref: tuple[float, ...]
    solimp: tuple[float, ...]
    margin: float
    invweight: float
    safe_timestep: float
    several_points: bool = True  # MuJoCo's multiccd

    @property
    def sorted_geoms(self) -> tuple[int, int]:
        return min(self.geom1, self.geom2), max(self.geom1, self.geom2)

    @property
    def is_round(self) -> bool:
        """Whether both geoms are spheres or capsules."""
        return self.kinds[0] in ROUND and self.kinds[1] in ROUND

    @property
    def is_convex(self) -> bool:
        """Whether its contacts come from the search over convex solids."""
        return self.kinds in CONVEX

    @property
    def has_faces(self) -> bool:
        """Whether MuJoCo looks for more than one point, where faces or edges lie on each other."""
        return self.several_points and not set(self.kinds) & {SPHERE, ELLIPSOID}

    @property
    def is_external(self) -> bool:
        """Whether one of the two does not move, so that the contact acts on a single link."""
        return 0 in (self.link1, self.link2)


@dataclass(frozen=True, eq=False)
class HeightField:
    """A terrain: heights [rows, columns] in metres over the rectangle 2 size_x by 2 size_y around `pos`."""

    geom: int
    pos: tuple[float, float, float]
    size: tuple[float, float]
    heights: np.ndarray = field(repr=False)


def standard_reference(solref: Sequence[float], solimp: Sequence[float], safe_timestep: float) -> tuple[float, float]:
    """MuJoCo's solref as stiffness and damping of the constraint's reference acceleration."""
    largest = min(max(solimp[1], SMALLEST_IMPEDANCE), LARGEST_IMPEDANCE)
    if solref[0] > 0:
        time = max(solref[0], 2 * safe_timestep)
        ratio = solref[1]
        return 1 / max(1e-15, largest**2 * time**2 * ratio**2), 2 / max(1e-15, largest * time)
    return -solref[0] / largest**2, -solref[1] / largest


@dataclass(frozen=True)
class LeftOut:
    """Pairs of geoms that MuJoCo lets touch each other and that pass through each other here, by wish of the caller."""

    geoms: frozenset[tuple[int, int]] = frozenset()  # the lower number first
    lines: tuple[str, ...] = ()  # what they are, alike ones on one line


def find_pairs(
    m: mujoco.MjModel, safe_timestep: float, self_collision: bool, leave_out: bool = False
) -> tuple[list[Pair], list[Refusal], LeftOut]:
    """All pairs MuJoCo would test, what about them is not simulated, and which are left out.

    Args:
        self_collision: whether there are pairs of two moving geoms.
        leave_out: whether pairs that are not simulated are left out.
    """
    bit = mujoco.mjtDisableBit
    if m.opt.disableflags & (int(bit.mjDSBL_CONTACT) | int(bit.mjDSBL_CONSTRAINT)):
        return [], [], LeftOut()
    links = links_of_bodies(m)
    link_of = [links[b] for b in m.geom_bodyid.tolist()]
    explicit = {tuple(sorted((int(m.pair_geom1[p]), int(m.pair_geom2[p])))): p for p in range(m.npair)}
    make = _Maker(m, link_of, safe_timestep)
    pairs = [make.explicit(p) for p in explicit.values()]
    dynamic = ((a, b) for a, b in _dynamic_pairs(m) if (a, b) not in explicit)
    pairs += [make.mixed(a, b) for a, b in dynamic if link_of[a] or link_of[b]]
    if not self_collision:
        pairs = [pair for pair in pairs if pair.is_external]
    out = LeftOut()
    if leave_out:
        odd = {pair: list(_refusals(m, pair)) for pair in pairs}
        lines = grouped(refusal for refusals in odd.values() for refusal in refusals)
        geoms = frozenset(pair.sorted_geoms for pair, refusals in odd.items() if refusals)
        out = LeftOut(geoms, tuple(lines))
        pairs = [pair for pair in pairs if not odd[pair]]
    kept = {pair.sorted_geoms for pair in pairs}
    refusals = [refusal for geoms, p in explicit.items() if geoms in kept for refusal in _odd(m, p)]
    refusals += [refusal for pair in pairs for refusal in _refusals(m, pair)]
    moving = sum(COSTS.get(pair.kinds, 1) for pair in pairs if not pair.is_external)
    if moving > MOST_SELF_PAIRS:
        way_out = "exclude some, or load without self-collision (check-model --no-self-collision)."
        why = f"{moving:,} pairs of moving geoms may touch each other, more than {MOST_SELF_PAIRS:,} "
        why += f"(two boxes count for {COSTS[BOX, BOX]} round ones); {way_out}"
        refusals.append(Refusal("<geom>", why))
    return pairs, refusals, out


def _dynamic_pairs(m: mujoco.MjModel) -> Iterator[tuple[int, int]]:
    """The lower number of a geom first, in MuJoCo's order."""
    excluded = np.array([(int(s) >> 16, int(s) & 0xFFFF) for s in m.exclude_signature], int).reshape(-1, 2)
    filter_parent = not m.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_FILTERPARENT)
    apart = np.ones((m.nbody, m.nbody), bool)  # whether geoms of two bodies may touch
    apart[excluded[:, 0], excluded[:, 1]] = apart[excluded[:, 1], excluded[:, 0]] = False
    weld = np.array(m.body_weldid)
    parent = weld[m.body_parentid[weld]]
    apart &= weld[:, None] != weld
    if filter_parent:
        related = (parent[:, None] == weld) & (weld != 0) & (weld[:, None] != 0)
        apart &= ~(related | related.T)
    contype, conaffinity, body = np.array(m.geom_contype), np.array(m.geom_conaffinity), np.array(m.geom_bodyid)
    for a in range(m.ngeom):
        affine = (contype[a] & conaffinity[a + 1 :]) | (contype[a + 1 :] & conaffinity[a])
        for b in np.nonzero((affine != 0) & apart[body[a], body[a + 1 :]])[0]:
            yield a, a + 1 + int(b)


def links_of_bodies(m: mujoco.MjModel) -> list[int]:
    """The link of every body: bodies with joints, and the world, start a new one."""
    links, count = [], -1
    for b in range(m.nbody):
        if b == 0 or m.body_jntnum[b] > 0:
            count += 1
            links.append(count)
        else:
            links.append(links[int(m.body_parentid[b])])
    return links


class _Maker:
    """Makes pairs, of which there can be a hundred thousand: what it asks of geoms are plain numbers."""

    def __init__(self, m: mujoco.MjModel, link_of: list[int], safe_timestep: float) -> None:
        self.m, self.link_of, self.safe_timestep = m, link_of, safe_timestep
        self.several_points = not m.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_MULTICCD)
        self.kind, self.priority = m.geom_type.tolist(), m.geom_priority.tolist()
        self.condim, self.friction = m.geom_condim.tolist(), m.geom_friction.tolist()
        self.margin, self.solmix = m.geom_margin.tolist(), m.geom_solmix.tolist()
        self.solref, self.solimp = m.geom_solref.tolist(), m.geom_solimp.tolist()
        self.invweight = [m.body_invweight0[b, 0].item() for b in m.geom_bodyid]

    def explicit(self, p: int) -> Pair:
        m = self.m
        return self._make(
            int(m.pair_geom1[p]),
            int(m.pair_geom2[p]),
            condim=int(m.pair_dim[p]),
            friction=max(float(m.pair_friction[p, 0]), SMALLEST_FRICTION),
            spin_friction=_spin_friction(m.pair_friction[p, 2:4].tolist()),
            solref=tuple(map(float, m.pair_solref[p])),
            solimp=tuple(map(float, m.pair_solimp[p])),
            margin=float(m.pair_margin[p]),
        )

    def mixed(self, a: int, b: int) -> Pair:
        """A pair whose parameters are mixed from those of its geoms."""
        priority = self.priority[a] - self.priority[b]
        if priority:
            g = a if priority > 0 else b
            condim, friction = self.condim[g], self.friction[g]
            solref, solimp = self.solref[g], self.solimp[g]
        else:
            condim = max(self.condim[a], self.condim[b])
            friction = list(map(max, self.friction[a], self.friction[b]))
            mix = _mix(self.solmix[a], self.solmix[b])
            ref_a, ref_b = self.solref[a], self.solref[b]
            standard = ref_a[0] > 0 and ref_b[0] > 0
            solref = _blend(mix, ref_a, ref_b) if standard else list(map(min, ref_a, ref_b))
            solimp = _blend(mix, self.solimp[a], self.solimp[b])
        return self._make(
            a,
            b,
            condim=condim,
            friction=max(friction[0], SMALLEST_FRICTION),
            spin_friction=_spin_friction(friction[1:]),
            solref=tuple(solref),
            solimp=tuple(solimp),
            margin=self.margin[a] + self.margin[b],
        )

    def _make(self, a: int, b: int, **parameters: Any) -> Pair:
        if self.kind[a] > self.kind[b]:
            a, b = b, a
        return Pair(
            geom1=a,
            geom2=b,
            kinds=(self.kind[a], self.kind[b]),
            link1=self.link_of[a],
            link2=self.link_of[b],
            invweight=self.invweight[a] + self.invweight[b],
            safe_timestep=self.safe_timestep,
            several_points=self.several_points,
            **parameters,
        )


def _spin_friction(values: Sequence[float]) -> tuple[float, float]:
    return max(values[0], SMALLEST_FRICTION), max(values[1], SMALLEST_FRICTION)


def _blend(mix: float, a: Sequence[float], b: Sequence[float]) -> list[float]:
    return [mix * x + (1 - mix) * y for x, y in zip(a, b)]


def _mix(a: float, b: float) -> float:
    tiny = 1e-15
    if a >= tiny and b >= tiny:
        return a / (a + b)
    if a < tiny and b < tiny:
        return 0.5
    return 0.0 if a < tiny else 1.0


def _odd(m: mujoco.MjModel, p: int) -> Iterator[Refusal]:
    """What about a <pair> is not simulated, beside what no pair may ask for."""
    name = (m.pair(p).name or f"#{p}",)
    if np.any(m.pair_solreffriction[p]):
        yield Refusal("<pair{} solreffriction>", "not simulated.", name)
    if m.pair_friction[p, 0] != m.pair_friction[p, 1]:
        yield Refusal("<pair{} friction>", "both tangents must have the same friction.", name)
    if m.pair_dim[p] == 6 and m.pair_friction[p, 3] != m.pair_friction[p, 4]:
        yield Refusal("<pair{} friction>", "both directions of rolling must have the same friction.", name)
    if m.pair_adhesion[p] != 0:
        yield Refusal("<pair{} adhesion>", "not simulated.", name)


def _refusals(m: mujoco.MjModel, pair: Pair) -> Iterator[Refusal]:
    """What about a pair is not simulated."""
    collides = pair.kinds in COLLIDERS or pair.is_convex
    fixed_ground = pair.kinds[0] not in (PLANE, HFIELD) or pair.link1 == 0
    native = not m.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_NATIVECCD)
    if collides and fixed_ground and (native or not pair.is_convex):
        return
    names = tuple(m.geom(g).name or f"#{g}" for g in (pair.geom1, pair.geom2))
    kinds = [mujoco.mjtGeom(k).name.removeprefix("mjGEOM_").lower() for k in pair.kinds]
    element = f"<geom{{}} type={kinds[0]!r}> against <geom{{}} type={kinds[1]!r}>"
    way_out = "exclude the pair, or load without such pairs (leave_out_pairs=True, check-model --leave-out-pairs)."
    if pair.is_convex and not native:
        yield Refusal(element, f"this collision is not simulated without nativeccd; {way_out}", names)
        return
    if not collides:
        yield Refusal(element, f"this collision is not simulated; {way_out}", names)
    elif not fixed_ground:
        yield Refusal(element, f"a {kinds[0]} must not move; {way_out}", names)


def field_refusals(m: mujoco.MjModel, pairs: Sequence[Pair]) -> Iterator[Refusal]:
    """What about height fields is not simulated."""
    geoms = {pair.geom1 for pair in pairs if pair.kinds[0] == HFIELD}
    if len(geoms) > 1:
        yield Refusal("<geom type='hfield'>", f"{len(geoms)} of them collide; one is simulated.")
    data = mujoco.MjData(m)
    mujoco.mj_kinematics(m, data)
    for g in geoms:
        if not np.allclose(data.geom_xmat[g], np.eye(3).ravel()):
            yield Refusal("<geom{} type='hfield'>", "it must not be rotated.", (m.geom(g).name or f"#{g}",))


def find_height_field(m: mujoco.MjModel, pairs: Sequence[Pair]) -> HeightField | None:
    """The one that something collides with."""
    g = next((pair.geom1 for pair in pairs if pair.kinds[0] == HFIELD), None)
    if g is None:
        return None
    data = mujoco.MjData(m)
    mujoco.mj_kinematics(m, data)
    h = int(m.geom_dataid[g])
    rows, columns, start = int(m.hfield_nrow[h]), int(m.hfield_ncol[h]), int(m.hfield_adr[h])
    heights = m.hfield_data[start : start + rows * columns].reshape(rows, columns) * m.hfield_size[h, 2]
    x, y, z = map(float, data.geom_xpos[g])
    return HeightField(
        geom=g,
        pos=(x, y, z),
        size=(float(m.hfield_size[h, 0]), float(m.hfield_size[h, 1])),
        heights=np.ascontiguousarray(heights, np.float32),
    )
