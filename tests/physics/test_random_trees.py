"""Any tree of supported joints and geoms moves as in MuJoCo."""

from __future__ import annotations

import mujoco
import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from robots import converged, relative, step_states, visited_states

from slipstream import physics

angle = st.integers(-180, 180)
small = st.integers(-3, 3).map(lambda k: k / 10)
place = st.tuples(small, small, small)


def vector(values) -> str:
    return " ".join(str(v) for v in values)


@st.composite
def joints(draw, is_root: bool) -> str:
    kind = draw(
        st.sampled_from(
            ["free", "ball", "hinge", "slide", "hinges"] if is_root else ["ball", "hinge", "slide", "hinges"]
        )
    )
    if kind == "free":
        return "<freejoint/>"
    if kind == "ball":
        extra = draw(st.sampled_from(["", 'range="0 70"', 'stiffness="3"', 'damping="0.3"']))
        return f'<joint type="ball" pos="{vector(draw(place))}" {extra}/>'
    parts = []
    for _ in range(draw(st.integers(2, 3)) if kind == "hinges" else 1):
        axis = draw(st.sampled_from(["1 0 0", "0 1 0", "0 0 -1", "1 2 0", "1 -1 3"]))
        limit = "-40 50" if kind != "slide" else "-0.2 0.3"
        extra = draw(
            st.sampled_from(
                [
                    "",
                    f'range="{limit}"',
                    f'range="{limit}" margin="0.05" solreflimit="0.05 0.8"',
                    f'range="{limit}" solreflimit="-300 -20" solimplimit="0.8 0.9 0.05 0.4 3"',
                    'armature="0.05" damping="0.7"',
                    'stiffness="8" springref="0.3" ref="0.1"',
                    'frictionloss="0.4"',
                ]
            )
        )
        parts.append(f'<joint type="{kind.removesuffix("s")}" axis="{axis}" pos="{vector(draw(place))}" {extra}/>')
    return "".join(parts)


@st.composite
def geom(draw) -> str:
    kind = draw(st.sampled_from(["sphere", "capsule", "capsule", "box"]))
    size = {"sphere": "0.1", "capsule": "0.06 0.15", "box": "0.1 0.07 0.05"}[kind]
    surface = draw(
        st.sampled_from(
            ["", 'condim="1"', 'friction="0.4"', 'solref="0.03 0.7" solimp="0.8 0.98 0.01"', 'margin="0.02"']
        )
    )
    # Boxes collide with the floor only.
    group = 'contype="0" conaffinity="2"' if kind == "box" else 'contype="1" conaffinity="3"'
    pose = f'pos="{vector(draw(place))}" euler="{draw(angle)} {draw(angle)} 0"'
    return f'<geom type="{kind}" size="{size}" {pose} {surface} {group} density="800"/>'


@st.composite
def body(draw, depth: int, is_root: bool = False) -> str:
    fixed = not is_root and draw(st.integers(0, 4)) == 0
    inner = "" if fixed else draw(joints(is_root))
    inner += "".join(draw(geom()) for _ in range(draw(st.integers(1, 2))))
    if depth > 0:
        inner += "".join(draw(body(depth - 1)) for _ in range(draw(st.integers(0, 2))))
    height = 0.6 if is_root else draw(small)
    x, y, _ = draw(place)
    return f'<body pos="{x} {y} {height}" euler="{draw(angle)} 0 {draw(angle)}">{inner}</body>'


@st.composite
def model_xml(draw) -> str:
    trees = "".join(draw(body(draw(st.integers(0, 2)), is_root=True)) for _ in range(draw(st.integers(1, 2))))
    option = draw(
        st.sampled_from(["", 'impratio="3"', 'density="50" viscosity="0.5" wind="1 0 0.5"', 'gravity="1 2 -5"'])
    )
    integrator = draw(st.sampled_from(["Euler", "RK4"]))
    floor = draw(st.sampled_from(['euler="0 0 0"', 'euler="10 5 0"']))
    return f"""<mujoco><option timestep="0.004" integrator="{integrator}" {option}/><worldbody>
      <geom type="plane" size="5 5 1" {floor} contype="2" conaffinity="1"/>{trees}</worldbody></mujoco>"""


def separate_capsules(m: mujoco.MjModel, states) -> np.ndarray:
    """States without parallel capsules (which MuJoCo gives two contacts) and without deep overlap."""
    data, keep = mujoco.MjData(m), []
    for q, v in zip(states.qpos, states.next_qvel):
        data.qpos[:] = q
        mujoco.mj_fwdPosition(m, data)
        plain = [tuple(c.geom) for c in data.contact if m.geom_bodyid[c.geom[0]] != 0]
        deep = any(c.dist < -0.06 for c in data.contact)
        keep.append(len(plain) == len(set(plain)) and len(plain) <= 6 and not deep and np.abs(v).max() < 100)
    return np.array(keep)


@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    phases=[Phase.generate],  # shrinking would compile a kernel per attempt
)
@given(model_xml())
def test_random_trees_step_as_in_mujoco(xml):
    m = converged(mujoco.MjModel.from_xml_string(xml))
    states = visited_states(m, 40, every=3)
    model = physics.load(m, self_contacts=6, newton_iterations=50)
    qpos, qvel, _ = step_states(model, states, double=True)
    keep = separate_capsules(m, states)
    assert (relative(qvel, states.next_qvel)[keep] < 1e-6).all(), xml
    assert (relative(qpos, states.next_qpos)[keep] < 1e-6).all(), xml
