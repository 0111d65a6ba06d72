"""From MJCF to a `Model`: what MuJoCo's compiler made of the XML, as static Python numbers."""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from slipstream.physics.fields import refuse_other_versions
from slipstream.physics.finite import refuse_non_finite_model, refuse_non_finite_text
from slipstream.physics.hulls import find_hull
from slipstream.physics.loading_tendons import read_actuators, read_equalities, read_tendons
from slipstream.physics.model import (
    Body,
    Dof,
    Floats,
    Geom,
    Integrator,
    Joint,
    JointKind,
    Keyframe,
    Link,
    Model,
    Options,
)
from slipstream.physics.pairs import MESH, Pair, field_refusals, find_height_field, find_pairs
from slipstream.physics.refusal import ModelError, refuse
from slipstream.physics.unsupported import has_fluid, has_passive_forces, is_disabled, unsupported

INTEGRATORS: dict[int, Integrator] = {
    int(mujoco.mjtIntegrator.mjINT_EULER): "euler",
    int(mujoco.mjtIntegrator.mjINT_RK4): "rk4",
    int(mujoco.mjtIntegrator.mjINT_IMPLICITFAST): "implicitfast",
}
JOINT_KINDS: tuple[JointKind, ...] = ("free", "ball", "slide", "hinge")


def read_mujoco(source: Any) -> mujoco.MjModel:
    """An MjModel from one, from a path to an MJCF or URDF file, or from a string of XML."""
    refuse_other_versions()
    if isinstance(source, mujoco.MjModel):
        refuse_non_finite_model(source, "the model")
        return source
    text = str(source)
    is_text = text.lstrip().startswith("<")
    if not is_text and not Path(text).is_file():
        raise ModelError(f"There is no model file {text!r} (and a string of XML starts with '<').")
    what = "the XML" if is_text else text
    refuse_non_finite_text(text if is_text else None, None if is_text else Path(text))
    try:
        model = mujoco.MjModel.from_xml_string(text) if is_text else mujoco.MjModel.from_xml_path(text)
    except ValueError as error:
        raise ModelError(f"MuJoCo cannot read {what}: {error}") from error
    refuse_non_finite_model(model, what)
    return model


def load(
    source: Any,
    *,
    integrator: Integrator | None = None,
    timestep: float | None = None,
    self_collision: bool = True,
    self_contacts: int = 6,
    touch: Sequence[str] = (),
    newton_iterations: int = 50,
    leave_out_pairs: bool = False,
) -> Model:
    """Read a model and specialise it.

    Args:
        source: an MjModel, a path, or a string of XML.
        integrator: replaces the model's own.
        timestep: replaces the model's own, in seconds.
        self_collision: whether moving geoms collide with each other, or only with what is fixed.
        self_contacts: how many such contacts a world can have at once. Further ones are left out, and
            counted in `State.dropped`.
        touch: names of geoms (or of bodies, for all their geoms) whose contact forces `State.touch` reports.
        newton_iterations: the bound on the iterations of the constraint solver.
        leave_out_pairs: let geoms pass through each other whose collision is not simulated, say two meshes, where the
            model would be refused otherwise. `Model.left_out` tells which.

    Raises:
        ModelError: the model is broken, or asks for something that is not supported; the message names
            the element and the attribute.
    """
    m = read_mujoco(source)
    if integrator is not None and integrator not in INTEGRATORS.values():
        raise ModelError(f"integrator is {integrator!r}; choose one of {', '.join(INTEGRATORS.values())}.")
    if timestep is not None and not (math.isfinite(timestep) and timestep > 0):
        raise ModelError(f"timestep must be positive, got {timestep}.")
    if newton_iterations < 1 or self_contacts < 0:
        raise ModelError("newton_iterations must be at least 1 and self_contacts at least 0.")
    step = float(timestep or m.opt.timestep)
    safe_timestep = 0.0 if is_disabled(m, mujoco.mjtDisableBit.mjDSBL_REFSAFE) else step
    with_self = self_collision and self_contacts > 0
    pairs, odd_pairs, left_out = find_pairs(m, safe_timestep, with_self, leave_out_pairs)
    refuse([*unsupported(m, integrator), *odd_pairs, *field_refusals(m, pairs)])
    options = _options(m, integrator, step)
    bodies, links, joints = _tree(m)
    return Model(
        mujoco=m,
        options=options,
        bodies=bodies,
        links=links,
        joints=joints,
        dofs=_dofs(m, links),
        geoms=_geoms(m, bodies, pairs),
        tendons=read_tendons(m, bodies),
        actuators=read_actuators(m),
        equalities=read_equalities(m, bodies),
        keyframes=_keyframes(m),
        pairs=tuple(pairs),
        left_out=left_out,
        height_field=find_height_field(m, pairs),
        self_contacts=self_contacts,
        newton_iterations=newton_iterations,
        touch=tuple(_touch_geoms(m, name) for name in touch),
        nq=int(m.nq),
        nv=int(m.nv),
        nu=int(m.nu),
        na=int(m.na),
        qpos0=_floats(m.qpos0),
        mass_growth=_mass_growth(m),
    )


