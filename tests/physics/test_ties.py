"""What pulls on joints and ties them, against MuJoCo: activations, force limits, tendons, equalities, compensation."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from robots import converged, relative, rows

from slipstream import physics

HEAD = '<mujoco><option timestep="0.004" integrator="{integrator}"/><worldbody>'
ARM = """<geom type="plane" size="5 5 1" pos="0 0 -0.9"/>
  <body name="upper" pos="0 0 0.4" {gravcomp}><joint name="shoulder" axis="0 1 0" damping="0.2" {joint}/>
    <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.04"/><site name="on_upper" pos="0.3 0 0.06"/>
    <body name="lower" pos="0.4 0 0" {gravcomp}><joint name="elbow" axis="0 1 0.3" damping="0.1" {joint}/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03"/><site name="on_lower" pos="0.1 0 0.05"/></body>
    <body name="other" pos="0.4 0 0"><joint name="finger" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" fromto="0 0.1 0 0.2 0.1 0" size="0.02" contype="0" conaffinity="0"/>
      <site name="on_other" pos="0.2 0.1 0" euler="10 20 30"/></body></body>
  {ball}
  <body name="aim" mocap="true" pos="0 0 2"><geom size="0.1" contype="0" conaffinity="0"/></body>
  <site name="anchor" pos="0.5 0 0.9"/></worldbody>"""
BALL = '<body name="ball" pos="0.9 0.05 0.5"><freejoint/><geom size="0.05"/>'
BALL += '<site name="on_ball" pos="0 0 0.02"/></body>'
MOTOR = '<actuator><general name="a" joint="elbow" gear="2" gainprm="3" {}/><position joint="shoulder" kp="9" kv="1"/>'
MOTOR += "</actuator>"
PULL = '<actuator><position tendon="{}" kp="5" kv="0.2" gear="1.5" ctrlrange="-1 1"/></actuator>'


def fixed(attributes: str, joint: str = "elbow") -> str:
    joints = f'<joint joint="{joint}" coef="0.7"/><joint joint="finger" coef="-1.3"/>'
    return f'<tendon><fixed name="t" {attributes}>{joints}</fixed></tendon>'


def string(attributes: str, end: str = "on_ball") -> str:
    sites = '<site site="anchor"/><site site="on_upper"/><pulley divisor="2"/><site site="on_lower"/>'
    return f'<tendon><spatial name="s" {attributes}>{sites}<site site="{end}"/></spatial></tendon>'


CASES = {
    "force limit of a joint": ('actuatorfrcrange="-2 1"', MOTOR.format('biastype="affine" biasprm="0 0 -2"')),
    "integrator": ("", MOTOR.format('dyntype="integrator" actlimited="true" actrange="-0.3 0.2"')),
    "filter": ("", MOTOR.format('dyntype="filter" dynprm="0.05"')),
    "exact filter": ("", MOTOR.format('dyntype="filterexact" dynprm="0.003"')),
    "early filter": ("", MOTOR.format('dyntype="filterexact" dynprm="0.02" actearly="true"')),
    "compensation": ("", ""),
    "compensation by actuators": (
        'actuatorgravcomp="true" actuatorfrcrange="-3 3"',
        MOTOR.format('biastype="affine" biasprm="0 0 -2"'),
    ),
    "spring of a fixed tendon": ("", fixed('stiffness="30" springlength="-0.1 0.2" damping="0.5"')),
    "limit of a tendon across branches": ("", fixed('range="-0.2 0.1"')),
    "limit of a tendon along a branch": ("", fixed('range="-0.2 0.1"', "shoulder")),
    "dry friction of a tendon": ("", fixed('frictionloss="0.8"')),
    "actuated tendon": ("", fixed("") + PULL.format("t")),
    "actuated tendon with a limit": ("", fixed('actuatorfrcrange="-2 2"', "shoulder") + PULL.format("t")),
    "string": ("", string('range="0 0.7" stiffness="12" damping="0.6" springlength="0.4"') + PULL.format("s")),
    "string of an arm": ("", string('range="0 0.7" stiffness="12" damping="0.6"', "on_other") + PULL.format("s")),
    "joint equality": (
        "",
        '<equality><joint joint1="elbow" joint2="finger" polycoef="0.1 0.8 0.2 -0.1 0.05"/></equality>',
    ),
    "locked joint": ("", '<equality><joint joint1="elbow" polycoef="0.2 0 0 0 0" solref="0.03 1"/></equality>'),
    "tendon equality": (
        "",
        fixed("") + string("") + '<equality><tendon tendon1="t" tendon2="s" polycoef="0 0.5 0 0 0"/></equality>',
    ),
    "connect": ("", '<equality><connect body1="lower" body2="ball" anchor="0.3 0 0"/></equality>'),
    "connect to the world": ("", '<equality><connect site1="on_ball" site2="anchor"/></equality>'),
    "weld": ("", '<equality><weld body1="other" body2="ball" anchor="0.1 0 0" torquescale="0.7"/></equality>'),
    "weld of sites": ("", '<equality><weld site1="on_other" site2="on_ball"/></equality>'),
    "weld to a mocap body": ("", '<equality><weld body1="ball" body2="aim" relpose="0 0 -1 1 0 0 0"/></equality>'),
}


def model_of(case: str, integrator: str) -> mujoco.MjModel:
    joint, rest = CASES[case]
    gravcomp = 'gravcomp="0.8"' if "compensation" in case else ""
    arm = ARM.format(joint=joint, gravcomp=gravcomp, ball=BALL if "ball" in rest else "")
    return converged(mujoco.MjModel.from_xml_string(HEAD.format(integrator=integrator) + arm + rest + "</mujoco>"))


def reached(m: mujoco.MjModel, count: int, steps: int, seed: int = 0) -> tuple[dict, list[mujoco.MjData]]:
    """Random states, and MuJoCo some steps after them."""
    rng, after, before = np.random.default_rng(seed), [], []
    for _ in range(count):
        data = mujoco.MjData(m)
        mujoco.mj_integratePos(m, data.qpos, 0.2 * rng.normal(size=m.nv), 1.0)
        data.qvel[:], data.act[:] = 0.5 * rng.normal(size=m.nv), 0.2 * rng.normal(size=m.na)
        data.ctrl[:] = rng.normal(size=m.nu)
        before.append([part.copy() for part in (data.qpos, data.qvel, data.act, data.ctrl)])
        for _ in range(steps):
            mujoco.mj_step(m, data)
        after.append(data)
    parts = zip(("qpos", "qvel", "act", "ctrl"), zip(*before))
    return {name: np.array(part).reshape(count, -1) for name, part in parts}, after


def compare(case: str, integrator: str) -> None:
    m = model_of(case, integrator)
    worlds = 20
    start, _ = reached(m, worlds, 0)
    batch = physics.Batch(physics.load(m), worlds, double=True)
    batch.set_state(start["qpos"].T, start["qvel"].T, act=start["act"].T)
    controls = batch.controls(start["ctrl"].T)
    for step in range(1, 101):
        batch.step(controls)
        if step in (1, 100):
            _, after = reached(m, worlds, step)
            for name in ("qpos", "qvel", "act"):
                if getattr(batch.state, name):
                    found = rows(getattr(batch.state, name), worlds)
                    error = relative(found, np.array([getattr(data, name) for data in after])).max()
                    assert error < (1e-7 if step == 1 else 1e-5), (step, name)


@pytest.mark.parametrize("case", CASES)
def test_a_step_and_a_hundred_are_mujocos(case):
    compare(case, "Euler")


FAST = [case for case in CASES if "actuat" in case or "limit" in case or case in ("string of an arm", "early filter")]


@pytest.mark.parametrize("case", FAST)
def test_they_are_mujocos_with_implicit_damping(case):
    compare(case, "implicitfast")


@pytest.mark.parametrize("case", ["filter", "exact filter", "integrator"])
def test_activations_are_mujocos_with_runge_kutta(case):
    compare(case, "RK4")


def test_worlds_start_at_a_keyframe():
    arm = ARM.format(joint="", gravcomp="", ball="")
    keys = '<keyframe><key name="raised" qpos="0.1 0.2 0.3" qvel="1 2 3" act="0.4"/></keyframe>'
    rest = MOTOR.format('dyntype="filter" dynprm="0.05"') + keys
    model = physics.load(HEAD.format(integrator="Euler") + arm + rest + "</mujoco>")
    batch = physics.Batch(model, 3, double=True)
    batch.reset("raised")
    for name, expected in (("qpos", [0.1, 0.2, 0.3]), ("qvel", [1, 2, 3]), ("act", [0.4])):
        assert rows(getattr(batch.state, name), 3) == pytest.approx(np.tile(expected, (3, 1)))
    with pytest.raises(physics.ModelError, match="no keyframe named 'lowered'; it has: raised"):
        batch.reset("lowered")
    with pytest.raises(ValueError, match="1 activations; the state has 0"):
        physics.step(model, physics.State([0.0] * 3, [0.0] * 3, [0.0] * 3, [], 0.0), [0.0, 0.0])


def test_a_robot_of_a_task_keeps_its_activations(tmp_path):
    """Two steps of a filter from zero, in a world of an environment."""
    from slipstream.envs.locomotion.robot import Robot

    arm = ARM.format(joint="", gravcomp="", ball="")
    path = tmp_path / "arm.xml"
    path.write_text(
        HEAD.format(integrator="Euler") + arm + MOTOR.format('dyntype="filter" dynprm="0.05"') + "</mujoco>"
    )

    class Arm(Robot):
        name = "arm"

        def reset(self, rng):
            return self.start_state(self.model.qpos0, (0.0,) * self.model.nv, rng)

        def step(self, state, action, rng):
            return self.simulate(state, action, rng), 0.0, False

        def observe(self, state):
            return state.qpos

    robot = Arm(str(path), 2)
    state = robot.start_state(robot.model.qpos0, (0.0,) * robot.model.nv)
    assert state.act == (0.0,)
    after = robot.simulate(state, (1.0, 0.0), None)  # type: ignore[arg-type]
    assert after.act == pytest.approx((0.08 + (1 - 0.08) * 0.08,))
