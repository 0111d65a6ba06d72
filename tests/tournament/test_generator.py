"""Generators are pure functions of the leaders and chance; the updater says who enters."""

import json
from collections import Counter

import numpy as np
import pytest

from slipstream.algos.settings import ALGORITHMS, PPOConfig
from slipstream.tournament.generator import GENERATORS, Situation, chances, find_generator
from slipstream.tournament.leaderboard import Entry
from slipstream.tournament.ranges import Range, read_ranges
from slipstream.tournament.updater import place

RANGES = {"learning_rate": Range(1e-4, 1e-2, "log"), "trace": Range(0.8, 0.99, "linear")}
SITUATION = Situation({"learning_rate": 1e-3, "trace": 0.9}, RANGES, pods=2, fresh=0.0)


def leader(score: float, number: int = 1, **settings: float) -> Entry:
    facts = dict(pool="cart", parent=None, algo="ppo", seed=0, steps=1, age=1, seconds=1.0, standard_error=0.1)
    facts |= dict(episodes=9, weights="w", checksum="c", pod="pod-0", epoch=1)
    return Entry(id=f"{number:06d}", score=score, settings=settings, number=number, **facts)


LEADERS = [leader(10.0 - i, i + 1, learning_rate=2e-3) for i in range(8)]


def draw(name: str, times: int, situation: Situation = SITUATION) -> list:
    generator, rng = GENERATORS[name], np.random.default_rng(0)
    return [generator(LEADERS, situation, rng) for _ in range(times)]


@pytest.mark.parametrize("name", GENERATORS)
def test_the_same_leaders_and_the_same_chance_give_the_same_proposal(name):
    assert draw(name, 5) == draw(name, 5)


@pytest.mark.parametrize("name", GENERATORS)
def test_nobody_leads_yet(name):
    assert GENERATORS[name]([], SITUATION, np.random.default_rng(0)).parent is None
    assert GENERATORS[name](LEADERS[:1], SITUATION, np.random.default_rng(0)).parent is None  # one for each pod first


def test_chances_are_a_softmax_of_z_scores():
    scores = np.array([3.0, -1.0, 0.5, 7.0])
    z = (scores - scores.mean()) / scores.std()
    expected = np.exp(z) / np.exp(z).sum()
    assert np.allclose(chances(scores), expected)
    assert np.allclose(chances(1000.0 * scores - 5.0), expected)  # units do not matter
    assert np.allclose(chances([2.0, 2.0]), 0.5)


def test_softmax_takes_leaders_as_often_as_it_should():
    counts = Counter(p.parent.id for p in draw("softmax", 4000))
    for entry, chance in zip(LEADERS, chances([e.score for e in LEADERS])):
        assert abs(counts[entry.id] / 4000 - chance) < 4 * np.sqrt(chance / 4000)


def test_top_k_takes_all_leaders_alike():
    counts = Counter(p.parent.id for p in draw("top-k", 4000))
    assert len(counts) == 8 and all(abs(count / 4000 - 1 / 8) < 0.03 for count in counts.values())


def test_copies_keep_the_settings_of_their_parents():
    for name in ("softmax", "top-k"):
        assert all(p.settings == {"learning_rate": 2e-3} for p in draw(name, 20))


def test_pbt_perturbs_or_resamples_within_the_ranges():
    proposals = draw("pbt", 400)
    assert {p.parent.id for p in proposals} == {"000001", "000002"}  # the best quarter
    rates = [p.settings["learning_rate"] for p in proposals]
    near = [r for r in rates if np.isclose(r, 1.6e-3) or np.isclose(r, 2.5e-3)]
    assert 0.65 < len(near) / len(rates) < 0.85 and len(set(rates)) > 50
    for name, found in RANGES.items():
        values = [p.settings[name] for p in proposals]
        assert found.low <= min(values) and max(values) <= found.high
    assert {type(v) for p in proposals for v in p.settings.values()} == {float}  # plain, for JSON


def test_pbt_starts_anew_with_settings_from_all_of_the_range():
    fresh = [GENERATORS["pbt"]([], SITUATION, np.random.default_rng(i)) for i in range(200)]
    rates = np.log10([p.settings["learning_rate"] for p in fresh])
    assert abs(rates.mean() + 3.0) < 0.15  # the middle of a logarithmic range


def test_a_share_starts_anew():
    situation = Situation(SITUATION.settings, RANGES, pods=2, fresh=0.3)
    assert 0.2 < sum(p.parent is None for p in draw("top-k", 300, situation)) / 300 < 0.4


def test_a_generator_of_ones_own(tmp_path):
    (tmp_path / "mine.py").write_text("def worst(leaders, situation, rng):\n    return leaders[-1]\n\nnumber = 3\n")
    assert find_generator(f"{tmp_path}/mine.py:worst")(LEADERS, SITUATION, np.random.default_rng(0)) is LEADERS[-1]
    with pytest.raises(ValueError, match="is no function"):
        find_generator(f"{tmp_path}/mine.py:number")


def test_a_generator_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="Unknown generator 'sofmax': did you mean 'softmax'"):
        find_generator("sofmax")


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_every_algorithm_has_ranges_that_its_settings_allow(algo):
    settings = ALGORITHMS[algo].settings()
    ranges = read_ranges(algo, settings)
    assert "learning_rate" in ranges
    for name, found in ranges.items():
        for value in (found.low, found.high):
            type(settings)(**{name: value})


def test_what_does_not_count_is_not_varied():
    assert set(read_ranges("ppo", PPOConfig())) == {"learning_rate", "entropy_cost", "clip_ratio", "trace"}
    assert "target_kl" in read_ranges("ppo", PPOConfig(target_kl=0.01))
    assert "learning_rate" not in read_ranges("ppo", PPOConfig(target_kl=0.01))  # it adapts by itself


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is no JSON"),
        ("[]", "must say by algorithm"),
        ({"pqo": {}}, "unknown algorithm 'pqo': did you mean 'ppo'"),
        ({"ppo": {"lerning_rate": {"from": 1, "to": 2}}}, "has no setting 'lerning_rate': did you mean"),
        ({"ppo": {"trace": {"from": 1}}}, "must look like"),
        ({"ppo": {"trace": {"from": 0.9, "to": 0.8}}}, "from a lower to a higher"),
        ({"ppo": {"learning_rate": {"from": 0, "to": 1, "scale": "log"}}}, "from a lower to a higher"),
        ({"ppo": {"trace": {"from": 0.1, "to": 0.8, "scale": "cubic"}}}, "log or linear, got 'cubic'"),
    ],
)
def test_ranges_that_make_no_sense_are_refused(tmp_path, content, message):
    file = tmp_path / "ranges.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ValueError, match=message):
        read_ranges("ppo", PPOConfig(), str(file))
    with pytest.raises(ValueError, match="Could not read"):
        read_ranges("ppo", PPOConfig(), str(tmp_path / "none.json"))


def test_those_who_came_first_are_better_than_their_equals():
    assert place([], 1.0, 2).rank == 1
    assert (place([3.0, 1.0], 1.0, 2).rank, place([3.0, 1.0], 1.0, 2).enters) == (3, False)
    assert (place([3.0, 1.0], 2.0, 2).rank, place([3.0, 1.0], 2.0, 2).enters) == (2, True)
