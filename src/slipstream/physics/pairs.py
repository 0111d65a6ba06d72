"""Which geoms can touch, and how their contact behaves: MuJoCo's rules, applied when a model is loaded."""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import mujoco
import numpy as np

from slipstream.physics.unsupported import ModelError

PLANE = int(mujoco.mjtGeom.mjGEOM_PLANE)
HFIELD = int(mujoco.mjtGeom.mjGEOM_HFIELD)
SPHERE = int(mujoco.mjtGeom.mjGEOM_SPHERE)
CAPSULE = int(mujoco.mjtGeom.mjGEOM_CAPSULE)
BOX = int(mujoco.mjtGeom.mjGEOM_BOX)

COLLIDERS = {
    (PLANE, SPHERE), (PLANE, CAPSULE), (PLANE, BOX), (HFIELD, SPHERE), (HFIELD, CAPSULE), (HFIELD, BOX),
    (SPHERE, SPHERE), (SPHERE, CAPSULE), (CAPSULE, CAPSULE),
}  # fmt: skip

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
    solref: tuple[float, ...]
    solimp: tuple[float, ...]
    margin: float
    invweight: float
    safe_timestep: float

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


def find_pairs(m: mujoco.MjModel, safe_timestep: float) -> list[Pair]:
    """All pairs MuJoCo would test, or a `ModelError` for those that cannot be simulated."""
    bit = mujoco.mjtDisableBit
    if m.opt.disableflags & (int(bit.mjDSBL_CONTACT) | int(bit.mjDSBL_CONSTRAINT)):
        return []
    explicit = {tuple(sorted((int(m.pair_geom1[p]), int(m.pair_geom2[p])))): p for p in range(m.npair)}
    pairs = [_explicit_pair(m, p, safe_timestep) for p in explicit.values()]
    pairs += [_mixed_pair(m, a, b, safe_timestep) for a, b in _dynamic_pairs(m) if (a, b) not in explicit]
    problems = [problem for pair in pairs for problem in _problems(m, pair)]
    if problems:
        raise ModelError("This model cannot be simulated:\n  " + "\n  ".join(problems))
    return pairs


def _dynamic_pairs(m: mujoco.MjModel) -> Iterator[tuple[int, int]]:
    excluded = {(int(s) >> 16, int(s) & 0xFFFF) for s in m.exclude_signature}
    filter_parent = not m.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_FILTERPARENT)
    weld = m.body_weldid
    for a in range(m.ngeom):
        for b in range(a + 1, m.ngeom):
            body_a, body_b = int(m.geom_bodyid[a]), int(m.geom_bodyid[b])
            weld_a, weld_b = int(weld[body_a]), int(weld[body_b])
            affine = (m.geom_contype[a] & m.geom_conaffinity[b]) or (m.geom_contype[b] & m.geom_conaffinity[a])
            if not affine or weld_a == weld_b:
                continue
            if (body_a, body_b) in excluded or (body_b, body_a) in excluded:
                continue
            parent_a, parent_b = int(weld[m.body_parentid[weld_a]]), int(weld[m.body_parentid[weld_b]])
            if filter_parent and weld_a and weld_b and (parent_a == weld_b or parent_b == weld_a):
                continue
            yield a, b


def _links(m: mujoco.MjModel) -> list[int]:
    """The link of every body: bodies with joints, and the world, start a new one."""
    links, count = [], -1
    for b in range(m.nbody):
        if b == 0 or m.body_jntnum[b] > 0:
            count += 1
            links.append(count)
        else:
            links.append(links[int(m.body_parentid[b])])
    return links


def _make(m: mujoco.MjModel, a: int, b: int, safe_timestep: float, **parameters) -> Pair:
    if m.geom_type[a] > m.geom_type[b]:
        a, b = b, a
    links = _links(m)
    body_a, body_b = int(m.geom_bodyid[a]), int(m.geom_bodyid[b])
    return Pair(
        geom1=a,
        geom2=b,
        kinds=(int(m.geom_type[a]), int(m.geom_type[b])),
        link1=links[body_a],
        link2=links[body_b],
        invweight=float(m.body_invweight0[body_a, 0] + m.body_invweight0[body_b, 0]),
        safe_timestep=safe_timestep,
        **parameters,
    )


