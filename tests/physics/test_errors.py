"""Whatever is not simulated is refused when it is loaded, by name."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from slipstream import physics
from slipstream.physics import fields, unsupported

BODY = '<body name="arm"><joint name="hinge" axis="0 1 0"{joint}/><geom name="ball" size="0.1"{geom}/>'
BODY += "{inner}</body>"


def xml(option="", joint="", geom="", inner="", world="", rest="") -> str:
    body = BODY.format(joint=joint, geom=geom, inner=inner)
    return f"<mujoco>{option}<worldbody>{world}{body}</worldbody>{rest}</mujoco>"


OLD_COLLISIONS = '<option><flag nativeccd="disable"/></option>'
ACTUATOR = '<actuator><{} name="motor" joint="hinge" {}/></actuator>'
REFUSED = [
    (xml(option='<option><flag speculative="enable"/></option>'), "speculative='enable'"),
    (xml(option='<option integrator="implicit"/>'), "integrator='implicit'"),
    (xml(option='<option noslip_iterations="3"/>'), "noslip_iterations='3'"),
    (xml(option='<option><flag override="enable"/></option>'), "override='enable'"),
    (xml(joint=' springyield="1"'), "<joint name='hinge' springyield>"),
    (xml(joint=' stiffness="1 2"'), "<joint name='hinge' stiffness>"),
    (xml(joint=' damping="1 2"'), "<joint name='hinge' damping>"),
    (xml(geom=' fluidshape="ellipsoid"'), "<geom name='ball' fluidshape='ellipsoid'>"),
    (
        xml(option=OLD_COLLISIONS, world='<geom name="egg" type="ellipsoid" size="1 1 2"/>'),
        "name='egg' type='ellipsoid'",
    ),
    (
        xml(rest='<tendon><fixed name="string" armature="3"><joint joint="hinge" coef="1"/></fixed></tendon>'),
        "<tendon name='string' armature>",
    ),
    (
        xml(rest='<tendon><fixed name="string" springyield="3"><joint joint="hinge" coef="1"/></fixed></tendon>'),
        "<tendon name='string' springyield>",
    ),
    (xml(rest=ACTUATOR.format("muscle", 'lengthrange="0 1"')), "<actuator name='motor' dyntype='muscle'>"),
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
        physics.load(xml(option='<option integrator="implicit" noslip_iterations="1"/>'))
    assert "implicit" in str(error.value) and "noslip" in str(error.value)


def test_problems_of_elements_and_of_pairs_are_listed_together():
    world = '<geom name="egg" type="ellipsoid" size="1 1 2"/>'
    with pytest.raises(physics.ModelError) as error:
        option = '<option integrator="implicit"><flag nativeccd="disable"/></option>'
        physics.load(xml(option=option, world=world, joint=' springyield="1"'))
    for word in ("implicit", "springyield", "name='egg'"):
        assert word in str(error.value)


def crates(count: int) -> str:
    return "".join(f'<geom name="crate{k}" type="ellipsoid" size="1 1 1" pos="{3 * k} 0 9"/>' for k in range(count))


def test_alike_problems_are_one_line_with_a_count_and_examples():
    with pytest.raises(physics.ModelError) as error:
        physics.load(xml(option=OLD_COLLISIONS, world=crates(1200), joint=' springyield="1"'))
    first, joint, pairs = str(error.value).splitlines()
    assert first == "This model cannot be simulated:"
    assert "<joint name='hinge' springyield>" in joint
    assert "There are 1,200: 'ball' and 'crate0', 'ball' and 'crate1'" in pairs and "crate9" not in pairs


def test_without_self_collision_pairs_of_moving_geoms_are_no_problem():
    second = '<body pos="0 3 0"><joint axis="0 1 0"/><geom name="crate" type="ellipsoid" size="0.1 0.1 0.1"/></body>'
    text = xml(option=OLD_COLLISIONS, world=second)
    with pytest.raises(physics.ModelError, match="'crate'"):
        physics.load(text)
    assert not physics.load(text, self_collision=False).pairs
    assert not physics.load(text, self_contacts=0).pairs


@pytest.mark.parametrize(
    ("active", "option"),
    [("false", ""), ("true", '<option><flag equality="disable"/></option>')],
)
def test_equalities_that_do_nothing_are_no_problem(active, option):
    lock = f'<equality><joint name="lock" joint1="hinge" active="{active}"/></equality>'
    assert physics.load(xml(option=option, rest=lock)).nv == 1


# Features of a newer MuJoCo.


def test_every_field_of_the_installed_mujoco_is_known():
    m = mujoco.MjModel.from_xml_string(fields.EVERYTHING)
    assert [name for name in fields._fields(m) if not fields._is_known(name)] == []
    known = {f"{first}_{rest}" for first, names in fields.ACTS.items() for rest in names.split()}
    known |= set(fields.SIZES.split())
    assert known <= set(fields._fields(m))


@pytest.mark.parametrize(
    ("field", "plain", "used"),
    [
        ("jnt_stiffness", "", ' stiffness="3"'),
        ("dof_damping", "", ' damping="2"'),
        ("opt_impratio", "", ""),
        ("jnt_range", ' damping="1"', ' range="-10 10"'),
    ],
)
def test_a_field_that_is_not_known_is_refused_where_a_model_uses_it(monkeypatch, field, plain, used):
    first, _, rest = field.partition("_")
    names = [name for name in fields.ACTS[first].split() if name != rest]
    monkeypatch.setitem(fields.ACTS, first, " ".join(names))
    assert physics.load(xml(joint=plain)).nv == 1
    with pytest.raises(physics.ModelError, match=field):
        physics.load(xml(joint=used, option='<option impratio="3"/>'))


def test_flags_that_are_not_known_are_refused(monkeypatch):
    monkeypatch.setattr(unsupported, "KNOWN_DISABLED", ("CONSTRAINT",))
    with pytest.raises(physics.ModelError, match="<flag gravity='disable'>"):
        physics.load(xml(option='<option><flag gravity="disable"/></option>'))


@pytest.mark.parametrize("version", ["3.3.7", "5.0.0"])
def test_other_versions_of_mujoco_are_refused(monkeypatch, version):
    monkeypatch.setattr(mujoco, "__version__", version)
    with pytest.raises(physics.ModelError, match=f"MuJoCo {version} is installed; install 'mujoco>=4.0,<5'"):
        physics.load(xml())


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
