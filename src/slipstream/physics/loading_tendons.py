"""What pulls on joints and what ties them: actuators, tendons and equalities of a compiled model."""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
from typing import Any

import mujoco
import numpy as np

from slipstream.physics.model import (
    Activation,
    ActivationKind,
    Actuator,
    Body,
    BodyEquality,
    CurveEquality,
    Floats,
    Station,
    Tendon,
)
from slipstream.physics.unsupported import is_disabled, tendon_dofs

FREE = (-math.inf, math.inf)
ACTIVATIONS: dict[int, ActivationKind] = {
    int(mujoco.mjtDyn.mjDYN_INTEGRATOR): "integrator",
    int(mujoco.mjtDyn.mjDYN_FILTER): "filter",
    int(mujoco.mjtDyn.mjDYN_FILTEREXACT): "filterexact",
}


def read_actuators(m: mujoco.MjModel) -> tuple[Actuator, ...]:
    if is_disabled(m, mujoco.mjtDisableBit.mjDSBL_ACTUATION):
        return ()
    clamp = not is_disabled(m, mujoco.mjtDisableBit.mjDSBL_CLAMPCTRL)
    affine_gain, affine_bias = int(mujoco.mjtGain.mjGAIN_AFFINE), int(mujoco.mjtBias.mjBIAS_AFFINE)
    by_tendon = [kind == int(mujoco.mjtTrn.mjTRN_TENDON) for kind in m.actuator_trntype]
    return tuple(
        Actuator(
            name=m.actuator(i).name or f"actuator{i}",
            joint=-1 if by_tendon[i] else int(m.actuator_trnid[i, 0]),
            tendon=int(m.actuator_trnid[i, 0]) if by_tendon[i] else -1,
            gear=float(m.actuator_gear[i, 0]),
            gain=_floats(m.actuator_gainprm[i, :3])
            if m.actuator_gaintype[i] == affine_gain
            else (float(m.actuator_gainprm[i, 0]), 0.0, 0.0),
            bias=_floats(m.actuator_biasprm[i, :3]) if m.actuator_biastype[i] == affine_bias else (0.0, 0.0, 0.0),
            ctrl_range=_floats(m.actuator_ctrlrange[i]) if clamp and m.actuator_ctrllimited[i] else FREE,
            force_range=_floats(m.actuator_forcerange[i]) if m.actuator_forcelimited[i] else FREE,
            activation=_activation(m, i),
        )
        for i in range(m.nu)
    )


def _activation(m: mujoco.MjModel, i: int) -> Activation | None:
    kind = ACTIVATIONS.get(int(m.actuator_dyntype[i]))
    if kind is None:
        return None
    return Activation(
        kind=kind,
        address=int(m.actuator_actadr[i]),
        time=max(float(m.actuator_dynprm[i, 0]), 1e-15),
        range=_floats(m.actuator_actrange[i]) if m.actuator_actlimited[i] else FREE,
        early=bool(m.actuator_actearly[i]),
    )


def read_tendons(m: mujoco.MjModel, bodies: tuple[Body, ...]) -> tuple[Tendon, ...]:
    """All of them, in MuJoCo's order."""
    bit = mujoco.mjtDisableBit
    no_limits = is_disabled(m, bit.mjDSBL_LIMIT, bit.mjDSBL_CONSTRAINT)
    no_loss = is_disabled(m, bit.mjDSBL_FRICTIONLOSS, bit.mjDSBL_CONSTRAINT)
    no_spring, no_damper = is_disabled(m, bit.mjDSBL_SPRING), is_disabled(m, bit.mjDSBL_DAMPER)
    tendons = []
    for t in range(m.ntendon):
        dofs = tendon_dofs(m, t)
        tendons.append(
            Tendon(
                name=m.tendon(t).name or f"tendon{t}",
                joints=tuple((int(m.jnt_qposadr[m.dof_jntid[d]]), d, dofs[d]) for d in sorted(dofs)) if dofs else (),
                stations=() if dofs else _stations(m, t, bodies),
                limited=bool(m.tendon_limited[t]) and not no_limits,
                range=_floats(m.tendon_range[t]),
                margin=float(m.tendon_margin[t]),
                solref=_floats(m.tendon_solref_lim[t]),
                solimp=_floats(m.tendon_solimp_lim[t]),
                invweight=float(m.tendon_invweight0[t]),
                stiffness=0.0 if no_spring else float(m.tendon_stiffness[t]),
                rest=_floats(m.tendon_lengthspring[t]),
                damping=0.0 if no_damper else float(m.tendon_damping[t]),
                friction_loss=0.0 if no_loss else float(m.tendon_frictionloss[t]),
                friction_solref=_floats(m.tendon_solref_fri[t]),
                friction_solimp=_floats(m.tendon_solimp_fri[t]),
                force_range=_floats(m.tendon_actfrcrange[t]) if m.tendon_actfrclimited[t] else FREE,
            )
        )
    return tuple(tendons)


