"""The interface of Stable-Baselines3's VecEnv, as its documentation has it (examples/ trains with it)."""

import numpy as np
import pytest
from gymnasium import spaces

import slipstream

METHODS = (
    "reset",
    "step_async",
    "step_wait",
    "step",
    "close",
    "get_attr",
    "set_attr",
    "env_method",
    "env_is_wrapped",
    "seed",
)


@pytest.fixture(scope="module")
def env():
    return slipstream.make("cartpole", num_worlds=6).as_stable_baselines3()


def test_it_has_what_the_interface_asks_for(env):
    assert all(callable(getattr(env, name)) for name in METHODS)
    assert env.num_envs == 6 and env.observation_space.shape == (4,) and env.action_space == spaces.Discrete(2)
    assert env.get_attr("render_mode") == [None] * 6
    assert env.env_is_wrapped(object, indices=[0, 1]) == [False, False]


def test_resetting_returns_observations_alone_and_a_seed_brings_them_back(env):
    env.seed(5)
    first = env.reset()
    env.seed(5)
    np.testing.assert_array_equal(first, env.reset())
    assert first.shape == (6, 4) and first.dtype == np.float32 and env.reset_infos == [{}] * 6


def test_a_step_has_four_parts_and_ends_carry_their_last_observation(env):
    env.seed(0)
    env.reset()
    ends = 0
    for _ in range(30):
        env.step_async(np.ones(6, np.int64))
        observation, reward, done, infos = env.step_wait()
        assert observation.shape == (6, 4) and reward.shape == done.shape == (6,) and len(infos) == 6
        for lane in range(6):
            assert done[lane] == ("terminal_observation" in infos[lane])
            if done[lane]:
                ends += 1
                assert infos[lane]["TimeLimit.truncated"] is False
                assert not np.allclose(infos[lane]["terminal_observation"], observation[lane])
    assert ends >= 6


def test_the_time_limit_is_told_from_an_end():
    env = slipstream.make("pendulum", num_worlds=2).as_stable_baselines3()
    env.reset()
    for _ in range(200):
        _, _, done, infos = env.step(np.zeros((2, 1), np.float32))
    assert done.all() and [info["TimeLimit.truncated"] for info in infos] == [True, True]
