"""What is done with runs in environments of Gymnasium: they are evaluated, filmed, loaded and drawn."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from slipstream import load, make, train
from slipstream.cli.main import main
from slipstream.envs.registry import GymnasiumOnly
from slipstream.runs.directory import RunDirectory
from slipstream.training.loading import load_policies
from slipstream.training.pipeline.simulators import Simulator

ENVIRONMENTS = Path(__file__).parents[1] / "training" / "pipeline" / "gym_environments.py"
SMALL = {"algo": "ppo", "samplers": 1, "envs_per_sampler": 2, "rollout_length": 4, "quiet": True}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run in an environment in a file of the user's own."""
    folder = tmp_path_factory.mktemp("gym")
    file = folder / "mine.py"
    shutil.copy(ENVIRONMENTS, file)
    train(f"{file}:Countdown", run=folder / "run", total_steps=64, settings={"hidden": (8,)}, steps=4, **SMALL)
    return folder / "run"


def test_returns_of_an_evaluation_are_what_the_policy_gets_there(run, capsys):
    assert main(["eval", str(run), "--episodes", "3", "--checkpoint", "latest", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    policy, returns = load(str(run), checkpoint="latest"), []
    for seed in range(1_000_003, 1_000_006):
        simulator = Simulator(found["env"], {"steps": 4}, seed)
        observation, total, over = simulator.reset(), 0.0, False
        while not over:
            observation, reward, terminated, truncated = simulator.step(policy.act(observation))
            total, over = total + reward, terminated or truncated
        returns.append(total)
    assert found["groups"]["agent"]["mean"] == pytest.approx(np.mean(returns), abs=1e-5)
    assert found["length"] == 4.0 and found["episodes"] == 3
    assert found["report"]["forward_speed"] == pytest.approx(1.5)


def test_an_evaluation_may_have_other_options_and_says_what_was_odd(run, capsys):
    command = ["eval", str(run), "--episodes", "2", "--option", "steps=9", "--option", "odd=outside"]
    assert main([*command, "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["length"] == 9.0
    assert "2 observations outside the space" in shown.err
    assert main(command) == 0
    assert "Forward speed 1.500" in capsys.readouterr().out


def test_a_film_shows_the_episode_as_the_environment_draws_it(run, tmp_path, capsys):
    out = tmp_path / "film.gif"
    assert main(["video", str(run), "--out", str(out), "--width", "120", "--height", "100", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": str(out), "steps": 4}
    with Image.open(out) as film:
        assert film.size == (120, 80) and film.n_frames == 5 and film.info["duration"] == 50
        blue = []
        for number in range(film.n_frames):
            film.seek(number)
            blue.append(int((np.asarray(film.convert("RGB"))[..., 0] < 100).sum()))
    assert blue == sorted(blue) and blue[-1] > blue[0]


def test_an_environment_that_draws_nothing_is_refused_before_it_is_played(run, tmp_path, capsys):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    config = json.loads((copy / "config.json").read_text())
    config["env"] = f"{ENVIRONMENTS}:made_by_a_function"
    (copy / "config.json").write_text(json.dumps(config))
    assert main(["video", str(copy)]) == 2
    assert "takes no render_mode" in capsys.readouterr().err
    assert not (copy / "video.gif").exists()


def test_a_run_is_loaded_without_its_environment(run):
    policy = load(str(run))
    assert policy.observation_space.size == 2 and policy.act(np.zeros(2)).shape == (1,)
    policies, _ = load_policies(RunDirectory.open(run))
    assert list(policies.groups) == ["agent"]


def test_curves_of_a_run_are_drawn(run, tmp_path, capsys):
    assert main(["plot", str(run), "--out", str(tmp_path / "curves")]) == 0
    assert (tmp_path / "curves.png").stat().st_size > 1000


def test_the_source_of_an_environment_is_kept_with_the_run(run, tmp_path, capsys):
    moved = tmp_path / "run"
    shutil.copytree(run, moved)
    original = run.parent / "mine.py"
    hidden = original.with_suffix(".away")
    original.rename(hidden)
    try:
        command = ["eval", str(moved), "--episodes", "1", "--json"]
        assert main(command) == 2
        assert "--saved-source" in capsys.readouterr().err
        assert main([*command, "--saved-source"]) == 0
        assert json.loads(capsys.readouterr().out)["length"] == 4.0
    finally:
        hidden.rename(original)


def test_what_only_worlds_can_do_says_what_an_environment_of_gymnasium_is_for(capsys):
    with pytest.raises(GymnasiumOnly, match="slipstream train"):
        make("gym:Pendulum-v1")
    for command in (["bench", "gym:Pendulum-v1"], ["check", f"{ENVIRONMENTS}:Countdown"]):
        assert main(command) == 2
        assert "is an environment of Gymnasium" in capsys.readouterr().err


def test_an_environment_of_gymnasium_is_described(capsys):
    assert main(["envs", "gym:Pendulum-v1", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["max_steps"] == 200 and row["options"] == {"g": 10.0, "max_episode_steps": None}
    assert row["groups"][0] == {
        "name": "agent",
        "agents": 1,
        "observation": "Box(3, -8 .. 8)",
        "action": "Box(1, -2 .. 2)",
    }
    assert main(["envs", "gym:Pendulum-v1"]) == 0
    assert "sees Box(3" in capsys.readouterr().out
