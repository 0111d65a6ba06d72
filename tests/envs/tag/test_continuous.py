"""tag-continuous against a plain NumPy implementation of its rules."""

import math
from dataclasses import asdict

import numpy as np
import pytest

from reference_tag import Continuous, ContinuousRules
from slipstream.envs import make

FIELDS = {
    "loc_x": "x",
    "loc_y": "y",
    "speed": "speed",
    "direction": "direction",
    "acceleration": "acceleration",
}
SIZES = [
    ContinuousRules(tagging_distance=0.1),
    ContinuousRules(num_taggers=1, num_runners=1, num_neighbors=1, grid_length=2.0, tagging_distance=0.4),
    ContinuousRules(num_taggers=3, num_runners=5, full_observation=True, tagging_distance=0.1),
    ContinuousRules(num_taggers=2, num_runners=4, num_neighbors=5, tagging_distance=0.2, episode_length=9),
    ContinuousRules(
        num_taggers=5,
        num_runners=30,
        num_neighbors=10,
        max_speed=0.7,
        skill_level_tagger=1.5,
        skill_level_runner=0.8,
        min_acceleration=-0.3,
        max_acceleration=0.6,
        num_acceleration_levels=4,
        min_turn=-1.0,
        max_turn=2.0,
        num_turn_levels=7,
        edge_hit_penalty=-0.25,
        step_penalty_for_tagger=-0.01,
        step_reward_for_runner=0.02,
        tag_reward_for_tagger=3.0,
        tag_penalty_for_runner=-2.0,
        end_of_game_reward_for_runner=5.0,
        tagging_distance=0.05,
        runner_exits_game_after_tagged=False,
    ),
    ContinuousRules(num_taggers=40, num_runners=1000, num_neighbors=3, grid_length=60.0),
]


def both(rules, num_worlds, seed=1):
    """Ours and the reference in the same random states, some agents out of the game, some at an edge."""
    draw = np.random.default_rng(seed)
    ours = make("tag-continuous", num_worlds=num_worlds, **asdict(rules))
    reference = Continuous(num_worlds, rules)
    shape = reference.x.shape
    reference.x, reference.y = draw.uniform(0, rules.grid_length, (2, *shape)).astype(np.float32)
    reference.x[draw.random(shape) < 0.1] = rules.grid_length
    reference.direction = draw.uniform(0, 2 * math.pi, shape).astype(np.float32)
    reference.speed = (draw.uniform(0, 1, shape) * reference.fastest).astype(np.float32)
    reference.acceleration = draw.uniform(-0.5, 0.5, shape).astype(np.float32)
    reference.playing = reference.is_tagger | (draw.random(shape) < 0.8)
    reference.step_count = draw.integers(0, rules.episode_length, num_worlds, np.int32)
    state = {name: getattr(reference, field) for name, field in FIELDS.items()}
    ours.set_state(**state, still_in_game=reference.playing, step=reference.step_count)
    return ours, reference, draw


def random_actions(reference, draw):
    """Both parts of everybody's action, `[worlds, agents]`, and the same as our worlds take them."""
    faster = draw.integers(0, len(reference.accelerations), reference.x.shape)
    turn = draw.integers(0, len(reference.turns), reference.x.shape)
    n = reference.rules.num_taggers
    parts = {"tagger": np.s_[:, :n], "runner": np.s_[:, n:]}
    given = {g: np.stack([faster[s].reshape(-1), turn[s].reshape(-1)]) for g, s in parts.items()}
    return faster, turn, given


@pytest.mark.parametrize("rules", SIZES, ids=lambda r: f"{r.num_taggers}-against-{r.num_runners}")
def test_steps_equal_the_reference_from_random_states(rules):
    num_worlds = 200 if rules.num_runners < 100 else 3
    seen_tags = 0
    for seed in range(4):
        ours, reference, draw = both(rules, num_worlds, seed)
        was_playing = reference.playing.copy()
        faster, turn, given = random_actions(reference, draw)
        step, outcome = ours.step(given), reference.step(faster, turn)
        for group in ("tagger", "runner"):
            agents = outcome.reward[group].size // num_worlds
            np.testing.assert_allclose(step.reward[group], outcome.reward[group], rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(step.final_observation[group], outcome.observation[group], rtol=1e-4, atol=2e-6)
            np.testing.assert_array_equal(step.truncated[group], np.repeat(outcome.truncated, agents))
            members = np.s_[:, : rules.num_taggers] if group == "tagger" else np.s_[:, rules.num_taggers :]
            left = (was_playing & ~reference.playing)[members] | outcome.terminated[:, None]
            np.testing.assert_array_equal(step.terminated[group], left.reshape(-1))
        going_on = ~(outcome.terminated | outcome.truncated)
        after = ours.get_state()
        for name, field in FIELDS.items():
            got = after[name].reshape(reference.x.shape)[going_on]
            np.testing.assert_allclose(got, getattr(reference, field)[going_on], rtol=1e-5, atol=3e-6)
        got = after["still_in_game"].reshape(reference.x.shape)
        np.testing.assert_array_equal(got[going_on], reference.playing[going_on])
        assert got[~going_on].all()
        seen_tags += (outcome.reward["tagger"] > 0.5).sum()
    assert seen_tags > 0


@pytest.mark.parametrize("full", [False, True])
def test_a_whole_episode_equals_the_reference_step_by_step(full):
    # Levels that never add up to a whole turn, to 0 or to the highest speed: rounding would decide there.
    rules = ContinuousRules(
        num_taggers=2,
        num_runners=6,
        tagging_distance=0.06,
        full_observation=full,
        min_turn=-1.0,
        max_turn=1.3,
        min_acceleration=-0.37,
        max_acceleration=0.41,
        max_speed=0.93,
    )
    ours, reference, draw = both(rules, 64)
    for _ in range(40):
        state = ours.get_state()
        for name, field in FIELDS.items():
            setattr(reference, field, state[name].reshape(reference.x.shape).copy())
        reference.playing = state["still_in_game"].reshape(reference.x.shape) != 0
        reference.step_count = state["step"]
        faster, turn, given = random_actions(reference, draw)
        step, outcome = ours.step(given), reference.step(faster, turn)
        for group in ("tagger", "runner"):
            got, expected = np.asarray(step.final_observation[group]), outcome.observation[group]
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=5e-6)
            np.testing.assert_allclose(step.reward[group], outcome.reward[group], atol=1e-6)


