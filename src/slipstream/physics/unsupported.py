"""What a model may not ask for, refused when it is loaded."""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mujoco
import numpy as np

from slipstream.physics.fields import unknown_fields
from slipstream.physics.refusal import Refusal

HARMLESS_ENABLED = ("ENERGY", "FWDINV", "INVDISCRETE")
"""Flags that change what MuJoCo measures, and not how a robot moves."""
KNOWN_DISABLED = (
    "CONSTRAINT", "EQUALITY", "FRICTIONLOSS", "LIMIT", "CONTACT", "SPRING", "DAMPER", "GRAVITY", "CLAMPCTRL",
    "FILTERPARENT", "ACTUATION", "REFSAFE", "EULERDAMP",
    "WARMSTART", "SENSOR", "MIDPHASE", "AUTORESET", "NATIVECCD", "ISLAND", "MULTICCD",
)  # fmt: skip
"""Flags that are followed; and in the last line those without effect."""

EQUALITIES = (mujoco.mjtEq.mjEQ_CONNECT, mujoco.mjtEq.mjEQ_WELD, mujoco.mjtEq.mjEQ_JOINT, mujoco.mjtEq.mjEQ_TENDON)
ACTIVATIONS = (
    mujoco.mjtDyn.mjDYN_NONE,
    mujoco.mjtDyn.mjDYN_INTEGRATOR,
    mujoco.mjtDyn.mjDYN_FILTER,
    mujoco.mjtDyn.mjDYN_FILTEREXACT,
)


def unsupported(m: mujoco.MjModel, integrator: str | None = None) -> Iterator[Refusal]:
    """Everything in the model that is not simulated, except for what geoms do to each other.

    Args:
        integrator: what the caller replaces the model's integrator with.
    """
    if m.nv == 0:
        yield Refusal("<worldbody>", "no body has a joint, so there is nothing to simulate.")
    yield from _integrator(m, integrator or mujoco.mjtIntegrator(m.opt.integrator).name.removeprefix("mjINT_").lower())
    yield from _options(m)
    yield from _elements(m)
    yield from _joints(m)
    yield from _tendons(m)
    yield from _actuators(m)
    yield from unknown_fields(m)


def is_disabled(m: mujoco.MjModel, *flags: mujoco.mjtDisableBit) -> bool:
    """Whether one of these flags is."""
    return any(m.opt.disableflags & int(flag) for flag in flags)


def has_passive_forces(m: mujoco.MjModel) -> bool:
    """Where springs and dampers are disabled, MuJoCo has no passive forces at all."""
    bit = mujoco.mjtDisableBit
    return not (is_disabled(m, bit.mjDSBL_SPRING) and is_disabled(m, bit.mjDSBL_DAMPER))


def has_fluid(m: mujoco.MjModel) -> bool:
    """Whether a fluid acts on bodies."""
    return has_passive_forces(m) and bool(m.opt.density > 0 or m.opt.viscosity > 0)


def _integrator(m: mujoco.MjModel, name: str) -> Iterator[Refusal]:
    if name not in ("euler", "rk4", "implicitfast"):
        yield Refusal(
            f"<option integrator={name!r}>", "use Euler, RK4 or implicitfast (load(..., integrator='euler'))."
        )
    if name != "implicitfast":
        return
    if has_fluid(m):
        yield Refusal("<option integrator='implicitfast'>", "not together with fluid forces (density, viscosity).")
    for j in range(m.njnt):
        body = int(m.jnt_bodyid[j])
        alone = not any(m.body_jntnum[b] and m.body_rootid[b] == body for b in range(m.nbody) if b != body)
        if m.jnt_type[j] == int(mujoco.mjtJoint.mjJNT_FREE) and alone:
            way_out = "use integrator='euler' or 'rk4'."
            why = f"not with implicitfast unless its body carries further joints; {way_out}"
            yield Refusal("<freejoint> of <body{}>", why, (_name(m.body(body)),))


