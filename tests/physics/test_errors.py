"""Whatever is not simulated is refused when it is loaded, by name."""

from __future__ import annotations

import numpy as np
import pytest

from slipstream import physics

BODY = '<body name="arm"><joint name="hinge" axis="0 1 0"{joint}/><geom name="ball" size="0.1"{geom}/>'
BODY += "{inner}</body>"


def xml(option="", joint="", geom="", inner="", world="", rest="") -> str:
    body = BODY.format(joint=joint, geom=geom, inner=inner)
    return f"<mujoco>{option}<worldbody>{world}{body}</worldbody>{rest}</mujoco>"


ACTUATOR = '<actuator><{} name="motor" joint="hinge" {}/></actuator>'
REFUSED = [
    (xml(option='<option cone="elliptic"/>'), "cone='elliptic'"),
    (xml(option='<option integrator="implicit"/>'), "integrator='implicit'"),
    (xml(option='<option noslip_iterations="3"/>'), "noslip_iterations='3'"),
    (xml(option='<option><flag override="enable"/></option>'), "override='enable'"),
    (xml(joint=' stiffness="1 2"'), "<joint name='hinge' stiffness>"),
    (xml(joint=' damping="1 2"'), "<joint name='hinge' damping>"),
    (xml(joint=' actuatorfrcrange="-1 1"'), "<joint name='hinge' actuatorfrcrange>"),
    (xml(geom=' fluidshape="ellipsoid"'), "<geom name='ball' fluidshape='ellipsoid'>"),
    (xml(geom=' condim="6"', world='<geom name="floor" type="plane" size="1 1 1"/>'), "condim='6'"),
    (xml(world='<geom name="can" type="cylinder" size="1 1"/>'), "name='can' type='cylinder'"),
    (xml(world='<geom name="crate" type="box" size="1 1 1"/>'), "name='crate' type='box'"),
    (xml(rest='<equality><joint name="lock" joint1="hinge"/></equality>'), "<joint name='lock'>"),
    (
        xml(rest='<tendon><fixed name="string" stiffness="3"><joint joint="hinge" coef="1"/></fixed></tendon>'),
        "<tendon name='string' stiffness>",
    ),
    (
        xml(rest=ACTUATOR.format("general", 'dyntype="integrator"')),
        "<actuator name='motor' dyntype='integrator'>",
    ),
    (xml(rest=ACTUATOR.format("muscle", 'lengthrange="0 1"')), "<actuator name='motor' dyntype='muscle'>"),
    (xml(inner='<body name="light" gravcomp="1"><geom size="0.1"/></body>'), "name='light' gravcomp='1'"),
    ("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>", "nothing to simulate"),
    ("<mujoco><worldbody><body><freejoint/></body></worldbody></mujoco>", "MuJoCo cannot read"),
    ("<mujoco><worldbody>", "MuJoCo cannot read"),
    ("no-such-file.xml", "no-such-file.xml"),
]


@pytest.mark.parametrize(("source", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_unsupported_models_are_refused_by_name(source, message):
    with pytest.raises(physics.ModelError) as error:
        physics.load(source)
    assert message in str(error.value)


def test_all_problems_are_listed_at_once():
    with pytest.raises(physics.ModelError) as error:
        physics.load(xml(option='<option cone="elliptic" noslip_iterations="1"/>'))
    assert "elliptic" in str(error.value) and "noslip" in str(error.value)


def test_an_unsupported_integrator_can_be_replaced():
    assert physics.load(xml(option='<option integrator="implicit"/>'), integrator="euler").nv == 1


@pytest.mark.parametrize(
    "options", [{"integrator": "leapfrog"}, {"timestep": -1.0}, {"newton_iterations": 0}, {"touch": ("toe",)}]
)
def test_bad_options(options):
    with pytest.raises(physics.ModelError):
        physics.load(xml(), **options)


def test_bad_inputs_of_a_batch():
    model = physics.load(xml(rest=ACTUATOR.format("motor", "")))
    with pytest.raises(ValueError, match="at least 1"):
        physics.Batch(model, 0)
    batch = physics.Batch(model, 3)
    with pytest.raises(ValueError, match="world 2"):
        batch.controls([[0.0, 0.0, np.nan]])
    with pytest.raises(ValueError, match=r"ctrl must have shape \(1, 3\)"):
        batch.controls([[0.0, 0.0]])
    with pytest.raises(ValueError, match=r"qpos must have shape \(1, 3\)"):
        batch.set_state(np.zeros((2, 3)), np.zeros((1, 3)))
    with pytest.raises(ValueError, match="1 ctrl"):
        physics.step(model, batch.state, [])


def test_names_are_looked_up():
    model = physics.load(xml())
    assert model.body("arm") == 1 and model.joint("hinge").dof == 0 and model.geom("ball") == 0
    with pytest.raises(physics.ModelError, match="no joint named 'knee'; it has: hinge"):
        model.joint("knee")
