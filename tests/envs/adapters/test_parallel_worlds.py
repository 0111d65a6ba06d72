"""Parallel environments of PettingZoo as worlds with several policies."""

import numpy as np
import pytest
from parallel_envs import Countdown

import slipstream
from slipstream.envs.adapters.parallel_worlds import ParallelWorld


@pytest.fixture
def worlds():
    return slipstream.make(ParallelWorld(Countdown), num_worlds=3)


def test_agents_that_differ_by_a_number_are_a_group(worlds):
    assert {g.name: (g.size, g.observation.size) for g in worlds.groups} == {"cat": (2, 1), "dog": (1, 2)}


def test_who_leaves_is_out_of_the_game_and_the_others_go_on(worlds):
    actions = {"cat": np.array([1, 0] * 3), "dog": np.zeros(3, int)}
    for _ in range(3):
        step = worlds.step(actions)
    assert step.terminated["cat"].tolist() == [True, False] * 3 and not step.terminated["dog"].any()
    assert worlds.active()["cat"].tolist() == [False, True] * 3
    step = worlds.step(actions)
    assert step.reward["cat"].tolist() == [0.0] * 6 and step.final_observation["cat"][0].tolist() == [0.0] * 6


def test_the_environments_own_time_limit_truncates_the_world(worlds):
    actions = {"cat": np.array([1, 0] * 3), "dog": np.zeros(3, int)}
    for _ in range(6):
        step = worlds.step(actions)
    assert step.truncated["dog"].all() and not step.terminated["dog"].any()
    assert step.final_observation["dog"][0].tolist() == [6.0] * 3 and step.observation["dog"][0].tolist() == [0.0] * 3
    assert worlds.active()["cat"].all()
    statistics = worlds.episode_statistics
    assert (statistics.episodes, statistics.length) == (3, 6.0)
    assert statistics.returns == {"cat": 1.5, "dog": 0.0}


def test_everybody_who_leaves_ends_the_episode(worlds):
    for _ in range(3):
        step = worlds.step({"cat": np.ones(6, int), "dog": np.ones(3, int)})
    assert step.terminated["cat"].all() and step.terminated["dog"].all() and not step.truncated["dog"].any()


def test_every_episode_has_a_seed_of_its_own_and_the_same_seed_the_same_episodes(worlds):
    def offsets():
        seen = [worlds.reset(seed=4)["dog"][1]]
        return np.stack([*seen, worlds.reset()["dog"][1]])

    first, again = offsets(), offsets()
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(first)) == 6


def test_a_limit_of_ours_comes_on_top():
    worlds = slipstream.make(ParallelWorld(Countdown, max_steps=2), num_worlds=2)
    for _ in range(2):
        step = worlds.step({"cat": np.zeros(4, int), "dog": np.zeros(2, int)})
    assert step.truncated["cat"].all() and not step.terminated["cat"].any()


def test_an_environment_is_named_by_its_module():
    worlds = slipstream.make("pettingzoo:mpe2.simple_tag_v3", num_worlds=2, num_good=1, num_adversaries=3, max_cycles=5)
    assert {g.name: g.size for g in worlds.groups} == {"adversary": 3, "agent": 1}
    for _ in range(5):
        step = worlds.step(worlds.sample_actions())
    assert step.truncated["agent"].all()
    with pytest.raises(ValueError, match=r"Unknown option 'num_god'.*'num_good'"):
        slipstream.make("pettingzoo:mpe2.simple_tag_v3", num_god=1)
    with pytest.raises(ValueError, match="no module 'mpe3'"):
        slipstream.make("pettingzoo:mpe3.simple_tag_v3")


@pytest.mark.parametrize("several", [False, True])
def test_two_policies_learn_in_it_and_resume(tmp_path, several):
    run = tmp_path / "run"
    world = "pettingzoo:parallel_envs:Countdown" if several else ParallelWorld(Countdown)
    options = dict(num_worlds=4, rollout_length=8, hidden=(16,), quiet=True)
    options |= {"env_options": {"processes": 2}} if several else {}
    result = slipstream.train(world, run=run, total_steps=3_200, **options)
    assert set(result.returns) == {"cat", "dog"} and result.returns["cat"] > 2.0  # at random, cats say 2.5 of 3
    again = slipstream.train(*(() if several else (world,)), resume=run, total_steps=3_840, quiet=True)
    assert again.step == 3_840
    assert slipstream.load(run, policy="dog").act([[0.0], [0.5]]).shape == (1,)