def _mass_growth(m: mujoco.MjModel) -> float:
    """The largest ratio of a diagonal element of the mass matrix to what elimination from the leaves leaves of it."""
    data = mujoco.MjData(m)
    mujoco.mj_fwdPosition(m, data)
    full = np.zeros((m.nv, m.nv))
    mujoco.mj_fullM(m, data, full)
    from_leaves = full[::-1, ::-1]
    try:
        return float((np.diag(from_leaves) / np.diag(np.linalg.cholesky(from_leaves)) ** 2).max())
    except np.linalg.LinAlgError:  # singular, but for rounding
        return math.inf


def _keyframes(m: mujoco.MjModel) -> tuple[Keyframe, ...]:
    return tuple(
        Keyframe(
            m.key(k).name or f"keyframe{k}",
            _floats(m.key_qpos[k]),
            _floats(m.key_qvel[k]),
            _floats(m.key_act[k]),
            _floats(m.key_ctrl[k]),
        )
        for k in range(m.nkey)
    )


def _touch_geoms(m: mujoco.MjModel, name: str) -> tuple[int, ...]:
    geom = mujoco.mj_name2id(m, mujoco.mjtObj.mjOBJ_GEOM, name)
    body = mujoco.mj_name2id(m, mujoco.mjtObj.mjOBJ_BODY, name)
    if geom < 0 and body < 0:
        raise ModelError(f"touch: the model has no geom or body named {name!r}.")
    return (geom,) if geom >= 0 else tuple(g for g in range(m.ngeom) if m.geom_bodyid[g] == body)


def _floats(values: Any) -> Floats:
    return tuple(float(v) for v in np.ravel(values))


def _options(m: mujoco.MjModel, integrator: Integrator | None, timestep: float) -> Options:
    bit = mujoco.mjtDisableBit
    return Options(
        timestep=timestep,
        integrator=integrator or INTEGRATORS[int(m.opt.integrator)],
        gravity=(0.0, 0.0, 0.0) if is_disabled(m, bit.mjDSBL_GRAVITY) else _floats(m.opt.gravity),
        density=float(m.opt.density) if has_fluid(m) else 0.0,
        viscosity=float(m.opt.viscosity) if has_fluid(m) else 0.0,
        wind=_floats(m.opt.wind),
        impratio=float(m.opt.impratio),
        elliptic=bool(m.opt.cone == int(mujoco.mjtCone.mjCONE_ELLIPTIC)),
        implicit_damping=not is_disabled(m, bit.mjDSBL_EULERDAMP),
        safe_reference=not is_disabled(m, bit.mjDSBL_REFSAFE),
    )


def _tree(m: mujoco.MjModel) -> tuple[tuple[Body, ...], tuple[Link, ...], tuple[Joint, ...]]:
    """Fuse welded bodies into links."""
    link_of: list[int] = []
    offsets: list[tuple[np.ndarray, np.ndarray]] = []
    heads: list[int] = []  # the body a link is named after
    for b in range(m.nbody):
        if b == 0 or m.body_jntnum[b] > 0:
            link_of.append(len(heads))
            heads.append(b)
            offsets.append((np.zeros(3), np.array([1.0, 0, 0, 0])))
        else:
            parent = int(m.body_parentid[b])
            link_of.append(link_of[parent])
            offsets.append(_compose(offsets[parent], (m.body_pos[b], m.body_quat[b])))
    bodies = tuple(
        Body(
            name=m.body(b).name or f"body{b}",
            root=int(m.body_rootid[b]),
            link=link_of[b],
            pos=_floats(offsets[b][0]),
            quat=_floats(offsets[b][1]),
            mass=float(m.body_mass[b]),
            com=_floats(m.body_ipos[b]),
            inertia_quat=_floats(m.body_iquat[b]),
            inertia=_floats(m.body_inertia[b]),
            gravity_compensation=float(m.body_gravcomp[b]) if has_passive_forces(m) else 0.0,
        )
        for b in range(m.nbody)
    )
    joints = tuple(_joint(m, j, link_of[int(m.jnt_bodyid[j])]) for j in range(m.njnt))
    links: list[Link] = []
    for index, head in enumerate(heads):
        parent_body = int(m.body_parentid[head])
        parent = link_of[parent_body]
        pos, quat = _compose(offsets[parent_body], (m.body_pos[head], m.body_quat[head]))
        members = [b for b in range(m.nbody) if link_of[b] == index]
        mass, com, inertia_quat, inertia = _fuse(m, members, offsets) if index else (0.0, np.zeros(3), quat, pos)
        links.append(
            Link(
                name=m.body(head).name or f"body{head}",
                parent=parent if index else -1,
                root=index if parent == 0 else links[parent].root,
                pos=_floats(pos),
                quat=_floats(quat),
                joints=tuple(joint for joint in joints if joint.link == index),
                mass=mass,
                com=_floats(com),
                inertia_quat=_floats(inertia_quat),
                inertia=_floats(inertia),
            )
        )
    return bodies, tuple(links), joints


