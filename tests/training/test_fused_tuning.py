"""The number of worlds and the size of batches that run fastest are found, taken and remembered."""

import json

import pytest

from slipstream.training import fused_tuning
from slipstream.training.api import train
from slipstream.training.config_json import from_json
from slipstream.training.fused_tuning import steps_per_second, tuned


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path):
    """A machine of which nothing is known yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(fused_tuning, "WINDOW", 0.01)


@pytest.fixture
def speeds(monkeypatch):
    """Instead of measuring: 16 worlds are fastest, and so are few minibatches; what was measured is returned."""
    measured = []

    def speed(config, env) -> float:
        worlds = config.driver.num_worlds
        batch = getattr(config.policies["walker"].settings, "minibatches", None)
        measured.append((worlds, batch))
        return 1000.0 - abs(worlds - 16) * 50 - (100.0 * batch if batch else 0.0)

    monkeypatch.setattr(fused_tuning, "steps_per_second", speed)
    return measured


def test_the_fastest_is_taken_and_each_choice_is_measured_once(make_config, speeds):
    said = []
    config = tuned(make_config(), make_config().env, said.append)
    assert config.driver.num_worlds == 16
    assert config.policies["walker"].settings.minibatches == 1
    assert len(speeds) == len(set(speeds))
    assert "16            1" in said[0] and said[0].count("<- taken") == 1


def test_what_was_measured_once_is_known_to_the_next_run(make_config, speeds):
    first = tuned(make_config(), make_config().env, lambda text: None)
    count, said = len(speeds), []
    assert tuned(make_config(), make_config().env, said.append) == first
    assert len(speeds) == count and "earlier run" in said[0]


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_a_run_that_asks_for_it_is_tuned_and_keeps_the_choice(make_config, algo, tmp_path, monkeypatch):
    monkeypatch.setattr(fused_tuning, "FACTORS", (1.0, 2.0))
    train(make_config(algo=algo), tune=True, run=tmp_path / "run", quiet=True)
    kept = from_json(json.loads((tmp_path / "run" / "config.json").read_text()))
    assert kept.driver.num_worlds in (4, 8)


def test_more_worlds_than_memory_are_not_taken(make_config, monkeypatch):
    def refuse(*args, **kwargs):
        raise ValueError("needs more memory")

    monkeypatch.setattr(fused_tuning, "FusedTrainer", refuse)
    assert steps_per_second(make_config(), make_config().env) == 0.0