def _options(m: mujoco.MjModel) -> Iterator[Refusal]:
    if m.opt.noslip_iterations > 0:
        yield Refusal(f"<option noslip_iterations='{m.opt.noslip_iterations}'>", "there is no noslip solver; use 0.")
    if m.opt.disableactuator:
        yield Refusal("<option actuatorgroupdisable>", "not simulated; remove the actuators instead.")
    for what, flags, bits, known in (
        ("enable", m.opt.enableflags, mujoco.mjtEnableBit, HARMLESS_ENABLED),
        ("disable", m.opt.disableflags, mujoco.mjtDisableBit, KNOWN_DISABLED),
    ):
        names = {int(bit): bit.name.split("_")[-1] for bit in bits.__members__.values() if "BL_" in bit.name}
        for bit in (1 << k for k in range(32)):
            name = names.get(bit, f"bit {bit:#x}")
            if flags & bit and name not in known:
                yield Refusal(f"<flag {name.lower()}='{what}'>", "not simulated.")


def _elements(m: mujoco.MjModel) -> Iterator[Refusal]:
    bit = mujoco.mjtDisableBit
    no_equality = is_disabled(m, bit.mjDSBL_EQUALITY, bit.mjDSBL_CONSTRAINT)
    for e in range(0 if no_equality else m.neq):
        kind = mujoco.mjtEq(m.eq_type[e])
        if m.eq_active0[e] and kind not in EQUALITIES:
            what = kind.name.removeprefix("mjEQ_").lower()
            yield Refusal(f"<equality><{what}{{}}>", "not simulated.", (_name(m.equality(e)),))
    for count, element in ((m.nflex, "flex"), (m.nplugin, "plugin")):
        if count:
            yield Refusal(f"<{element}>", f"{count} in the model, not simulated.")
    for g in range(m.ngeom):
        name = (_name(m.geom(g)),)
        if np.any(m.geom_surfacevel[g]):
            yield Refusal("<geom{} surfacevel>", "not simulated.", name)
        if m.geom_adhesion[g] != 0:
            yield Refusal("<geom{} adhesion>", "not simulated.", name)
        if m.geom_fluid[g, 0] != 0:
            yield Refusal("<geom{} fluidshape='ellipsoid'>", "only the inertia-box model is simulated.", name)


def _joints(m: mujoco.MjModel) -> Iterator[Refusal]:
    for j in range(m.njnt):
        name = (_name(m.joint(j)),)
        if m.jnt_type[j] > int(mujoco.mjtJoint.mjJNT_HINGE):
            yield Refusal("<joint{} type>", "only free, ball, slide and hinge joints are simulated.", name)
        if np.any(m.jnt_stiffnesspoly[j]):
            yield Refusal("<joint{} stiffness>", "only linear stiffness (one number) is simulated.", name)
        if m.jnt_springyield[j] != 0:
            yield Refusal("<joint{} springyield>", "not simulated.", name)
        if np.any(m.dof_dampingpoly[m.jnt_dofadr[j]]):
            yield Refusal("<joint{} damping>", "only linear damping (one number) is simulated.", name)
        if m.jnt_stiffness[j] != 0 and m.jnt_type[j] == int(mujoco.mjtJoint.mjJNT_FREE):
            yield Refusal("<joint{} stiffness>", "springs on free joints are not simulated.", name)


def _tendons(m: mujoco.MjModel) -> Iterator[Refusal]:
    for t in range(m.ntendon):
        name = (_name(m.tendon(t)),)
        for attribute in ("armature", "stiffnesspoly", "dampingpoly", "springyield"):
            if np.any(getattr(m, f"tendon_{attribute}")[t]):
                yield Refusal(f"<tendon{{}} {attribute}>", "not simulated.", name)
        if _tendon_acts(m, t):
            first, count = int(m.tendon_adr[t]), int(m.tendon_num[t])
            kinds = {mujoco.mjtWrap(k) for k in m.wrap_type[first : first + count]}
            if kinds & {mujoco.mjtWrap.mjWRAP_SPHERE, mujoco.mjtWrap.mjWRAP_CYLINDER}:
                yield Refusal("<tendon{}>", "tendons that are wound around geoms are not simulated.", name)
            elif mujoco.mjtWrap.mjWRAP_JOINT in kinds and tendon_dofs(m, t) is None:
                yield Refusal("<tendon{}>", "fixed tendons run over hinges and slides only.", name)