def _stations(m: mujoco.MjModel, t: int, bodies: tuple[Body, ...]) -> tuple[tuple[Station, Station], ...]:
    """The straight pieces of a spatial tendon; nothing for one that is wound around a geom."""
    first, count = int(m.tendon_adr[t]), int(m.tendon_num[t])
    wrap = mujoco.mjtWrap
    pieces: list[tuple[Station, Station]] = []
    before, divisor = None, 1.0
    for w in range(first, first + count):
        kind = wrap(m.wrap_type[w])
        if kind == wrap.mjWRAP_PULLEY:
            before, divisor = None, float(m.wrap_prm[w])
        elif kind == wrap.mjWRAP_SITE:
            site = int(m.wrap_objid[w])
            body = bodies[int(m.site_bodyid[site])]
            here = Station(body.link, on_link(body, m.site_pos[site]), divisor)
            if before is not None:
                pieces.append((before, here))
            before = here
        else:
            return ()
    return tuple(pieces)


def on_link(body: Body, point: Any) -> Floats:
    """A point of a body in the frame of its link."""
    turned = np.zeros(3)
    mujoco.mju_rotVecQuat(turned, np.array(point, float), np.array(body.quat))
    return _floats(turned + body.pos)


def read_equalities(m: mujoco.MjModel, bodies: tuple[Body, ...]) -> tuple[CurveEquality | BodyEquality, ...]:
    """Those that are active."""
    bit, kinds = mujoco.mjtDisableBit, mujoco.mjtEq
    if is_disabled(m, bit.mjDSBL_EQUALITY, bit.mjDSBL_CONSTRAINT):
        return ()
    found: list[CurveEquality | BodyEquality] = []
    for e in range(m.neq):
        kind = kinds(m.eq_type[e])
        if not m.eq_active0[e]:
            continue
        if kind in (kinds.mjEQ_JOINT, kinds.mjEQ_TENDON):
            found.append(_curve(m, e, kind == kinds.mjEQ_TENDON))
        elif kind in (kinds.mjEQ_CONNECT, kinds.mjEQ_WELD):
            found.append(_tie(m, e, bodies, kind == kinds.mjEQ_WELD))
    return tuple(found)


def _curve(m: mujoco.MjModel, e: int, is_tendon: bool) -> CurveEquality:
    one, two = int(m.eq_obj1id[e]), int(m.eq_obj2id[e])
    chosen = [k for k in (one, two) if k >= 0]
    if is_tendon:
        references = [float(m.tendon_length0[k]) for k in chosen]
        weights = [float(m.tendon_invweight0[k]) for k in chosen]
    else:
        references = [float(m.qpos0[m.jnt_qposadr[k]]) for k in chosen]
        weights = [float(m.dof_invweight0[m.jnt_dofadr[k]]) for k in chosen]
    return CurveEquality(
        is_tendon=is_tendon,
        one=one,
        two=two,
        polynomial=_floats(m.eq_data[e, :5]),
        references=(references[0], references[1] if two >= 0 else 0.0),
        solref=_floats(m.eq_solref[e]),
        solimp=_floats(m.eq_solimp[e]),
        weight=sum(weights),
    )


def _tie(m: mujoco.MjModel, e: int, bodies: tuple[Body, ...], is_weld: bool) -> BodyEquality:
    ids, data = (int(m.eq_obj1id[e]), int(m.eq_obj2id[e])), m.eq_data[e]
    one = np.array([1.0, 0.0, 0.0, 0.0])
    turns = [one, one]
    if m.eq_objtype[e] == int(mujoco.mjtObj.mjOBJ_SITE):
        owners = [int(m.site_bodyid[s]) for s in ids]
        points = [m.site_pos[s] for s in ids]
        turns = [np.array(m.site_quat[s]) for s in ids]
    else:
        owners = list(ids)
        # A weld keeps the point of the second body first.
        points = [data[3:6], data[:3]] if is_weld else [data[:3], data[3:6]]
        turns = [np.array(data[6:10]), one] if is_weld else turns
    frames = []
    for owner, turn in zip(owners, turns):
        quat = np.zeros(4)
        mujoco.mju_mulQuat(quat, np.array(bodies[owner].quat), turn)
        frames.append(_floats(quat))
    weight = m.body_invweight0[owners].sum(0)
    return BodyEquality(
        links=(bodies[owners[0]].link, bodies[owners[1]].link),
        points=(on_link(bodies[owners[0]], points[0]), on_link(bodies[owners[1]], points[1])),
        frames=(frames[0], frames[1]) if is_weld else None,
        torque_scale=float(data[10]) if is_weld else 1.0,
        solref=_floats(m.eq_solref[e]),
        solimp=_floats(m.eq_solimp[e]),
        weights=(float(weight[0]), float(weight[1])),
    )


def _floats(values: Any) -> Floats:
    return tuple(float(v) for v in np.ravel(values))
