"""From a run to a folder, and from the folder to a policy."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file

import slipstream
from slipstream.cli.main import main
from slipstream.runs.directory import RunError

WORLD = """
from dataclasses import dataclass
import drjit as dr
from slipstream import Box, Discrete, Env, Group

@dataclass
class State:
    position: float

class Walk(Env):
    max_steps = 8
    groups = (Group("walker", Box(1), Discrete(2)), Group("flyer", Box(1), Box(2, -1.0, 1.0)))

    def reset(self, rng):
        return State(rng.uniform(-1.0, 1.0))

    def step(self, state, action, rng):
        moved = state.position + dr.select(action["walker"] == 1, 0.1, -0.1)
        return State(moved), {"walker": -abs(moved), "flyer": action["flyer"][0]}, abs(moved) > 2.0

    def observe(self, state):
        return {"walker": (state.position,), "flyer": (state.position,)}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short run in a world whose file is gone."""
    folder = tmp_path_factory.mktemp("export")
    (folder / "walk.py").write_text(WORLD)
    name = f"{folder / 'walk.py'}:Walk"
    options = dict(num_worlds=16, rollout_length=8, hidden=(8,), total_steps=512, evaluate_every=2, quiet=True)
    result = slipstream.train(name, run=folder / "run", **options)
    (folder / "walk.py").unlink()
    shutil.rmtree(folder / "run" / "source")
    return result.run


@pytest.fixture(scope="module")
def shared(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared") / "walkers"
    assert main(["export", str(run), "--out", str(folder), "--onnx", "--numpy", "--c"]) == 0
    return folder


def test_the_folder_has_every_form_of_every_policy(shared):
    forms = [f"{name}{end}" for name in ("walker", "flyer") for end in (".onnx", "_sampling.onnx", ".py", ".h", ".c")]
    assert {f.name for f in shared.iterdir()} == {"config.json", "model.safetensors", "README.md", *forms}


def test_what_is_loaded_from_it_acts_as_the_run_does(run, shared):
    seen = np.random.default_rng(0).normal(size=(1, 6))
    for policy in ("walker", "flyer"):
        ours, theirs = slipstream.load(run, policy), slipstream.load(shared, policy)
        np.testing.assert_array_equal(ours.act(seen), theirs.act(seen))
        assert theirs.action_space == ours.action_space


def test_the_forms_act_alike_in_a_process_that_knows_no_slipstream(shared):
    code = (
        "import sys, numpy as np, onnxruntime, flyer\n"
        "x = np.linspace(-2, 2, 5, dtype=np.float32)\n"
        "session = onnxruntime.InferenceSession('flyer.onnx')\n"
        "out = session.run(['action'], {'observation': x[:, None]})[0]\n"
        "np.testing.assert_allclose(out.T, flyer.act(x[None]), rtol=1e-4, atol=1e-5)\n"
        "assert not any(m.startswith(('slipstream', 'jax', 'drjit')) for m in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=shared, check=True, env={"PATH": ""})


def test_the_library_of_safetensors_reads_the_weights(shared):
    arrays = load_file(shared / "model.safetensors")
    assert arrays["walker/policy/body/layers/0/weight"].shape == (8, 1)


def test_nothing_in_it_names_a_place_on_this_machine(run, shared):
    home = str(run).rpartition("/")[0]
    for name in ("config.json", "README.md", "walker.py", "walker.c"):
        assert home not in (shared / name).read_text()
    assert json.loads((shared / "config.json").read_text())["training"]["env"] == "walk.py:Walk"


def test_the_card_says_what_a_hub_reads_and_how_to_use_it(shared):
    card = (shared / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: slipstream\n") and "mean_return" in card
    assert 'slipstream.load("walkers", policy=' in card


def test_one_policy_alone_is_called_policy(run, tmp_path, capsys):
    assert main(["export", str(run), "--policy", "flyer", "--out", str(tmp_path / "f"), "--numpy", "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert written["policies"] == ["flyer"] and "policy.py" in written["files"]
    assert slipstream.load(tmp_path / "f").name == "flyer"


def test_an_export_is_replaced_and_nothing_else_is(run, tmp_path):
    slipstream.export(run, tmp_path / "x", c=True)
    slipstream.export(run, tmp_path / "x")
    assert not list((tmp_path / "x").glob("*.c"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    with pytest.raises(RunError, match=r"choose another --out"):
        slipstream.export(run, tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_damaged_weights_are_noticed(shared, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(shared, broken)
    data = bytearray((broken / "model.safetensors").read_bytes())
    data[-3] ^= 1
    (broken / "model.safetensors").write_bytes(bytes(data))
    with pytest.raises(RunError, match="is damaged: its checksum"):
        slipstream.load(broken, "walker")


def test_a_folder_of_a_later_format_is_refused(shared, tmp_path):
    later = tmp_path / "later"
    shutil.copytree(shared, later)
    config = json.loads((later / "config.json").read_text()) | {"format": 99}
    (later / "config.json").write_text(json.dumps(config))
    with pytest.raises(RunError, match="format 99"):
        slipstream.load(later, "walker")


def test_an_unknown_policy_is_refused_before_anything_is_written(run, tmp_path):
    with pytest.raises(RunError, match="no policy 'swimmer': choose one of walker, flyer"):
        slipstream.export(run, tmp_path / "none", policy="swimmer")
    assert not (tmp_path / "none").exists()