def _tendon_acts(m: mujoco.MjModel, t: int) -> bool:
    """Whether a tendon does more than measure."""
    acts = ("limited", "stiffness", "damping", "frictionloss")
    driven = (m.actuator_trntype == int(mujoco.mjtTrn.mjTRN_TENDON)) & (m.actuator_trnid[:, 0] == t)
    tied = (m.eq_type == int(mujoco.mjtEq.mjEQ_TENDON)) & ((m.eq_obj1id == t) | (m.eq_obj2id == t))
    return bool(any(getattr(m, f"tendon_{name}")[t] for name in acts) or driven.any() or tied.any())


def tendon_dofs(m: mujoco.MjModel, t: int) -> dict[int, float] | None:
    """Degrees of freedom and coefficients of a fixed tendon; None for what is not one."""
    first, count = int(m.tendon_adr[t]), int(m.tendon_num[t])
    scalar = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))
    dofs: dict[int, float] = {}
    for w in range(first, first + count):
        if m.wrap_type[w] != int(mujoco.mjtWrap.mjWRAP_JOINT) or m.jnt_type[m.wrap_objid[w]] not in scalar:
            return None
        dofs[int(m.jnt_dofadr[m.wrap_objid[w]])] = float(m.wrap_prm[w])
    return dofs


def _actuators(m: mujoco.MjModel) -> Iterator[Refusal]:
    trn, gain, bias, dyn = mujoco.mjtTrn, mujoco.mjtGain, mujoco.mjtBias, mujoco.mjtDyn
    for i in range(m.nactuator):
        name = (_name(m.actuator(i)),)
        kind = trn(m.actuator_trntype[i])
        if kind == trn.mjTRN_TENDON:
            pass
        elif kind not in (trn.mjTRN_JOINT, trn.mjTRN_JOINTINPARENT):
            what = kind.name.removeprefix("mjTRN_").lower()
            yield Refusal(f"<actuator{{}} {what}>", "only joint and tendon transmissions are simulated.", name)
        elif mujoco.mjtJoint(m.jnt_type[m.actuator_trnid[i, 0]]) not in (
            mujoco.mjtJoint.mjJNT_HINGE,
            mujoco.mjtJoint.mjJNT_SLIDE,
        ):
            yield Refusal("<actuator{} joint>", "only hinge and slide joints can be actuated.", name)
        if m.actuator_ctrlnum[i] != 1 or m.actuator_outnum[i] != 1:
            yield Refusal("<actuator{}>", "only actuators with one control and one force are simulated.", name)
        if dyn(m.actuator_dyntype[i]) not in ACTIVATIONS:
            what = dyn(m.actuator_dyntype[i]).name.removeprefix("mjDYN_").lower()
            yield Refusal(f"<actuator{{}} dyntype={what!r}>", "use none, integrator, filter or filterexact.", name)
        if gain(m.actuator_gaintype[i]) not in (gain.mjGAIN_FIXED, gain.mjGAIN_AFFINE):
            what = gain(m.actuator_gaintype[i]).name.removeprefix("mjGAIN_").lower()
            yield Refusal(f"<actuator{{}} gaintype={what!r}>", "use fixed or affine.", name)
        if bias(m.actuator_biastype[i]) not in (bias.mjBIAS_NONE, bias.mjBIAS_AFFINE):
            what = bias(m.actuator_biastype[i]).name.removeprefix("mjBIAS_").lower()
            yield Refusal(f"<actuator{{}} biastype={what!r}>", "use none or affine.", name)
        if m.actuator_delay[i] != 0 or m.actuator_history[i, 0] != 0:
            yield Refusal("<actuator{} delay>", "not simulated.", name)
        if m.actuator_damping[i] != 0 or np.any(m.actuator_dampingpoly[i]) or m.actuator_armature[i] != 0:
            yield Refusal("<actuator{} damping/armature>", "not simulated; give them to the joint.", name)


def _name(element: Any) -> str:
    """Of an element; its number where it has none."""
    return element.name or f"#{element.id}"
