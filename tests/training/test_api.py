"""`slipstream.train` from Python."""

import dataclasses

import numpy as np
import pytest

import slipstream
from slipstream.envs.env import Env, Group
from slipstream.runs.checkpoint import load_checkpoint
from slipstream.runs.directory import RunDirectory
from slipstream.spaces import Box, Discrete
from slipstream.training.api import train
from slipstream.training.config_json import from_json

TINY = dict(num_worlds=4, rollout_length=4, total_steps=64, hidden=(8,), epochs=1, quiet=True)


@dataclasses.dataclass
class Place:
    x: float


class Local(Env):
    """A world of this file."""

    max_steps = 5
    groups = (Group("agent", Box(1), Discrete(2)),)

    def __init__(self, pay: float = 1.0):
        self.pay = pay

    def reset(self, rng):
        return Place(rng.uniform(-1.0, 1.0))

    def step(self, state, action, rng):
        return state, self.pay, False

    def observe(self, state):
        return (state.x,)


def test_a_callback_sees_every_report_and_may_stop_the_run(tmp_path):
    seen = []

    def stop_after_two(row) -> bool:
        seen.append(row["step"])
        return len(seen) == 2

    result = train("cartpole", run=tmp_path / "run", report_every=0.0, callback=stop_after_two, **TINY)
    assert seen == [16, 32] and result.step == 32 and result.finished
    assert slipstream.metrics(tmp_path / "run")["step"].tolist() == [16, 32]


def test_metrics_are_arrays(tmp_path):
    train("cartpole", run=tmp_path / "run", report_every=0.0, **TINY)
    found = slipstream.metrics(str(tmp_path / "run"))
    assert found["step"].tolist() == [16, 32, 48, 64]
    assert found["cart/policy_loss"].shape == (4,) and np.isfinite(found["cart/policy_loss"]).all()


def test_a_class_and_an_object_are_trained_and_found_again_from_any_directory(tmp_path, monkeypatch):
    train(Local, run=tmp_path / "class", pay=2.0, **TINY)
    config = RunDirectory.open(tmp_path / "class").config()
    assert config["env"] == f"{__file__}:Local" and config["env_options"] == {"pay": 2.0}
    monkeypatch.chdir(tmp_path)
    result = train(resume="class", total_steps=80, quiet=True)
    assert result.returns == {"agent": 10.0}
    assert train(Local(pay=3.0), run="object", **TINY).returns == {"agent": 15.0}


def test_an_interactive_class_is_trained_and_resumed_when_it_is_passed_again(tmp_path):
    def make_class():
        class Cell(Local):
            """As if it were in a notebook."""

        return Cell

    cell = make_class()
    train(cell, run=tmp_path / "run", **TINY)
    assert slipstream.load(str(tmp_path / "run")).act([0.0]) in (0, 1)
    with pytest.raises(ValueError, match="Cell was defined interactively and cannot be found"):
        train(resume=tmp_path / "run", total_steps=80, quiet=True)
    assert train(cell, resume=tmp_path / "run", total_steps=80, quiet=True).step == 80


def test_options_beside_a_configuration_change_it(tmp_path, make_config):
    train(make_config(), run=tmp_path / "run", quiet=True, seed=7, total_steps=16, epochs=1)
    config = from_json(RunDirectory.open(tmp_path / "run").config())
    assert (config.seed, config.total_steps, config.policies["walker"].settings.epochs) == (7, 16, 1)


def test_what_a_run_is_resumed_with_is_written_to_its_configuration(tmp_path):
    train("cartpole", run=tmp_path / "run", **TINY)
    train(resume=tmp_path / "run", total_steps=96, quiet=True)
    assert RunDirectory.open(tmp_path / "run").config()["total_steps"] == 96
    with pytest.raises(ValueError, match=r"only total_steps, .* can change, not seed"):
        train(resume=tmp_path / "run", seed=3)


def test_a_run_ends_when_its_time_is_over(tmp_path):
    result = train("cartpole", run=tmp_path / "run", **{**TINY, "total_steps": None, "total_seconds": 0.0})
    assert result.finished and result.step == 0


def test_the_public_names_are_listed_and_tell_what_they_are(tmp_path):
    assert {"train", "make", "load", "metrics", "Env", "Policy", "Result"} <= set(dir(slipstream))
    result = train("cartpole", run=tmp_path / "run", **TINY)
    assert repr(result).startswith(f"Result('{tmp_path / 'run'}', finished after 64 steps in ")
    assert repr(slipstream.load(result.run)).startswith("Policy('cart': Box(4) -> Discrete(2)")
    assert "cartpole" in repr(slipstream.make("cartpole", 3)).lower()


def test_the_same_seed_has_the_same_best_checkpoint(tmp_path, make_config):
    """Reports and checkpoints go by the clock; what is best must not."""
    names = []
    for name, every in (("often", 0.0), ("rarely", 1e9)):
        config = make_config(evaluate_every=2, evaluate_episodes=3, report_every=every, checkpoint_every=every)
        train(config, run=tmp_path / name, quiet=True)
        names.append(load_checkpoint(RunDirectory.open(tmp_path / name), "best").name)
    assert names[0] == names[1]
