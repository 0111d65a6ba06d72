"""Worlds in Gymnasium's clothes."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import ClipReward, RecordEpisodeStatistics

import slipstream
import slipstream.gymnasium
from slipstream.envs.registry import NAMES, make_env
from slipstream.gymnasium import IDS, SEVERAL_KINDS, gymnasium_id


@pytest.fixture(scope="module")
def cartpole():
    return slipstream.make("cartpole", num_worlds=8).as_gymnasium()


def random_steps(env, count):
    env.action_space.seed(1)
    return [env.step(env.action_space.sample()) for _ in range(count)]


def test_what_it_returns_is_in_its_spaces(cartpole):
    observation, _ = cartpole.reset(seed=1)
    assert cartpole.observation_space.contains(observation)
    assert cartpole.single_action_space == gymnasium.spaces.Discrete(2)
    for observation, reward, terminated, truncated, _ in random_steps(cartpole, 40):
        assert cartpole.observation_space.contains(observation)
        assert reward.shape == terminated.shape == truncated.shape == (8,)
        assert terminated.dtype == truncated.dtype == np.bool_


def test_a_seed_brings_everything_back_and_no_seed_goes_on(cartpole):
    first, _ = cartpole.reset(seed=3)
    again, _ = cartpole.reset(seed=3)
    other, _ = cartpole.reset()
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_what_was_returned_is_never_written_again(cartpole):
    observation, _ = cartpole.reset(seed=1)
    before = observation.copy()
    random_steps(cartpole, 3)
    np.testing.assert_array_equal(observation, before)


def test_an_episode_that_ends_leaves_its_last_observation(cartpole):
    cartpole.reset(seed=1)
    ends = 0
    for observation, _, terminated, truncated, infos in random_steps(cartpole, 60):
        ended = terminated | truncated
        if not ended.any():
            assert "final_obs" not in infos
            continue
        np.testing.assert_array_equal(infos["_final_obs"], ended)
        for lane in range(8):
            assert (infos["final_obs"][lane] is None) == (not ended[lane])
        for lane in np.flatnonzero(ended):
            ends += 1
            x, _, theta, _ = infos["final_obs"][lane]
            assert abs(theta) > 0.209 or abs(x) > 2.4  # where CartPole ends
            assert abs(observation[lane]).max() <= 0.05  # where it begins
    assert ends > 8


def test_wrappers_of_gymnasium_work_on_it():
    env = RecordEpisodeStatistics(ClipReward(slipstream.make("cartpole", num_worlds=8).as_gymnasium(), 0.0, 0.5))
    env.reset(seed=0)
    lengths = []
    for _ in range(80):
        *_, infos = env.step(np.ones(8, np.int64))
        if "episode" in infos:
            ended = infos["_episode"]
            lengths += infos["episode"]["l"][ended].tolist()
            np.testing.assert_allclose(infos["episode"]["r"][ended], 0.5 * infos["episode"]["l"][ended])
    assert lengths and min(lengths) >= 7 and max(lengths) <= 12  # always to the right, a pole falls in ten steps


def test_the_mode_of_resetting_is_declared(cartpole):
    assert cartpole.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP


def test_it_is_found_by_name_without_a_warning(recwarn):
    env = gymnasium.make_vec("slipstream/Pendulum-v0", num_envs=5, seed=3)
    observation, _ = env.reset(seed=1)
    assert observation.shape == (5, 3) and env.spec.id == "slipstream/Pendulum-v0"
    observation, reward, *_ = env.step(np.zeros((5, 1), np.float32))
    assert reward.max() < 0
    assert not recwarn.list


def test_a_module_before_the_id_is_enough():
    env = gymnasium.make_vec("slipstream.gymnasium:slipstream/CartPole-v0", num_envs=2)
    assert env.num_envs == 2


def test_options_of_the_world_are_keyword_arguments():
    with pytest.raises(ValueError, match="Unknown option 'gravity'"):
        gymnasium.make_vec("slipstream/Hopper-v0", num_envs=2, gravity=3)


def test_only_worlds_of_several_kinds_have_no_id():
    assert gymnasium_id("half-cheetah") in IDS
    for name in SEVERAL_KINDS:
        assert len(make_env(name).groups) > 1
    assert len(IDS) == len(NAMES) - len(SEVERAL_KINDS)


@pytest.mark.filterwarnings("ignore:.*")
@pytest.mark.parametrize("env_id", ["slipstream/CartPole-v0", "slipstream/Pendulum-v0"])
def test_a_single_world_passes_the_check_of_gymnasium(env_id):
    check_env(gymnasium.make(env_id).unwrapped, skip_render_check=True)


def test_several_kinds_of_agents_are_refused_with_the_way_out():
    with pytest.raises(ValueError, match="tagger, runner: as_pettingzoo"):
        slipstream.make("tag-gridworld", num_worlds=1).as_gymnasium()


def test_a_single_environment_refuses_many_worlds():
    from slipstream.envs.adapters.vector_env import GymnasiumWorld

    with pytest.raises(ValueError, match="3 worlds of 1"):
        GymnasiumWorld(slipstream.make("cartpole", num_worlds=3))


def test_a_loop_in_the_style_of_cleanrl_learns():
    """One file, NumPy alone: a linear policy by REINFORCE over a vector environment."""
    env = gymnasium.make_vec("slipstream/CartPole-v0", num_envs=64)
    rng, weight = np.random.default_rng(0), np.zeros(4)
    observation, _ = env.reset(seed=0)
    history = []
    for _ in range(12):
        seen, chosen, rewards, ends = [], [], [], []
        for _ in range(48):
            probability = 1.0 / (1.0 + np.exp(-observation @ weight))
            action = (rng.random(64) < probability).astype(np.int64)
            seen.append(observation)
            chosen.append(action - probability)
            observation, reward, terminated, truncated, _ = env.step(action)
            rewards.append(reward)
            ends.append(terminated | truncated)
        returns, total = [], np.zeros(64)
        for reward, end in zip(reversed(rewards), reversed(ends)):
            total = reward + 0.98 * total * ~end
            returns.append(total)
        advantage = np.array(returns[::-1])
        advantage = (advantage - advantage.mean()) / advantage.std()
        weight += 2.0 * np.einsum("tl,tl,tlf->f", advantage, np.array(chosen), np.array(seen)) / advantage.size * 20
        history.append(1.0 / np.mean(ends))
    assert np.mean(history[-3:]) > 3 * history[0]
