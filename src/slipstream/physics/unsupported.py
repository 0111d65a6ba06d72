"""What a model may not ask for, refused when it is loaded: by element, attribute and a way out."""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterator

import mujoco
import numpy as np


class ModelError(ValueError):
    """A model that is broken or asks for something this engine does not simulate."""


def refuse_unsupported(m: mujoco.MjModel, integrator: str | None = None) -> None:
    """Raise a `ModelError` that lists everything in the model that is not simulated.

    Args:
        integrator: what the caller replaces the model's integrator with.
    """
    problems = list(unsupported(m, integrator))
    if problems:
        raise ModelError("This model cannot be simulated:\n  " + "\n  ".join(problems))


def unsupported(m: mujoco.MjModel, integrator: str | None = None) -> Iterator[str]:
    """Everything in the model that is not simulated, one line each."""
    if m.nv == 0:
        yield "<worldbody>: no body has a joint, so there is nothing to simulate."
    yield from _integrator(m, integrator or mujoco.mjtIntegrator(m.opt.integrator).name.removeprefix("mjINT_").lower())
    yield from _options(m)
    yield from _elements(m)
    yield from _joints(m)
    yield from _tendons(m)
    yield from _actuators(m)


def _integrator(m: mujoco.MjModel, name: str) -> Iterator[str]:
    if name not in ("euler", "rk4", "implicitfast"):
        yield f"<option integrator={name!r}>: use Euler, RK4 or implicitfast (load(..., integrator='euler'))."
    if name != "implicitfast":
        return
    if m.opt.density > 0 or m.opt.viscosity > 0:
        yield "<option integrator='implicitfast'>: not together with fluid forces (density, viscosity)."
    for j in range(m.njnt):
        body = int(m.jnt_bodyid[j])
        alone = not any(m.body_jntnum[b] and m.body_rootid[b] == body for b in range(m.nbody) if b != body)
        if m.jnt_type[j] == int(mujoco.mjtJoint.mjJNT_FREE) and alone:
            yield (
                f"<freejoint> of body {m.body(body).name!r}: not with implicitfast unless the body carries "
                "further joints; use integrator='euler' or 'rk4'."
            )


def _options(m: mujoco.MjModel) -> Iterator[str]:
    if m.opt.cone == int(mujoco.mjtCone.mjCONE_ELLIPTIC):
        yield "<option cone='elliptic'>: only pyramidal friction cones are simulated."
    if m.opt.noslip_iterations > 0:
        yield f"<option noslip_iterations='{m.opt.noslip_iterations}'>: there is no noslip solver; use 0."
    if m.opt.disableactuator:
        yield "<option actuatorgroupdisable>: not simulated; remove the actuators instead."
    bit = mujoco.mjtEnableBit
    for flag in (
        bit.mjENBL_OVERRIDE,
        bit.mjENBL_SLEEP,
        bit.mjENBL_DIAGEXACT,
        bit.mjENBL_IPC,
        bit.mjENBL_SPECULATIVE,
    ):
        if m.opt.enableflags & int(flag):
            yield f"<flag {flag.name.removeprefix('mjENBL_').lower()}='enable'>: not simulated."


def _elements(m: mujoco.MjModel) -> Iterator[str]:
    for e in range(m.neq):
        kind = mujoco.mjtEq(m.eq_type[e]).name.removeprefix("mjEQ_").lower()
        yield f"<equality><{kind} name={m.equality(e).name!r}>: equality constraints are not simulated."
    for count, element in ((m.nflex, "flex"), (m.nplugin, "plugin"), (m.nmocap, "body mocap='true'")):
        if count:
            yield f"<{element}>: {count} in the model, not simulated."
    for b in range(m.nbody):
        if m.body_gravcomp[b] != 0:
            yield f"<body name={m.body(b).name!r} gravcomp='{m.body_gravcomp[b]:g}'>: not simulated."
    for g in range(m.ngeom):
        name = m.geom(g).name or f"#{g}"
        if np.any(m.geom_surfacevel[g]):
            yield f"<geom name={name!r} surfacevel>: not simulated."
        if m.geom_adhesion[g] != 0:
            yield f"<geom name={name!r} adhesion>: not simulated."
        if m.geom_fluid[g, 0] != 0:
            yield f"<geom name={name!r} fluidshape='ellipsoid'>: only the inertia-box model is simulated."


