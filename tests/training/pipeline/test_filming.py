"""Films of episodes in environments of Gymnasium."""

from __future__ import annotations

import gym_environments
import numpy as np
import pytest
from PIL import Image

from slipstream.spaces import to_json
from slipstream.training.film import FilmError
from slipstream.training.pipeline.filming import film_episode, filmed_simulator
from slipstream.training.pipeline.numpy_policy import NumpyPolicy

NAME = f"{gym_environments.__file__}:Countdown"


@pytest.fixture
def filmed(tmp_path):
    file = tmp_path / "film.gif"
    simulator = filmed_simulator(NAME, {"steps": 6}, 0, file)
    spaces = {"observation": to_json(simulator.observation), "action": to_json(simulator.action)}
    arrays = {
        "policy/body/layers/0/weight": np.zeros((1, 2), np.float32),
        "policy/body/layers/0/bias": np.full(1, 0.25, np.float32),
        "policy/log_std": np.zeros(1, np.float32),
    }
    return simulator, NumpyPolicy({"algo": "ppo", "activation": "tanh", **spaces}, arrays), file


def test_an_episode_is_played_to_its_end_and_summed_up(filmed):
    simulator, policy, file = filmed
    found = film_episode(simulator, policy, file)
    assert found is not None and (found.steps, found.reward) == (6, pytest.approx(6 * 0.5))
    with Image.open(file) as film:
        assert film.n_frames == 7 and film.size == (480, 320)
    found = film_episode(simulator, policy, file, limit=2)
    assert found is not None and found.steps == 2


def test_a_film_that_is_stopped_leaves_the_earlier_one(filmed):
    simulator, policy, file = filmed
    film_episode(simulator, policy, file)
    before = file.read_bytes()
    assert film_episode(simulator, policy, file, alive=lambda steps: False) is None
    assert file.read_bytes() == before and [f.name for f in file.parent.iterdir()] == ["film.gif"]


def test_fast_environments_are_filmed_every_few_steps(filmed):
    simulator, policy, file = filmed
    simulator.env.metadata = {"render_fps": 100}
    film_episode(simulator, policy, file)
    with Image.open(file) as film:
        assert film.n_frames == 2 and film.info["duration"] == 40


def test_what_cannot_be_drawn_is_said_first(tmp_path):
    with pytest.raises(FilmError, match="takes no render_mode"):
        filmed_simulator(f"{gym_environments.__file__}:Everything", {}, 0, tmp_path / "film.gif")
    with pytest.raises(FilmError, match=r"film\.avi"):
        filmed_simulator(NAME, {}, 0, tmp_path / "film.avi")
