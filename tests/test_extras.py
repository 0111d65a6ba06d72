"""Every extra in an empty environment of its own, from the wheel: what it is for works there.

These take a minute or two each, and download packages: `make test-slow`.
"""

import json
import re
import shutil
import subprocess
import tomllib
import urllib.request
from collections.abc import Callable

import pytest

from packages import ROOT, Installed, build, run, without_our_source

TINY = (
    "--steps",
    "512",
    "--worlds",
    "8",
    "--rollout",
    "8",
    "--run",
    "short",
    "--json",
    "--quiet",
    "--set",
    "hidden=[8]",
)
TINY_PIPELINE = ("--steps", "256", "--samplers", "1", "--envs-per-sampler", "1", "--no-tune", "--set", "warm_up=64")
UNTRIED = {
    "cuda": "needs an NVIDIA GPU",
    "dev": "is what `make` installs, and what every other test runs in",
}
"""Extras that are not tried here, and why."""


def train(installed: Installed, world: str, *more: str, **variables: str) -> None:
    """A short training, which ends as it should."""
    result = json.loads(installed.slipstream("train", world, *TINY, *more, **variables))
    assert result["finished"] and result["step"] >= 512


def use_core(installed: Installed) -> None:
    train(installed, "cartpole")
    assert json.loads(installed.slipstream("eval", "short", "--episodes", "4", "--json"))["groups"]["cart"]["mean"] > 0
    installed.slipstream("plot", "short")
    installed.slipstream("video", "short", "--steps", "20")
    installed.slipstream("export", "short", "--numpy", "--c")
    assert (installed.folder / "short" / "video.gif").exists()
    assert (installed.folder / "short-policy" / "policy.py").exists()


def use_gymnasium(installed: Installed) -> None:
    installed.execute(
        "import gymnasium, slipstream.gymnasium; gymnasium.make_vec('slipstream/CartPole-v0', num_envs=2).reset()"
    )
    train_in_gymnasium(installed, "CartPole-v1")


def train_in_gymnasium(installed: Installed, name: str, *more: str) -> None:
    options = (*TINY_PIPELINE, "--run", "elsewhere", "--json", "--quiet", "--algo", "dqn", *more)
    assert json.loads(installed.slipstream("train", f"gym:{name}", *options))["finished"]


def use_pettingzoo(installed: Installed) -> None:
    """Out and in again: a world of ours as their environment, and that environment as a world."""
    (installed.folder / "ours.py").write_text(
        "import slipstream\n\n\ndef parallel_env():\n"
        "    return slipstream.make('simple-tag', num_worlds=1).as_pettingzoo()\n"
    )
    installed.execute(
        "import ours; from pettingzoo.test import parallel_api_test; parallel_api_test(ours.parallel_env())"
    )
    train(installed, "pettingzoo:ours", PYTHONPATH=str(installed.folder))


def use_robots(installed: Installed) -> None:
    train(installed, "hopper")
    for engine in ("gymnasium", "mujoco"):
        judged = json.loads(installed.slipstream("eval", "short", "--in", engine, "--episodes", "2", "--json"))
        assert judged


def use_dm_control(installed: Installed) -> None:
    train(installed, "dm-pendulum-swingup")


def use_atari(installed: Installed) -> None:
    train_in_gymnasium(installed, "ALE/Pong-v5", "--set", "replay_size=512", "--set", "batch_size=16")


def use_video(installed: Installed) -> None:
    train(installed, "hopper")
    installed.slipstream("video", "short", "--steps", "20", "--out", "film.mp4")
    assert (installed.folder / "film.mp4").stat().st_size > 1000


def use_cluster(installed: Installed) -> None:
    quick = ["--quantum-steps", "256", "--worlds", "8", "--rollout", "8", "--set", "hidden=[8]", "--episodes", "4"]
    options = ["--pods", "1", "--agents", "2", "--final-episodes", "4", "--run", "made", "--quiet", "--json"]
    result = json.loads(installed.slipstream("tournament", "cartpole", *options, *quick))
    assert result["finished"] and result["submissions"] >= 2


def use_studio(installed: Installed) -> None:
    train(installed, "hopper")
    command = [installed.command, "watch", "short", "--port", "0"]
    with subprocess.Popen(
        command, cwd=installed.folder, stdout=subprocess.PIPE, text=True, env=without_our_source()
    ) as process:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        assert found is not None
        with urllib.request.urlopen(found.group()) as answer:
            assert b"<html" in answer.read()
        process.terminate()
        assert process.wait(60) == 0


