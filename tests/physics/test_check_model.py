"""The check-model command."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import mujoco
import numpy as np
import pytest
from robots import ASSETS, robot_file

from slipstream import physics
from slipstream.cli.check_model import CheckModel, run
from slipstream.physics import agreement

HOPPER = os.path.join(ASSETS, "hopper.xml")


def test_a_supported_robot(capsys):
    assert run(CheckModel(HOPPER, worlds=64, steps=60, json=True)) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["supported"] and report["faithful"] and report["bad_worlds"] == 0
    assert [row["quantity"] for row in report["errors"]] == ["qpos", "qvel"]
    assert all(row["percentile_99"] < 1e-3 for row in report["errors"])
    assert report["steps_per_s"] > 1000


def test_the_text_names_what_was_measured(capsys):
    assert run(CheckModel(os.path.join(ASSETS, "inverted_pendulum.xml"), worlds=16, steps=50)) == 0
    text = capsys.readouterr().out
    for word in ("supported", "1 slide, 1 hinge", "qvel", "physics steps/s"):
        assert word in text


def test_an_unsupported_robot_lists_why(capsys, tmp_path):
    file = tmp_path / "sticky.xml"
    body = '<body><joint axis="0 1 0"/><geom size="0.1"/></body>'
    file.write_text(f'<mujoco><option noslip_iterations="3"/><worldbody>{body}</worldbody></mujoco>')
    assert run(CheckModel(str(file))) == 1
    assert "noslip" in capsys.readouterr().out
    assert run(CheckModel("missing.xml", json=True)) == 1
    assert not json.loads(capsys.readouterr().out)["supported"]


def test_a_robot_that_is_off_fails(capsys):
    options = CheckModel(HOPPER, worlds=16, steps=60, tolerance=1e-12)
    assert run(options) == 1
    text = capsys.readouterr().out
    assert "supported, but not faithful" in text
    assert "NOT FAITHFUL: qvel: 1 % of 60 are off by more than" in text and "(allowed: 1e-12)" in text


@pytest.mark.parametrize(("unstable", "code"), [(0, 1), (2, 0)])
def test_worlds_that_do_not_stay_finite_fail_unless_mujocos_do_not_either(monkeypatch, capsys, unstable, code):
    speed = agreement.Speed("llvm", 1e6, 0.1, 172, 0.0)
    monkeypatch.setattr(agreement, "measure", lambda *args, **options: speed)
    monkeypatch.setattr(agreement, "compare", lambda *args, **options: agreement.Agreement([], unstable, 0))
    assert run(CheckModel(HOPPER)) == code
    text = capsys.readouterr().out
    assert ("172 worlds did not stay finite" in text) == (code == 1)
    assert ("MuJoCo itself was unstable" in text) == (unstable > 0)


BALLS = """<mujoco><worldbody><geom type="plane" size="5 5 1"/>
  <body pos="0 0 0.1"><freejoint/><geom size="0.1"/><geom name="a" size="0.1" pos="0.3 0 0"/></body>
  <body pos="0.15 0 0.25"><freejoint/><geom size="0.1"/></body></worldbody></mujoco>"""


def test_contacts_that_are_left_out_are_told(tmp_path, capsys):
    file = tmp_path / "balls.xml"
    file.write_text(BALLS)
    assert run(CheckModel(str(file), worlds=16, steps=60)) == 0
    assert "left out" not in capsys.readouterr().out
    assert run(CheckModel(str(file), worlds=16, steps=60, self_contacts=1)) == 1
    text = capsys.readouterr().out
    assert "self-contacts per world and step were left out: raise --self-contacts" in text
    assert "states had more than 1 self-contacts" in text


def test_without_self_collision_mujoco_has_none_either(tmp_path):
    file = tmp_path / "balls.xml"
    file.write_text(
        BALLS.replace("</worldbody>", '</worldbody><contact><pair geom1="a" geom2="b"/></contact>').replace(
            '<freejoint/><geom size="0.1"/></body></w', '<freejoint/><geom name="b" size="0.1"/></body></w'
        )
    )
    assert run(CheckModel(str(file), worlds=16, steps=60, self_collision=False)) == 0


FIELD = """<mujoco><asset><hfield name="h" nrow="9" ncol="13" size="3 2 0.5 0.1" elevation="{}"/></asset><worldbody>
  <geom type="hfield" hfield="h" pos="0 0 -0.3"/><body pos="0 0 0.6"><freejoint/><geom size="0.1"/></body>
  </worldbody></mujoco>"""


def test_height_fields_are_compared_too(tmp_path, capsys, monkeypatch):
    rng = np.random.default_rng(0)
    file = tmp_path / "field.xml"
    file.write_text(FIELD.format(" ".join(map(str, rng.uniform(0, 1, 9 * 13)))))
    assert run(CheckModel(str(file), worlds=16, steps=60, json=True)) == 0
    rows = {row["quantity"]: row for row in json.loads(capsys.readouterr().out)["errors"]}
    assert rows["ground"]["states"] == agreement.PLACES and rows["ground"]["largest"] < 1e-5
    assert rows["qvel"]["largest"] < 1e-5 and not rows["qvel on the field"]["counts"]

    wrong = agreement.surface
    monkeypatch.setattr(agreement, "surface", lambda model, terrain, x, y: wrong(model, terrain, x + 0.1, y))
    assert run(CheckModel(str(file), worlds=16, steps=60)) == 1
    assert "NOT FAITHFUL: ground" in capsys.readouterr().out


def test_what_happens_while_it_compiles_is_told(capsys):
    run(CheckModel(HOPPER, worlds=16, steps=10, json=True))
    assert "compiling 6 degrees of freedom" in capsys.readouterr().err


def crowd(count: int) -> mujoco.MjModel:
    spec = mujoco.MjSpec()
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[9, 9, 1])
    for k in range(count):
        child = mujoco.MjSpec.from_file(robot_file("humanoid"))
        child.option = spec.option
        frame = spec.worldbody.add_frame(pos=[2 * (k % 5), 2 * (k // 5), 0])
        frame.attach_body(child.body("torso"), f"robot{k}_", "")
    return spec.compile()


def test_a_crowd_is_refused_for_its_many_pairs_and_loads_without_them():
    m = crowd(22)
    with pytest.raises(physics.ModelError, match=r"pairs of moving geoms may touch each other, more than 3,000"):
        physics.load(m)
    assert physics.load(m, self_collision=False).nv == m.nv


def test_without_mujoco_it_says_what_to_install():
    code = (
        "import sys; sys.modules['mujoco'] = None; from slipstream.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run([sys.executable, "-c", code, "check-model", "robot.xml"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "slipstream check-model: Robots need mujoco: pip install slipstream-rl[robots]\n"
