"""The suite's models are found, changed and kept."""

import importlib.util

import pytest

from slipstream.envs.dm_control import models
from slipstream.envs.dm_control.models import compile_model, suite_folder
from slipstream.envs.extras import ExtraMissing
from slipstream.envs.registry import make_env


def test_without_dm_control_the_way_out_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ExtraMissing, match=r"needs dm_control: pip install slipstream-rl\[dm-control\]"):
        suite_folder()


def test_a_model_is_the_callers_own():
    first, second = (compile_model(suite_folder() / "fish.xml") for _ in range(2))
    first.geom("target").pos[0] = 7.0
    assert second.geom("target").pos[0] != 7.0


@pytest.mark.parametrize("links", [6, 15])
def test_a_swimmer_has_as_many_links_as_asked(links):
    m = make_env(f"dm-swimmer-swimmer{links}").model.mujoco
    assert m.nbody == links + 1 and m.nu == links - 1
    assert m.joint("joint_0").range[1] == pytest.approx(2 * 3.14159265 / links)


def test_elements_are_removed_by_name_or_by_kind():
    root = models.ET.fromstring("<a><b name='x'/><c><b name='y'/><d/></c></a>")
    models.remove(root, "b", "y")
    assert [e.get("name") for e in root.iter("b")] == ["x"]
    models.remove(root, "b")
    assert list(root.iter("b")) == [] and models.find(models.ET.fromstring("<a name='q'/>"), "a", "q").tag == "a"