def test_neighbours_come_nearest_first_and_by_number_on_a_tie():
    ours = make("tag-continuous", num_worlds=1, num_taggers=1, num_runners=4, num_neighbors=3)
    ours.set_state(loc_x=[[5, 5, 6, 4, 9]], loc_y=[[5, 7, 5, 5, 9]], direction=[[0] * 5])
    seen = np.asarray(ours.observe()["tagger"])[:3, 0] * math.sqrt(2) * 10
    np.testing.assert_allclose(seen, [1, -1, 0], atol=1e-5)


def test_missing_neighbours_are_zeros():
    ours = make("tag-continuous", num_worlds=1, num_taggers=1, num_runners=3, num_neighbors=3)
    playing = [[True, True, False, False]]
    ours.set_state(still_in_game=playing, seen_in_game=playing)
    seen = np.asarray(ours.observe()["tagger"])[:, 0]
    assert seen[:21].reshape(7, 3)[:, 1:].tolist() == [[0, 0]] * 7
    assert seen[18] == 1.0


def test_one_tagger_is_paid_for_each_runner_and_the_lowest_wins_a_tie():
    ours = make("tag-continuous", num_worlds=1, num_taggers=2, num_runners=3, tagging_distance=0.2)
    ours.set_state(loc_x=[[5, 5, 5, 6, 9]], loc_y=[[5, 5, 6, 5, 9]])
    nothing = {"tagger": np.zeros((2, 2), int), "runner": np.zeros((2, 3), int)}
    step = ours.step(nothing)
    assert step.reward["tagger"].tolist() == [2, 0]
    assert step.reward["runner"].tolist() == [-1, -1, 0]
    assert step.terminated["runner"].tolist() == [True, True, False]
    assert ours.active()["runner"].tolist() == [False, False, True]


def test_directions_stay_below_a_whole_turn():
    ours = make("tag-continuous", num_worlds=1, num_taggers=1, num_runners=3, min_turn=-1e-9, num_turn_levels=2)
    ours.set_state(direction=[[0.0, 0.0, 6.283185, 1.0]])
    ours.step({"tagger": np.array([[0], [1]]), "runner": np.array([[0, 0, 0], [1, 1, 1]])})
    direction = ours.get_state()["direction"]
    assert (direction >= 0).all() and (direction < np.float32(2 * math.pi)).all()


def test_starts_are_uniform_and_differ_between_worlds_and_episodes():
    ours = make("tag-continuous", num_worlds=500)
    first = ours.get_state()
    ours.reset()
    second = ours.get_state()
    for state in (first, second):
        counts, _ = np.histogram(state["loc_x"], bins=10, range=(0, 10))
        assert ((counts - 550) ** 2 / 550).sum() < 27.9  # chi-square, 9 degrees of freedom, p = 0.001
        quarter = np.round(state["direction"] / (math.pi / 2))
        np.testing.assert_allclose(state["direction"], quarter * (math.pi / 2), rtol=1e-6)
        assert set(quarter.tolist()) == {0, 1, 2, 3}
        assert not state["speed"].any() and not state["acceleration"].any()
        assert state["still_in_game"].all()
    assert not np.isin(second["loc_x"], first["loc_x"]).all()
    assert len(np.unique(first["loc_x"])) > 5000


@pytest.mark.parametrize(
    "options",
    [
        {"num_taggers": 0},
        {"num_runners": 0},
        {"num_neighbors": 11},
        {"num_neighbors": 0},
        {"num_turn_levels": 0},
    ],
    ids=str,
)
def test_impossible_sizes_are_refused(options):
    with pytest.raises(ValueError, match=str(next(iter(options.values())))):
        make("tag-continuous", num_worlds=1, **options)


def test_levels_are_correctly_rounded():
    """Every turn from direction 0; and the largest one from three quarters, which makes a whole turn."""
    levels = np.linspace(-math.pi / 2, math.pi / 2, 10)
    worlds = make("tag-continuous", num_worlds=11)
    direction = np.zeros((11, 11), np.float32)
    direction[:, 1] = 1.5 * math.pi
    apart = np.tile(np.arange(11.0), (11, 1))  # nobody is tagged
    worlds.set_state(direction=direction, loc_x=apart, loc_y=apart)
    turn = np.arange(11)
    runner = np.zeros((2, 110), int)
    runner[1, ::10] = 10  # the first runner of each world
    worlds.step({"tagger": np.stack([0 * turn, turn]), "runner": runner})
    after = worlds.get_state()["direction"].reshape(11, 11)
    expected = np.append(0.0, levels).astype(np.float32)
    expected = np.where(expected < 0, expected + np.float32(2 * math.pi), expected)
    assert after[:, 0].astype(np.float32).tolist() == expected.tolist()
    assert (after[:, 1] == 0.0).all()