def use_export(installed: Installed) -> None:
    train(installed, "cartpole")
    installed.slipstream("export", "short", "--onnx")
    assert list((installed.folder / "short-policy").glob("*.onnx"))


def use_trading(installed: Installed) -> None:
    train(installed, "stock-trading")
    installed.slipstream("backtest", "short", "--json")


def use_wandb(installed: Installed) -> None:
    train(installed, "cartpole", "--log", "wandb", WANDB_MODE="offline")
    assert list((installed.folder / "short" / "wandb").glob("offline-run-*/*.wandb"))


def use_mlflow(installed: Installed) -> None:
    train(installed, "cartpole", "--log", "mlflow", MLFLOW_TRACKING_URI="sqlite:///tracked.db")
    assert (installed.folder / "tracked.db").stat().st_size > 0
    assert "no more metrics" not in (installed.folder / "short" / "log.txt").read_text()


USES: dict[str, Callable[[Installed], None]] = {
    "gymnasium": use_gymnasium,
    "pettingzoo": use_pettingzoo,
    "robots": use_robots,
    "dm-control": use_dm_control,
    "atari": use_atari,
    "video": use_video,
    "cluster": use_cluster,
    "studio": use_studio,
    "export": use_export,
    "trading": use_trading,
    "wandb": use_wandb,
    "mlflow": use_mlflow,
}
"""What each extra is for."""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture
def installed(tmp_path):
    yield Installed.empty(tmp_path)
    shutil.rmtree(tmp_path / "env")  # gigabytes, with all of them


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_the_core_installs_into_an_empty_environment_and_trains(built, installed, kind):
    installed.install(built[0] if kind == "wheel" else built[1])
    installed.check()
    use_core(installed)


@pytest.mark.slow
@pytest.mark.parametrize("extra", USES)
def test_an_extra_installs_into_an_empty_environment_and_does_what_it_is_for(built, installed, extra):
    installed.install(f"slipstream-rl[{extra}] @ file://{built[0]}")
    installed.check()
    USES[extra](installed)


GYMNAX_MOVES_AS_OURS = """
import numpy as np
import slipstream

theirs, ours = slipstream.make("gymnax:CartPole-v1", num_worlds=8), slipstream.make("cartpole", num_worlds=8)
assert theirs.env.max_steps == 500
ours.set_state(**{name: theirs.get_state()[name] for name in ("x", "x_dot", "theta", "theta_dot")})
for i in range(8):
    here, there = theirs.step(np.full(8, i % 2)), ours.step(np.full(8, i % 2))
    np.testing.assert_allclose(here.final_observation, there.final_observation, rtol=1e-5, atol=1e-6)
"""


@pytest.mark.slow
def test_cartpole_of_gymnax_moves_as_our_own_and_is_learned(built, installed):
    """In an environment of its own, as gymnax wants an older Gymnasium than the one that is installed here."""
    installed.install(built[0], "gymnax>=1.0", "six")  # gymnax imports six, and does not say that it needs it
    installed.execute(GYMNAX_MOVES_AS_OURS)
    options = ("--steps", "100000", "--worlds", "64", "--rollout", "32", "--run", "learned", "--json", "--quiet")
    result = json.loads(installed.slipstream("train", "gymnax:CartPole-v1", *options))
    assert result["finished"] and result["returns"]["agent"] > 60  # at random, 20


@pytest.mark.slow
def test_ppo_of_stable_baselines3_learns_on_our_worlds(built, installed):
    """The example, in an environment of its own: we do not want PyTorch in ours."""
    installed.install("torch==2.13.0")  # first and alone: another version might bring gigabytes for GPUs
    installed.install(f"slipstream-rl[gymnasium] @ file://{built[0]}", "stable-baselines3>=2.7")
    example = ROOT / "examples" / "with_stable_baselines3.py"
    said = run([installed.python, example, "--steps", "100000"], installed.folder)
    found = re.search(r"return over 100 episodes: ([0-9.]+)", said)
    assert found is not None and float(found.group(1)) > 150  # at random, 20


def test_every_extra_is_tried_or_its_absence_explained():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras) == set(USES) | set(UNTRIED)
