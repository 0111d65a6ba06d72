"""Learning from pictures, from the environment to the policy."""

from __future__ import annotations

import gym_environments
import numpy as np
import pytest

from slipstream import load, train
from slipstream.training.pipeline.simulators import Simulator

QUICK = {"samplers": 1, "envs_per_sampler": 2, "evaluator_share": 0.0, "film_share": 0.0, "tune": False, "quiet": True}
DQN = {"hidden": (16,), "batch_size": 32, "warm_up": 200, "replay_size": 2_000, "n_step": 1, "learning_rate": 2e-3}


def test_a_policy_learns_what_a_picture_tells_it(tmp_path):
    name = f"{gym_environments.__file__}:Pixels"
    settings = {**DQN, "discount": 0.0, "updates_per_step": 0.1, "exploration_updates": 50}
    result = train(name, run=tmp_path / "run", algo="dqn", settings=settings, total_steps=2_500, **QUICK)
    policy, simulator = load(result.run, checkpoint="latest"), Simulator(name, {}, 5)
    picture, right = simulator.reset(), []
    for _ in range(20):
        action = policy.act(picture)
        picture, reward, _, truncated = simulator.step(np.array([action]))
        right.append(reward)
        if truncated:
            picture = simulator.reset()
    assert np.mean(right) > 0.9


def test_an_atari_game_is_learned_from_and_played(tmp_path):
    pytest.importorskip("ale_py")
    pytest.importorskip("cv2")
    settings = {**DQN, "warm_up": 60, "replay_size": 300, "updates_per_step": 0.05}
    result = train("gym:ALE/Pong-v5", run=tmp_path / "run", algo="dqn", settings=settings, total_steps=200, **QUICK)
    policy, simulator = load(result.run, checkpoint="latest"), Simulator("gym:ALE/Pong-v5", {}, 5)
    assert policy.observation_space.image == (84, 84, 4)
    picture, *_ = simulator.step(np.array([policy.act(simulator.reset())]))
    assert picture.shape == (84 * 84 * 4,)
