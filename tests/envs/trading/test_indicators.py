"""Indicators are what they are called, mean the same at any price, and know nothing of tomorrow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_prices import SMALL, prices, walk, world

from slipstream.envs.trading.indicators import INDICATORS, LOOKBACK, indicators, turbulence
from slipstream.envs.trading.market import Market
from slipstream.envs.trading.prices import Prices
from slipstream.envs.worlds import Worlds

DAYS = 200


def of(close: np.ndarray) -> dict[str, np.ndarray]:
    """By name, `[days]` of the first stock."""
    return dict(zip(INDICATORS, indicators(prices(close))[:, :, 0].T))


def test_indicators_follow_their_definitions():
    close = walk()
    found, first = of(close), close[:, 0]
    day = 150
    past = first[day - 19 : day + 1]
    assert found["30-day average"][day] == pytest.approx((first[day] / first[day - 29 : day + 1].mean() - 1) * 10)
    assert found["60-day average"][day] == pytest.approx((first[day] / first[day - 59 : day + 1].mean() - 1) * 10)
    assert found["upper band"][day] == pytest.approx(((past.mean() + 2 * past.std()) / first[day] - 1) * 10)
    assert found["lower band"][day] == pytest.approx(((past.mean() - 2 * past.std()) / first[day] - 1) * 10)
    assert found["change"][day] == pytest.approx(10 * np.log(first[day] / first[day - 1]))
    window = first[day - 29 : day + 1]
    typical = np.abs(window - window.mean()).mean()
    assert found["cci"][day] == pytest.approx((first[day] - window.mean()) / (0.015 * typical) / 100)
    rises, falls = np.maximum(np.diff(first), 0), np.maximum(-np.diff(first), 0)
    up, down = rises[:30].mean(), falls[:30].mean()
    for rise, fall in zip(rises[30:day], falls[30:day]):  # Wilder's average
        up, down = (up * 29 + rise) / 30, (down * 29 + fall) / 30
    assert found["rsi"][day] == pytest.approx(2 * up / (up + down) - 1)
    assert found["dx"][day] == pytest.approx(abs(found["rsi"][day]), rel=0.01)  # of closes alone


def test_highs_and_lows_are_used_where_they_are_known():
    close = walk()
    apart = np.random.default_rng(0).uniform(0.0, 0.03, (2, *close.shape))
    whole = Prices(**{**vars(prices(close)), "high": close * (1 + apart[0]), "low": close * (1 - apart[1])})
    with_range, without = indicators(whole), indicators(prices(close))
    changed = {name for k, name in enumerate(INDICATORS) if not np.allclose(with_range[100, k], without[100, k])}
    assert changed == {"cci", "dx"}


def test_indicators_mean_the_same_at_any_price():
    close = walk()
    np.testing.assert_allclose(
        indicators(prices(close))[LOOKBACK:], indicators(prices(close * 37))[LOOKBACK:], atol=1e-8
    )


def test_all_indicators_are_known_after_the_lookback():
    found = indicators(prices(walk()))
    assert np.isfinite(found[LOOKBACK:]).all() and np.isfinite(Market(prices(walk()), 60).table).all()
    assert Market(prices(walk()), 60).lookback == 61 and Market(prices(walk()), 5).lookback == LOOKBACK


def test_prices_that_stand_still_have_indicators_too():
    close = np.full((DAYS, 2), 7.0)
    close[:, 1] = walk(DAYS, 1)[:, 0]
    assert np.isfinite(Market(prices(close), 60).table).all()


def test_turbulence_is_the_mahalanobis_distance_to_the_days_before():
    close, window = walk(DAYS, 4), 50
    changes = np.diff(np.log(close), axis=0)
    found = turbulence(close, window)
    assert np.isnan(found[: window + 1]).all()
    for day in (window + 1, 120, DAYS - 1):
        past = changes[day - 1 - window : day - 1]
        away = changes[day - 1] - past.mean(axis=0)
        expected = away @ np.linalg.inv(np.cov(past.T)) @ away / 4
        assert found[day] == pytest.approx(expected, rel=1e-8)
    assert 0.5 < np.nanmean(found) < 2.0
    assert np.isnan(turbulence(close[:window], window)).all()


# Nothing knows tomorrow.

futures = st.lists(st.floats(0.6, 1.6), min_size=3, max_size=3)


@settings(max_examples=12, deadline=None)
@given(day=st.integers(61, DAYS - 2), factors=futures, kind=st.sampled_from(["scaled", "frozen", "other"]))
def test_what_is_known_of_a_day_does_not_change_with_the_days_after_it(day, factors, kind):
    close = walk()
    other = close.copy()
    later = other[day + 1 :]
    later[:] = {"scaled": later * factors, "frozen": later[:1] * factors, "other": walk(DAYS, 3, 1)[day + 1 :]}[kind]
    before, after = Market(prices(close), 60).table, Market(prices(other), 60).table
    np.testing.assert_array_equal(before[: day + 1], after[: day + 1])
    assert (before[day + 1 :] != after[day + 1 :]).any()


@settings(max_examples=5, deadline=None)
@given(day=st.integers(64, 84), factors=futures, seed=st.integers(0, 100))
def test_no_observation_action_or_reward_depends_on_later_prices(tmp_path_factory, day, factors, seed):
    close = walk()
    changed = close.copy()
    changed[day + 1 :] *= factors
    draw = np.random.default_rng(seed)
    matrix = draw.normal(size=(3, 32)).astype(np.float32)
    one, other = (trajectory(tmp_path_factory.mktemp("prices"), c, day, matrix) for c in (close, changed))
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def trajectory(folder, close: np.ndarray, until: int, matrix: np.ndarray) -> dict[str, np.ndarray]:
    """All that happens up to a day when actions are a function of what is seen."""
    env = world(folder, close, turbulence_threshold=2.0)
    worlds = Worlds(env, 1, 0, "scalar")
    worlds.set_state(day=np.array([env.window.first]))
    seen = [np.asarray(worlds.observe())]
    actions, rewards = [], []
    for _ in range(env.window.first, min(until, env.window.first + SMALL["episode_length"] - 1)):
        actions.append(np.tanh(matrix @ seen[-1]))
        step = worlds.step(actions[-1])
        seen.append(np.asarray(step.observation))
        rewards.append(np.asarray(step.reward))
    return {"observations": np.stack(seen), "actions": np.stack(actions), "rewards": np.stack(rewards)}
