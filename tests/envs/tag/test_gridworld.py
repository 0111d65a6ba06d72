"""tag-gridworld against a plain NumPy implementation of its rules."""

from dataclasses import asdict

import numpy as np
import pytest

from reference_tag import Gridworld, GridworldRules
from slipstream.envs import make

SIZES = [
    GridworldRules(),
    GridworldRules(num_taggers=1, grid_length=1, episode_length=3),
    GridworldRules(num_taggers=3, grid_length=3, full_observation=True),
    GridworldRules(num_taggers=17, grid_length=7, full_observation=True, wall_hit_penalty=0.5),
    GridworldRules(num_taggers=100, grid_length=16383, episode_length=7),
    GridworldRules(num_taggers=1500, grid_length=40, tag_reward_for_tagger=3.0, tag_penalty_for_runner=5.0),
]


def both(rules, num_worlds=40, seed=0):
    """Our worlds and the reference in the same random states, many of them with a tag or a tie ahead."""
    draw = np.random.default_rng(seed)
    ours, reference = (
        make("tag-gridworld", num_worlds=num_worlds, **asdict(rules)),
        Gridworld(num_worlds, rules),
    )
    agents = rules.num_taggers + 1
    reference.x, reference.y = draw.integers(0, rules.grid_length + 1, (2, num_worlds, agents), np.int32)
    close = num_worlds // 2
    for place in (reference.x, reference.y):  # half of the worlds around the runner, so that taggers tie
        near = place[:close, -1:] + draw.integers(-2, 3, (close, agents - 1))
        place[:close, :-1] = np.clip(near, 0, rules.grid_length)
    reference.step_count = draw.integers(0, rules.episode_length, num_worlds, np.int32)
    ours.set_state(loc_x=reference.x, loc_y=reference.y, step=reference.step_count)
    return ours, reference, draw


def compare(step, outcome, num_worlds):
    for group, reward in outcome.reward.items():
        np.testing.assert_allclose(step.reward[group], reward, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(step.final_observation[group], outcome.observation[group], rtol=1e-6, atol=1e-7)
        agents = reward.size // num_worlds
        np.testing.assert_array_equal(step.terminated[group], np.repeat(outcome.terminated, agents))
        np.testing.assert_array_equal(step.truncated[group], np.repeat(outcome.truncated, agents))


@pytest.mark.parametrize("rules", SIZES, ids=lambda r: f"{r.num_taggers}-on-{r.grid_length}")
def test_steps_equal_the_reference_from_random_states(rules):
    ours, reference, draw = both(rules)
    tags = 0
    for _ in range(12):
        action = draw.integers(0, 5, reference.x.shape, np.int32)
        step = ours.step({"tagger": action[:, :-1].reshape(-1), "runner": action[:, -1]})
        outcome = reference.step(action)
        compare(step, outcome, ours.num_worlds)
        done = outcome.terminated | outcome.truncated
        tags += outcome.terminated.sum()
        reference.begin(done)
        after = ours.get_state()
        np.testing.assert_array_equal(after["loc_x"].reshape(reference.x.shape), reference.x)
        np.testing.assert_array_equal(after["loc_y"].reshape(reference.y.shape), reference.y)
        np.testing.assert_array_equal(after["step"], reference.step_count)
        for group, features in reference.observe().items():  # of the next episode, where one has begun
            np.testing.assert_allclose(step.observation[group], features, rtol=1e-6, atol=1e-7)
    assert tags > 0 or rules.grid_length > 100


def test_the_lowest_tagger_is_seen_on_a_tie():
    ours = make("tag-gridworld", num_worlds=1, num_taggers=4, grid_length=10)
    ours.set_state(loc_x=[[9, 3, 5, 7, 5]], loc_y=[[9, 5, 3, 5, 5]])
    np.testing.assert_allclose(np.asarray(ours.observe()["runner"])[2:4, 0], [0.3, 0.5], rtol=1e-6)


def test_two_taggers_that_swap_places_with_the_runner_miss_it():
    ours = make("tag-gridworld", num_worlds=1, num_taggers=1)
    ours.set_state(loc_x=[[4, 5]], loc_y=[[4, 4]])
    step = ours.step({"tagger": np.array([1]), "runner": np.array([2])})
    assert not bool(step.terminated["runner"][0])


def test_everybody_starts_where_the_rules_say():
    state = make("tag-gridworld", num_worlds=3, num_taggers=2, grid_length=9).get_state()
    np.testing.assert_array_equal(state["loc_x"].reshape(3, 3), [[4, 4, 0]] * 3)
    np.testing.assert_array_equal(state["loc_y"].reshape(3, 3), [[4, 4, 0]] * 3)


def test_a_tag_and_the_time_limit_are_reported_apart():
    ours = make("tag-gridworld", num_worlds=2, num_taggers=1, episode_length=5)
    ours.set_state(loc_x=[[4, 5], [9, 0]], loc_y=[[4, 4], [9, 0]], step=[1, 4])
    step = ours.step({"tagger": np.array([1, 0]), "runner": np.array([0, 0])})
    assert step.terminated["tagger"].tolist() == [True, False]
    assert step.truncated["tagger"].tolist() == [False, True]
    assert ours.episode_statistics.report["tagged"] == 0.5


@pytest.mark.parametrize("option", ["num_taggers", "grid_length", "episode_length"])
@pytest.mark.parametrize("value", [0, -3, 2.5])
def test_counts_must_be_positive_whole_numbers(option, value):
    with pytest.raises(ValueError, match=option):
        make("tag-gridworld", num_worlds=1, **{option: value})
