"""Ratings from matches: checked against a fit by somebody else, and against games whose outcome is known."""

import numpy as np
import pytest
from scipy.optimize import minimize

from slipstream.tournament.leaderboard import Entry, Match
from slipstream.tournament.league import ELO, GAMES, MIDDLE, PRIOR, rate, results, who_beats_whom


def match(pool: str, agent: str, other_pool: str, other: str, earned: float, conceded: float) -> list[Match]:
    """A row from each side."""
    return [
        Match(pool, agent, {other_pool: other}, earned, {other_pool: conceded}, 10),
        Match(other_pool, other, {pool: agent}, conceded, {pool: earned}, 10),
    ]


@pytest.fixture
def season():
    """Three taggers and three runners of known strength, all of whom meet."""
    rng = np.random.default_rng(0)
    strength = {"t1": 2.0, "t2": 0.5, "t3": -1.0, "r1": 1.0, "r2": 0.0, "r3": -2.0}
    played = []
    for t in ("t1", "t2", "t3"):
        for r in ("r1", "r2", "r3"):
            edge = np.tanh(strength[t] - strength[r]) + 0.01 * rng.normal()
            played += match("tagger", t, "runner", r, 10 * edge, -2 * edge - 5)
    return played


def test_the_stronger_are_rated_higher_on_both_sides(season):
    ratings = rate(season)
    assert ratings["t1"].mean > ratings["t2"].mean > ratings["t3"].mean
    assert ratings["r1"].mean > ratings["r2"].mean > ratings["r3"].mean
    assert all(r.matches == 3 and 0 < r.standard_error < PRIOR * ELO for r in ratings.values())


def test_ratings_are_the_most_likely_ones(season):
    agents = sorted({m.agent for m in season})
    won = results(season)

    def unlikelihood(x: np.ndarray) -> float:
        edge = np.array([x[agents.index(m.agent)] - x[agents.index(*m.others.values())] for m in season])
        fits = won * np.log1p(np.exp(-edge)) + (1 - won) * np.log1p(np.exp(edge))
        return GAMES / 2 * fits.sum() + (x**2).sum() / (2 * PRIOR**2)

    best = minimize(unlikelihood, np.zeros(len(agents)), tol=1e-12)
    ratings = rate(season)
    assert np.allclose([ratings[a].mean for a in agents], MIDDLE + ELO * best.x, atol=0.05)
    steps = np.eye(len(agents)) * 1e-3
    curvature = [
        [
            (unlikelihood(best.x + a + b) - unlikelihood(best.x + a - b) - unlikelihood(best.x - a + b)
             + unlikelihood(best.x - a - b)) / 4e-6
            for b in steps
        ]
        for a in steps
    ]  # fmt: skip
    centre = np.eye(len(agents)) - 1 / len(agents)
    errors = np.sqrt(np.diag(centre @ np.linalg.inv(curvature) @ centre))
    assert np.allclose([ratings[a].standard_error for a in agents], ELO * errors, rtol=1e-3)


def test_more_matches_make_ratings_surer(season):
    assert rate(season * 4)["t1"].standard_error < 0.7 * rate(season)["t1"].standard_error


def test_units_of_returns_do_not_matter(season):
    scaled = [
        Match(m.pool, m.agent, m.others, 100 * m.score + 7, {p: 100 * s + 7 for p, s in m.against.items()}, 10)
        for m in season
    ]
    assert rate(scaled) == rate(season)


def test_who_has_met_nobody_but_the_untrained_is_in_the_middle():
    assert rate([]) == {}
    rating = rate([Match("tagger", "t1", {}, 5.0, {}, 10)])["t1"]
    assert rating.mean == MIDDLE and rating.matches == 1


def test_a_matrix_of_who_beats_whom(season):
    def entry(pool: str, id: str) -> Entry:
        facts = dict(parent=None, algo="ppo", settings={}, seed=0, steps=1, age=1, seconds=1.0, score=0.0)
        facts |= dict(standard_error=0.1, episodes=9, weights="w", checksum="c", pod="pod-0", epoch=1)
        return Entry(id, pool, **facts)

    pools = {
        "tagger": [entry("tagger", t) for t in ("t1", "t3", "t9")],
        "runner": [entry("runner", r) for r in ("r1", "r3")],
    }
    (table,) = who_beats_whom(season, pools)
    assert table["rows"] == {"pool": "tagger", "agents": ["t1", "t3", "t9"]}
    assert table["rows_win"][0][1] > 0.5 > table["rows_win"][1][0]
    assert table["row_returns"][0][1] == next(m.score for m in season if m.agent == "t1" and "r3" in m.others.values())
    assert table["column_returns"][0][1] == next(
        m.score for m in season if m.agent == "r3" and "t1" in m.others.values()
    )
    assert table["row_returns"][2] == [None, None]  # they never met
