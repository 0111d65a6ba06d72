"""The fields of MuJoCo's compiled model: which are known, so that what a newer MuJoCo adds is not overlooked.

A field that is not in this table must have the value it has in a model that does not ask for anything; every other
model is refused. So is one with an unknown number of unknown things.
"""

# MuJoCo's Python package has no type stubs for its compiled part.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import mujoco
import numpy as np

from slipstream.physics.refusal import ModelError, Refusal

OLDEST, TOO_NEW = (4, 0), (5, 0)
"""Versions of MuJoCo: the first that has all fields that are read, and the first whose physics nobody compared."""

ACTS = {
    "actuator": """acc0 actadr actearly actlimited actnum actrange armature biasprm biastype cranklength ctrladr
        ctrllimited ctrlnum ctrlrange ctrlspec damping dampingpoly delay dynprm dyntype forcelimited forcerange gainprm
        gaintype gear group history historyadr length0 lengthrange outadr outnum plugin trnid trntype user""",
    "body": """bvhadr bvhnum conaffinity contype dofadr dofnum geomadr geomnum gravcomp inertia invweight0 ipos iquat
        jntadr jntnum margin mass mocapid parentid plugin pos quat rootid sameframe simple subtreemass treeid user
        weldid""",
    "dof": """M0 Madr armature bodyid damping dampingpoly frictionloss invweight0 jntid length parentid simplenum solimp
        solref treeid""",
    "eq": "active0 data obj1id obj2id objtype solimp solref type",
    "exclude": "signature",
    "flg": "adhesion gravcomp surfacevel",
    "geom": """aabb adhesion bodyid castshadow conaffinity condim contype dataid fluid friction gap group margin matid
        plugin pos priority quat rbound rgba sameframe size solimp solmix solref surfacevel type user""",
    "jnt": """actfrclimited actfrcrange actgravcomp actuatorid axis bodyid dofadr group limited margin plasticadr pos
        qposadr range solimp solref springyield stiffness stiffnesspoly type user""",
    "opt": """ccd_iterations ccd_tolerance cone density disableactuator disableflags enableflags gravity impratio
        integrator iterations jacobian ls_iterations ls_tolerance magnetic noslip_iterations noslip_tolerance
        o_friction o_margin o_solimp o_solref sdf_initpoints sdf_iterations sleep_tolerance solver timestep tolerance
        viscosity wind""",
    "pair": "adhesion dim friction gap geom1 geom2 margin signature solimp solref solreffriction",
    "qpos": "spring",
    "tendon": """actfrclimited actfrcrange actuatorid adr armature damping dampingpoly frictionloss group invweight0
        length0 lengthspring limited margin matid num plasticadr range rgba solimp_fri solimp_lim solref_fri solref_lim
        springyield stiffness stiffnesspoly treeid treenum type user width""",
    "tree": "bodyadr bodynum dofadr dofnum sleep_policy",
    "wrap": "objid prm type",
}
"""What can act on a robot, by the first part of a field's name. All of it is read, refused, or without effect."""

HARMLESS = """
    bvh cam efm0 efmC flex flexedge hfield key light mat mesh name names nuser numeric oct plugin sensor site skin
    ten tex text tuple B D M mapD2M mapM2D mapM2M narena nbuffer nconmax njmax nemax qpos0 signature
"""
"""What is drawn, measured, derived from the rest or (flexes, plugins) refused as a whole."""

SIZES = """
    nB nC nD nJfe nJmom nJten nM na nactuator nbody nbvh nbvhdynamic nbvhstatic ncam nefm0L nefm0dof nefmCvert neq
    nexclude nflex nflexbending nflexedge nflexelem nflexelemdata nflexelemedge nflexnode nflexshelldata
    nflexstiffness nflextexcoord nflexvert ngeom ngravcomp nhfield nhfielddata nhistory njnt nkey nlight nmat nmesh
    nmeshdegmax nmeshface nmeshgraph nmeshnormal nmeshpoly nmeshpolymap nmeshpolyvert nmeshtexcoord nmeshvert nmocap
    nnames nnames_map nnumeric nnumericdata noct nout npair npaths nplastic nplugin npluginattr npluginstate
    npolygonmax nq nsensor nsensordata nsite nskin nskinbone nskinbonevert nskinface nskintexvert nskinvert ntendon
    ntex ntexdata ntext ntextdata ntree ntuple ntupledata nu nuserdata nv nwrap
"""

EVERYTHING = """<mujoco><worldbody><body name="b"><joint name="j"/><geom name="g" size="1"/></body>
  <body name="d"><joint name="k"/><geom name="i" size="1"/></body></worldbody>
  <contact><exclude body1="b" body2="d"/><pair geom1="g" geom2="i"/></contact>
  <tendon><fixed><joint joint="j" coef="1"/></fixed></tendon><equality><joint joint1="j" active="false"/></equality>
  <actuator><motor joint="j"/></actuator></mujoco>"""
"""One of every element, none of which asks for anything."""


def refuse_other_versions() -> None:
    """Raise a `ModelError` where the installed MuJoCo is not one that this engine knows."""
    version = tuple(int(part) for part in mujoco.__version__.split(".")[:2])
    if not OLDEST <= version < TOO_NEW:
        needed = f"mujoco>={OLDEST[0]}.{OLDEST[1]},<{TOO_NEW[0]}"
        raise ModelError(f"MuJoCo {mujoco.__version__} is installed; install '{needed}' (slipstream-rl[robots]).")


def unknown_fields(m: mujoco.MjModel) -> Iterator[Refusal]:
    """Fields of a newer MuJoCo that this model makes use of."""
    plain = _plain_fields()
    for name, value in _fields(m).items():
        if not _is_known(name) and not _is_plain(value, plain.get(name)):
            yield Refusal(f"<!-- {name} -->", f"a feature of MuJoCo {mujoco.__version__} that is not simulated.")


def _is_known(name: str) -> bool:
    first, _, rest = name.partition("_")
    if name in SIZES.split() or {name, first} & set(HARMLESS.split()):
        return True
    return first in ACTS and rest in ACTS[first].split()


def _fields(m: mujoco.MjModel) -> dict[str, Any]:
    """By name, all numbers and arrays of a model; those of its options begin with `opt_`."""
    found = {name: getattr(m, name) for name in dir(m) if not name.startswith("_")}
    found |= {f"opt_{name}": getattr(m.opt, name) for name in dir(m.opt) if not name.startswith("_")}
    return {name: value for name, value in found.items() if isinstance(value, int | float | np.ndarray)}


@cache
def _plain_fields() -> dict[str, np.ndarray]:
    return {name: np.array(value) for name, value in _fields(mujoco.MjModel.from_xml_string(EVERYTHING)).items()}


def _is_plain(value: Any, plain: np.ndarray | None) -> bool:
    """Whether a field has the value that it has where nobody asks for anything (for many elements, that of one)."""
    value = np.asarray(value)
    if plain is None or plain.size == 0 or plain.shape[1:] != value.shape[1:]:
        return not value.any()
    return bool((value == (plain[:1] if plain.ndim else plain)).all())