def _joints(m: mujoco.MjModel) -> Iterator[str]:
    for j in range(m.njnt):
        name = m.joint(j).name or f"#{j}"
        if m.jnt_actfrclimited[j]:
            yield f"<joint name={name!r} actuatorfrcrange>: not simulated; use forcerange on the actuator."
        if np.any(m.jnt_stiffnesspoly[j]):
            yield f"<joint name={name!r} stiffness>: only linear stiffness (one number) is simulated."
        if m.jnt_springyield[j] != 0:
            yield f"<joint name={name!r} springyield>: not simulated."
        if np.any(m.dof_dampingpoly[m.jnt_dofadr[j]]):
            yield f"<joint name={name!r} damping>: only linear damping (one number) is simulated."
        if m.jnt_stiffness[j] != 0 and m.jnt_type[j] == int(mujoco.mjtJoint.mjJNT_FREE):
            yield f"<joint name={name!r} stiffness>: springs on free joints are not simulated."


def _tendons(m: mujoco.MjModel) -> Iterator[str]:
    """A tendon may measure, and may be limited if it follows one branch of the tree; nothing else."""
    acts = (
        "stiffness",
        "damping",
        "frictionloss",
        "armature",
        "actfrclimited",
        "stiffnesspoly",
        "dampingpoly",
    )
    for t in range(m.ntendon):
        label = f"<tendon name={m.tendon(t).name!r}"
        for attribute in acts:
            if np.any(getattr(m, f"tendon_{attribute}")[t]):
                yield f"{label} {attribute}>: not simulated; only limits of fixed tendons are."
        if m.tendon_limited[t]:
            dofs = tendon_dofs(m, t)
            if dofs is None:
                yield f"{label} limited='true'>: only fixed tendons over hinges and slides are."
            elif not _on_one_branch(m, sorted(dofs)):
                yield f"{label} limited='true'>: its joints must follow one branch of the tree."


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


def _on_one_branch(m: mujoco.MjModel, dofs: list[int]) -> bool:
    above, d = set(), dofs[-1]
    while d >= 0:
        above.add(d)
        d = int(m.dof_parentid[d])
    return above.issuperset(dofs)


def _actuators(m: mujoco.MjModel) -> Iterator[str]:
    trn, gain, bias = mujoco.mjtTrn, mujoco.mjtGain, mujoco.mjtBias
    for i in range(m.nactuator):
        name = m.actuator(i).name or f"#{i}"
        kind = trn(m.actuator_trntype[i])
        if kind not in (trn.mjTRN_JOINT, trn.mjTRN_JOINTINPARENT):
            what = kind.name.removeprefix("mjTRN_").lower()
            yield f"<actuator name={name!r} {what}>: only joint transmissions are simulated."
        elif mujoco.mjtJoint(m.jnt_type[m.actuator_trnid[i, 0]]) not in (
            mujoco.mjtJoint.mjJNT_HINGE,
            mujoco.mjtJoint.mjJNT_SLIDE,
        ):
            yield f"<actuator name={name!r} joint>: only hinge and slide joints can be actuated."
        if mujoco.mjtDyn(m.actuator_dyntype[i]) != mujoco.mjtDyn.mjDYN_NONE:
            what = mujoco.mjtDyn(m.actuator_dyntype[i]).name.removeprefix("mjDYN_").lower()
            yield f"<actuator name={name!r} dyntype={what!r}>: activation states are not simulated."
        if gain(m.actuator_gaintype[i]) not in (gain.mjGAIN_FIXED, gain.mjGAIN_AFFINE):
            what = gain(m.actuator_gaintype[i]).name.removeprefix("mjGAIN_").lower()
            yield f"<actuator name={name!r} gaintype={what!r}>: use fixed or affine."
        if bias(m.actuator_biastype[i]) not in (bias.mjBIAS_NONE, bias.mjBIAS_AFFINE):
            what = bias(m.actuator_biastype[i]).name.removeprefix("mjBIAS_").lower()
            yield f"<actuator name={name!r} biastype={what!r}>: use none or affine."
        if m.actuator_delay[i] != 0 or m.actuator_history[i, 0] != 0:
            yield f"<actuator name={name!r} delay>: not simulated."
        if m.actuator_damping[i] != 0 or np.any(m.actuator_dampingpoly[i]) or m.actuator_armature[i] != 0:
            yield f"<actuator name={name!r} damping/armature>: not simulated; give them to the joint."