def _explicit_pair(m: mujoco.MjModel, p: int, safe_timestep: float) -> Pair:
    if np.any(m.pair_solreffriction[p]):
        raise ModelError(f"<pair name={m.pair(p).name!r} solreffriction>: not simulated.")
    if m.pair_friction[p, 0] != m.pair_friction[p, 1]:
        raise ModelError(f"<pair name={m.pair(p).name!r} friction>: both tangents must have the same friction.")
    return _make(
        m,
        int(m.pair_geom1[p]),
        int(m.pair_geom2[p]),
        safe_timestep,
        condim=int(m.pair_dim[p]),
        friction=max(float(m.pair_friction[p, 0]), SMALLEST_FRICTION),
        solref=tuple(map(float, m.pair_solref[p])),
        solimp=tuple(map(float, m.pair_solimp[p])),
        margin=float(m.pair_margin[p]),
    )


def _mixed_pair(m: mujoco.MjModel, a: int, b: int, safe_timestep: float) -> Pair:
    """The parameters of a contact, mixed from those of its geoms."""
    priority = int(m.geom_priority[a]) - int(m.geom_priority[b])
    ref_a, ref_b = np.array(m.geom_solref[a]), np.array(m.geom_solref[b])
    if priority:
        g = a if priority > 0 else b
        condim, friction = int(m.geom_condim[g]), float(m.geom_friction[g, 0])
        solref, solimp = np.array(m.geom_solref[g]), np.array(m.geom_solimp[g])
    else:
        condim = int(max(m.geom_condim[a], m.geom_condim[b]))
        friction = float(max(m.geom_friction[a, 0], m.geom_friction[b, 0]))
        mix = _mix(float(m.geom_solmix[a]), float(m.geom_solmix[b]))
        standard = ref_a[0] > 0 and ref_b[0] > 0
        solref = mix * ref_a + (1 - mix) * ref_b if standard else np.minimum(ref_a, ref_b)
        solimp = mix * m.geom_solimp[a] + (1 - mix) * m.geom_solimp[b]
    return _make(
        m,
        a,
        b,
        safe_timestep,
        condim=condim,
        friction=max(friction, SMALLEST_FRICTION),
        solref=tuple(map(float, solref)),
        solimp=tuple(map(float, solimp)),
        margin=float(m.geom_margin[a] + m.geom_margin[b]),
    )


def _mix(a: float, b: float) -> float:
    tiny = 1e-15
    if a >= tiny and b >= tiny:
        return a / (a + b)
    if a < tiny and b < tiny:
        return 0.5
    return 0.0 if a < tiny else 1.0


def _problems(m: mujoco.MjModel, pair: Pair) -> Iterator[str]:
    """What about a pair is not simulated, one line each."""
    names = [m.geom(g).name or f"#{g}" for g in (pair.geom1, pair.geom2)]
    kinds = [mujoco.mjtGeom(k).name.removeprefix("mjGEOM_").lower() for k in pair.kinds]
    label = f"<geom name={names[0]!r} type={kinds[0]!r}> against <geom name={names[1]!r} type={kinds[1]!r}>"
    way_out = "exclude the pair, or give one of them contype='0' conaffinity='0'"
    if pair.kinds not in COLLIDERS:
        yield f"{label}: this collision is not simulated; {way_out}."
    elif pair.kinds[0] in (PLANE, HFIELD) and pair.link1 != 0:
        yield f"{label}: a {kinds[0]} must not move; {way_out}."
    if pair.condim not in (1, 3):
        yield f"{label}: condim='{pair.condim}' is not simulated; use 1 or 3."


def find_height_field(m: mujoco.MjModel, pairs: Sequence[Pair]) -> HeightField | None:
    geoms = {pair.geom1 for pair in pairs if pair.kinds[0] == HFIELD}
    if not geoms:
        return None
    if len(geoms) > 1:
        raise ModelError(f"<geom type='hfield'>: {len(geoms)} of them collide; one is simulated.")
    g = geoms.pop()
    data = mujoco.MjData(m)
    mujoco.mj_kinematics(m, data)
    if not np.allclose(data.geom_xmat[g], np.eye(3).ravel()):
        raise ModelError(f"<geom name={m.geom(g).name!r} type='hfield'>: it must not be rotated.")
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