def _compose(outer: tuple[Any, Any], inner: tuple[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    """The pose `inner`, given relative to the pose `outer`, in the frame `outer` is given in."""
    pos, quat = np.zeros(3), np.zeros(4)
    mujoco.mju_rotVecQuat(pos, np.array(inner[0]), np.array(outer[1]))
    mujoco.mju_mulQuat(quat, np.array(outer[1]), np.array(inner[1]))
    return pos + outer[0], quat


def _fuse(m: mujoco.MjModel, members: list[int], offsets: list) -> tuple:
    """Mass, centre, principal axes and moments of several bodies that move as one."""
    if len(members) == 1:
        b = members[0]
        return float(m.body_mass[b]), m.body_ipos[b], m.body_iquat[b], m.body_inertia[b]
    frames = {b: _compose(offsets[b], (m.body_ipos[b], m.body_iquat[b])) for b in members}
    mass = sum(float(m.body_mass[b]) for b in members)
    com = sum(m.body_mass[b] * frames[b][0] for b in members) / mass
    total = np.zeros((3, 3))
    for b in members:
        rotation = np.zeros(9)
        mujoco.mju_quat2Mat(rotation, frames[b][1])
        rotation = rotation.reshape(3, 3)
        arm = frames[b][0] - com
        total += rotation @ np.diag(m.body_inertia[b]) @ rotation.T
        total += m.body_mass[b] * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    moments, axes = np.linalg.eigh(total)
    if np.linalg.det(axes) < 0:
        axes[:, 0] *= -1
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, axes.ravel())
    return mass, com, quat, moments


def _joint(m: mujoco.MjModel, j: int, link: int) -> Joint:
    kind = JOINT_KINDS[int(m.jnt_type[j])]
    adr = int(m.jnt_qposadr[j])
    size = {"free": 7, "ball": 4}.get(kind, 1)
    bit = mujoco.mjtDisableBit
    return Joint(
        name=m.joint(j).name or f"joint{j}",
        kind=kind,
        link=link,
        qpos=adr,
        dof=int(m.jnt_dofadr[j]),
        pos=_floats(m.jnt_pos[j]),
        axis=_floats(m.jnt_axis[j]),
        reference=_floats(m.qpos0[adr : adr + size]),
        spring_reference=_floats(m.qpos_spring[adr : adr + size]),
        stiffness=0.0 if is_disabled(m, bit.mjDSBL_SPRING) else float(m.jnt_stiffness[j]),
        limited=bool(m.jnt_limited[j]) and not is_disabled(m, bit.mjDSBL_LIMIT, bit.mjDSBL_CONSTRAINT),
        range=_floats(m.jnt_range[j]),
        solref=_floats(m.jnt_solref[j]),
        solimp=_floats(m.jnt_solimp[j]),
        margin=float(m.jnt_margin[j]),
        force_range=_floats(m.jnt_actfrcrange[j]) if m.jnt_actfrclimited[j] else (-math.inf, math.inf),
        carried_by_actuators=bool(m.jnt_actgravcomp[j]),
    )


def _dofs(m: mujoco.MjModel, links: tuple[Link, ...]) -> tuple[Dof, ...]:
    link_of = {d: index for index, link in enumerate(links) for d in link.dofs}
    no_damper = is_disabled(m, mujoco.mjtDisableBit.mjDSBL_DAMPER)
    no_loss = is_disabled(m, mujoco.mjtDisableBit.mjDSBL_FRICTIONLOSS, mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    ancestors: list[tuple[int, ...]] = []
    for d in range(m.nv):
        parent = int(m.dof_parentid[d])
        ancestors.append((parent, *ancestors[parent]) if parent >= 0 else ())
    return tuple(
        Dof(
            link=link_of[d],
            ancestors=ancestors[d],
            armature=float(m.dof_armature[d]),
            damping=0.0 if no_damper else float(m.dof_damping[d]),
            invweight=float(m.dof_invweight0[d]),
            friction_loss=0.0 if no_loss else float(m.dof_frictionloss[d]),
            solref=_floats(m.dof_solref[d]),
            solimp=_floats(m.dof_solimp[d]),
        )
        for d in range(m.nv)
    )


def _geoms(m: mujoco.MjModel, bodies: tuple[Body, ...], pairs: Sequence[Pair]) -> tuple[Geom, ...]:
    geoms = []
    meshes = {g for pair in pairs for g, kind in zip((pair.geom1, pair.geom2), pair.kinds) if kind == MESH}
    hulls = {mesh: find_hull(m, mesh) for mesh in {int(m.geom_dataid[g]) for g in meshes}}
    for g in range(m.ngeom):
        body = bodies[int(m.geom_bodyid[g])]
        pos, quat = _compose((np.array(body.pos), np.array(body.quat)), (m.geom_pos[g], m.geom_quat[g]))
        geoms.append(
            Geom(
                name=m.geom(g).name or f"geom{g}",
                kind=int(m.geom_type[g]),
                body=int(m.geom_bodyid[g]),
                link=body.link,
                pos=_floats(pos),
                quat=_floats(quat),
                size=_floats(m.geom_size[g]),
                hull=hulls[int(m.geom_dataid[g])] if g in meshes else None,
            )
        )
    return tuple(geoms)
