"""A number that is not finite is refused in one line that says where it stands."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from slipstream import physics
from slipstream.cli.main import FAILED, main

VALUES = {
    "gravity": "0 0 -9.81",
    "pos": "0 0 1",
    "damping": "1",
    "range": "-1 1",
    "size": "0.1",
    "mass": "1",
    "friction": "1 0.1 0.1",
    "gear": "1",
}
XML = """<mujoco><option gravity="{gravity}"/><worldbody>
<body name="arm" pos="{pos}"><joint name="inf" axis="0 1 0" damping="{damping}" range="{range}"/>
<geom name="ball" size="{size}" mass="{mass}" friction="{friction}"/></body></worldbody>
<actuator><motor name="nan" joint="inf" gear="{gear}"/></actuator></mujoco>"""


def xml(**changes: str) -> str:
    return XML.format(**{**VALUES, **changes})


PLACES = [
    ("gravity", "0 0 nan", "<option gravity='0 0 nan'>"),
    ("gravity", "0 0 -inf", "<option gravity='0 0 -inf'>"),
    ("pos", "0 NaN 1", "<body name='arm' pos='0 NaN 1'>"),
    ("damping", "inf", "<joint name='inf' damping='inf'>"),
    ("range", "-1 inf", "<joint name='inf' range='-1 inf'>"),
    ("size", "Infinity", "<geom name='ball' size='Infinity'>"),
    ("mass", "nan", "<geom name='ball' mass='nan'>"),
    ("friction", "1 nan 0.1", "<geom name='ball' friction='1 nan 0.1'>"),
    ("gear", "nan", "<motor name='nan' gear='nan'>"),
]


@pytest.mark.parametrize(("attribute", "value", "place"), PLACES)
def test_an_attribute_that_is_not_finite_is_named(tmp_path, monkeypatch, capfd, attribute, value, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "robot.xml").write_text(xml(**{attribute: value}))
    for source, named in (("robot.xml", "robot.xml"), (xml(**{attribute: value}), "the XML")):
        with pytest.raises(physics.ModelError) as error:
            physics.load(source)
        assert str(error.value).startswith(f"{named}: {place}: numbers must be finite")
        assert "\n" not in str(error.value)
    # MuJoCo, which warns on the terminal and in a file of its own, was not asked.
    assert capfd.readouterr().err == "" and [f.name for f in tmp_path.iterdir()] == ["robot.xml"]


def test_a_sound_model_is_read_whatever_its_parts_are_called():
    assert physics.load(xml()).nu == 1  # there are a motor named nan and a joint named inf


def test_several_places_are_counted():
    with pytest.raises(physics.ModelError, match=r"<body name='arm' pos='nan 0 0'> \(and at 1 more places\): numbers"):
        physics.load(xml(pos="nan 0 0", gear="inf"))


def test_included_files_are_looked_at(tmp_path):
    (tmp_path / "arm.xml").write_text(
        '<mujoco><body name="arm"><joint/><geom name="ball" size="1" mass="nan"/></body></mujoco>'
    )
    (tmp_path / "robot.xml").write_text('<mujoco><worldbody><include file="arm.xml"/></worldbody></mujoco>')
    with pytest.raises(physics.ModelError, match=r"arm.xml: <geom name='ball' mass='nan'>"):
        physics.load(tmp_path / "robot.xml")


@pytest.mark.parametrize(
    ("field", "place"),
    [
        ("geom_size", "<geom name='ball' size>"),
        ("geom_friction", "<geom name='ball' friction>"),
        ("jnt_range", "<joint name='inf' range>"),
        ("dof_damping", "<joint name='inf' damping>"),
        ("dof_armature", "<joint name='inf' armature>"),
        ("actuator_gainprm", "<actuator name='nan' gainprm>"),
        ("body_mass", "<body name='arm' mass>"),
        ("qpos0", "qpos0"),
    ],
)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_compiled_model_that_is_not_finite_is_refused(field, place, value):
    model = mujoco.MjModel.from_xml_string(xml())
    array = getattr(model, field)
    array[(-1,) * array.ndim] = value
    with pytest.raises(physics.ModelError) as error:
        physics.load(model)
    assert str(error.value).startswith(f"the model: {place}: numbers must be finite")


def test_a_compiled_model_with_options_that_are_not_finite_is_refused():
    model = mujoco.MjModel.from_xml_string(xml())
    model.opt.timestep = np.nan
    with pytest.raises(physics.ModelError, match="the model: <option timestep>: numbers must be finite"):
        physics.load(model)


def test_the_command_says_it_in_one_line(tmp_path, capsys):
    file = tmp_path / "robot.xml"
    file.write_text(xml(pos="0 0 inf"))
    assert main(["check-model", str(file)]) == FAILED
    out = capsys.readouterr().out
    assert out.startswith(f"{file}: <body name='arm' pos='0 0 inf'>: numbers must be finite") and out.count("\n") == 1
