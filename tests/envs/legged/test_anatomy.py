"""What is found of a robot that nobody described: its base, its feet, how it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipstream import physics
from slipstream.envs.legged.anatomy import find_anatomy
from slipstream.envs.legged.legged import MODELS
from slipstream.envs.legged.servos import prepare
from slipstream.physics import ModelError

HEXAPOD_LEG = """
<body name="leg{i}" pos="{x} {y} 0">
  <joint name="leg{i}" axis="0 0 1" range="-1 1"/>
  <geom type="capsule" fromto="0 0 0 {x} {y} -0.2" size="0.02"/>
  <geom name="foot{i}" pos="{x} {y} -0.2" size="0.025"/>
</body>"""


def model_of(file: str) -> physics.Model:
    return physics.load(prepare(MODELS / f"{file}.xml", None, None)[0])


def hexapod(tmp_path: Path, actuators: str = "", root: str = "<freejoint/>") -> Path:
    """Six legs, neither a floor nor a keyframe."""
    places = [(0.2, 0.1), (0.0, 0.15), (-0.2, 0.1), (-0.2, -0.1), (0.0, -0.15), (0.2, -0.1)]
    legs = "".join(HEXAPOD_LEG.format(i=i, x=x, y=y) for i, (x, y) in enumerate(places))
    motors = actuators or "".join(f'<motor joint="leg{i}" gear="5" ctrlrange="-1 1"/>' for i in range(6))
    path = tmp_path / "hexapod.xml"
    path.write_text(
        f'<mujoco><compiler angle="radian"/><worldbody><body name="hull" pos="0 0 1">{root}'
        f'<geom type="box" size="0.2 0.1 0.05"/>{legs}</body></worldbody><actuator>{motors}</actuator></mujoco>'
    )
    return path


def test_a_quadruped_stands_on_four_feet_in_its_keyframe():
    model = model_of("quadruped")
    found = find_anatomy(model)
    assert model.bodies[found.base].name == "torso" and "'home'" in found.source
    assert [foot.name.removesuffix("_shank") for foot in found.feet] == [
        "front_left",
        "rear_left",
        "rear_right",
        "front_right",
    ]
    assert all(foot.place[2] == pytest.approx(0.0, abs=1e-3) for foot in found.feet)
    assert physics.clearance(model, physics.pose(model, found.home)) == pytest.approx(0.0, abs=1e-9)


def test_a_foot_of_several_contacts_has_its_sole_in_their_middle():
    model = model_of("biped")
    left, right = find_anatomy(model).feet
    assert (left.name, right.name) == ("left_foot", "right_foot")
    assert left.place[1] == pytest.approx(-right.place[1]) == pytest.approx(0.09, abs=1e-6)


def test_a_robot_without_floor_and_keyframe_stands_in_its_default_pose(tmp_path):
    m, motors = prepare(hexapod(tmp_path), None, None)
    found = find_anatomy(physics.load(m, self_collision=False))
    assert len(found.feet) == 6 and len(motors) == 6
    assert found.source == "its default pose" and found.height == pytest.approx(0.225, abs=1e-6)


def test_motors_become_servos_with_the_same_torque(tmp_path):
    m, _ = prepare(hexapod(tmp_path), None, None)
    assert m.actuator_forcerange[0].tolist() == [-5.0, 5.0]
    assert m.actuator_ctrlrange[0].tolist() == [-1.0, 1.0]
    assert m.actuator_gainprm[0, 0] == pytest.approx(5.0 / 0.4) == -m.actuator_biasprm[0, 1]
    soft, _ = prepare(hexapod(tmp_path), 3.0, 0.1)
    assert soft.actuator_gainprm[0, 0] == 3.0 and soft.actuator_biasprm[0, 2] == -0.1


def test_feet_and_home_can_be_chosen():
    model = model_of("quadruped")
    found = find_anatomy(model, feet=("front_left_foot", "rear_right_foot"))
    assert len(found.feet) == 2
    with pytest.raises(ModelError, match="'hoof'"):
        find_anatomy(model, feet=("hoof", "rear_right_foot"))
    with pytest.raises(ModelError, match="does not collide"):
        find_anatomy(model, feet=("front_left_thigh", "rear_right_foot"))
    with pytest.raises(ModelError, match="crouch"):
        find_anatomy(model, home="crouch")


def test_what_cannot_walk_is_refused_with_the_reason(tmp_path):
    fixed, _ = prepare(hexapod(tmp_path, root=""), None, None)
    with pytest.raises(ModelError, match="free"):
        find_anatomy(physics.load(fixed, self_collision=False))
    with pytest.raises(ModelError, match="neither a <motor> nor a <position>"):
        prepare(hexapod(tmp_path, '<velocity joint="leg0" kv="1"/>'), None, None)
    with pytest.raises(ModelError, match="no limit"):
        prepare(hexapod(tmp_path, '<motor joint="leg0"/>'), None, None)


def test_odd_grounds_and_motors_are_refused_with_the_way_out(tmp_path):
    path = hexapod(tmp_path)
    text = path.read_text()
    path.write_text(text.replace("<worldbody>", '<worldbody><geom name="floor" type="box" size="9 9 1" pos="0 0 -1"/>'))
    assert prepare(path, None, None)[0].ngeom == text.count("<geom") + 2
    hills = (
        '<asset><hfield name="h" nrow="2" ncol="2" size="1 1 1 1"/></asset><worldbody><geom type="hfield" hfield="h"/>'
    )
    path.write_text(text.replace("<worldbody>", hills))
    with pytest.raises(ModelError, match="ground=rough"):
        prepare(path, None, None)
    with pytest.raises(ModelError, match="neither a <motor>"):
        prepare(hexapod(tmp_path, '<damper joint="leg0" kv="1" ctrlrange="0 1"/>'), None, None)
