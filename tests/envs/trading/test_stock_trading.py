"""The rules of trading: as plain NumPy has them, and nothing is gained or lost on the way."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_prices import walk, world

from reference_trading import Known, Rules, Trading
from slipstream.envs.check import check
from slipstream.envs.registry import make, make_env
from slipstream.envs.trading.stock_trading import StockTrading
from slipstream.envs.worlds import Worlds

MARKETS = 24


@pytest.fixture(scope="module")
def small_market(tmp_path_factory) -> StockTrading:
    return world(tmp_path_factory.mktemp("market"), walk())


def reference(worlds: Worlds, rules: Rules) -> Trading:
    """Plain NumPy, with portfolios on the same days."""
    env = worlds.env
    assert isinstance(env, StockTrading)
    columns = np.split(
        env.market.table, [env.stocks, env.stocks + env.market.seen, env.stocks + env.market.seen + 1], 1
    )
    peer = Trading(
        worlds.num_worlds, Known(columns[0], columns[1], columns[2][:, 0]), env.window.first, env.window.last, rules
    )
    peer.day = worlds.get_state()["day"].astype(np.int64)
    return peer


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_shares": 2_000.0, "cost": 0.0, "turbulence_threshold": None, "episode_length": 60},
        {"turbulence_threshold": 1.5, "cost": 0.01, "max_trade": 0.03, "initial_cash": 5_000.0, "episode_length": 60},
    ],
)
def test_whole_episodes_are_those_of_plain_numpy(options):
    worlds = make("stock-trading", MARKETS, **options)
    peer = reference(worlds, Rules(**options))
    np.testing.assert_allclose(worlds.observe(), peer.observe(), rtol=1e-6, atol=1e-6)
    draw = np.random.default_rng(1)
    lean = draw.uniform(-0.6, 0.6, (20, MARKETS))  # most portfolios have stocks that they keep, and cash or none
    money = worlds.env.initial_cash
    for _ in range(peer.rules.episode_length):
        action = np.clip(draw.normal(lean, 0.5), -1.2, 1.2).astype(np.float32)
        step, expected = worlds.step(action), peer.step(action)
        np.testing.assert_allclose(step.final_observation, expected.observation, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(step.reward, expected.reward, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(step.truncated, expected.truncated)
        if not expected.truncated.any() and peer.count[0] % 8 == 0:
            state = worlds.get_state()
            worth = state["shares"].T * peer.known.price[peer.day]
            np.testing.assert_allclose(worth / money, peer.held() / money, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(state["cash"], peer.cash / money, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(state["costs"], peer.costs / money, rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(state["turnover"], peer.turnover, rtol=1e-4)
    assert expected.truncated.all() and not np.asarray(step.terminated).any()
    gained = worlds.report_sums()["gain_percent"]
    np.testing.assert_allclose(gained, 100 * (peer.assets() / money - 1), rtol=1e-3, atol=1e-2)
    assert worlds.episode_statistics.returns["trader"] == pytest.approx(gained.mean(), abs=0.01)


# Nothing is gained or lost on the way.

numbers = st.floats(-1.0, 1.0, width=32)


@settings(max_examples=60, deadline=None)
@given(
    cash=st.floats(0.0, 3.0),
    shares=st.lists(st.floats(0.0, 2e5), min_size=3, max_size=3),
    action=st.lists(numbers, min_size=3, max_size=3),
    cost=st.sampled_from([0.0, 0.001, 0.05]),
    most=st.sampled_from([{"max_trade": 0.1}, {"max_trade": 5.0}, {"max_shares": 3e4}]),
    threshold=st.sampled_from([None, 0.9]),
    day=st.integers(0, 40),
)
def test_money_is_neither_made_nor_lost_but_for_costs(small_market, cash, shares, action, cost, most, threshold, day):
    env = copy.copy(small_market)
    env.cost, env.turbulence_threshold = cost, threshold
    env.max_trade, env.max_shares = most.get("max_trade", 0.1), most.get("max_shares")
    worlds = Worlds(env, 1, 0, "scalar")
    row = env.window.first + day
    start = {"day": np.array([row]), "cash": np.array([cash]), "shares": np.array(shares)[:, None]}
    worlds.set_state(**start)
    prices = env.market.table[:, :3].astype(float) / env.initial_cash
    before = cash + shares @ prices[row]
    if before <= 1e-6:
        return
    step = worlds.step(np.array(action, np.float32)[:, None])
    after = worlds.get_state()
    owned, left, paid = after["shares"][:, 0], float(after["cash"][0]), float(after["costs"][0])
    assert left >= 0 and (owned >= 0).all() and paid >= 0
    # What was traded is what changed hands, each stock in one direction.
    traded = np.abs(owned - shares) @ prices[row]
    assert paid == pytest.approx(cost * traded, rel=1e-5, abs=1e-9)
    assert left + owned @ prices[row] == pytest.approx(before - paid, rel=1e-6)
    assert float(after["turnover"][0]) == pytest.approx(traded / before, rel=1e-5, abs=1e-9)
    change = left + owned @ prices[row + 1] - before
    assert float(step.reward[0]) == pytest.approx(100 * change, rel=1e-4, abs=1e-5 * before)
    limit = np.full(3, most["max_shares"]) if "max_shares" in most else most["max_trade"] * before / prices[row]
    if threshold is not None and env.market.table[row, 3 + env.market.seen] > threshold:
        assert not owned.any()
    else:
        assert (np.abs(owned - shares) <= np.abs(action) * limit * (1 + 1e-5) + 1e-6).all()
        assert ((owned - shares) * action >= -1e-6).all()


def test_money_is_neither_made_nor_lost_over_whole_compiled_episodes():
    worlds = make("stock-trading", 32, episode_length=60)
    env = worlds.env
    prices = env.market.table[:, :20].astype(np.float64) / env.initial_cash
    draw, before, gained = np.random.default_rng(0), np.ones(32), np.zeros(32)
    for _ in range(59):
        step = worlds.step(draw.uniform(-1, 1, (20, 32)).astype(np.float32))
        state = worlds.get_state()
        assert (state["cash"] >= 0).all() and (state["shares"] >= 0).all()
        now = state["cash"] + (state["shares"].T * prices[state["day"]]).sum(axis=1)
        np.testing.assert_allclose(np.asarray(step.reward), 100 * (now - before), atol=2e-4)
        before, gained = now, gained + np.asarray(step.reward)
    np.testing.assert_allclose(gained, 100 * (now - 1), atol=2e-3)


def put(env: StockTrading, **state) -> Worlds:
    worlds = Worlds(env, 1, 0, "scalar")
    worlds.set_state(day=np.array([env.window.first]), **state)
    return worlds


def test_sales_pay_for_purchases_of_the_same_day(small_market):
    price = small_market.market.prices.close[small_market.window.first] / small_market.initial_cash
    shares = np.array([[1.0], [0.0], [0.0]]) / price[0]
    worlds = put(small_market, cash=np.zeros(1), shares=shares)
    worlds.step(np.array([[-1.0], [1.0], [0.0]], np.float32))
    owned, cash = worlds.get_state()["shares"][:, 0] * price, worlds.get_state()["cash"][0]
    assert owned[0] == pytest.approx(0.9)
    assert owned[1] == pytest.approx(0.1 * 0.999 / 1.001) and cash == 0


def test_purchases_shrink_alike_when_there_is_not_enough_cash(small_market):
    env = copy.copy(small_market)
    env.max_trade = 1.0
    worlds = put(env)
    worlds.step(np.array([[1.0], [0.5], [0.5]], np.float32))
    worth = worlds.get_state()["shares"][:, 0] * env.market.prices.close[env.window.first] / env.initial_cash
    np.testing.assert_allclose(worth, np.array([0.5, 0.25, 0.25]) / 1.001, rtol=1e-6)


def test_turbulence_above_the_threshold_closes_all_positions(small_market):
    env = copy.copy(small_market)
    unusual = env.market.table[env.window.first, 3 + env.market.seen]
    for threshold, kept in ((float(unusual) * 0.99, False), (float(unusual) * 1.01, True)):
        env.turbulence_threshold = threshold
        worlds = put(env, cash=np.array([0.2]), shares=np.full((3, 1), 1000.0))
        worlds.step(np.full((3, 1), 1.0, np.float32))
        assert bool(worlds.get_state()["shares"].any()) == kept
        assert (worlds.get_state()["cash"][0] > 0.2) != kept


# When.


def test_training_evaluation_and_backtest_see_disjoint_days():
    env = make_env("stock-trading")
    assert isinstance(env, StockTrading)
    seen = {}
    for name, one in {"train": env, "validation": env.for_evaluation(), "test": env.for_backtest()}.items():
        worlds = Worlds(one, 256, 0)
        starts = worlds.get_state()["day"]
        seen[name] = (int(starts.min()), int(starts.max()) + one.max_steps)
        assert one.period == name and starts.min() >= one.window.first
        assert seen[name][1] <= one.window.last
    assert seen["train"][1] < seen["validation"][0] and seen["validation"][1] < seen["test"][0]
    assert seen["test"] == (env.windows["test"].first, env.windows["test"].last)
    assert len(np.unique(Worlds(env, 256, 0).get_state()["day"])) > 200


def test_later_prices_than_those_of_training_change_nothing_in_training(tmp_path):
    close = walk()
    changed = close.copy()
    outcomes = []
    for folder, prices in (("a", close), ("b", changed)):
        (tmp_path / folder).mkdir()
        env = world(tmp_path / folder, prices)
        changed[env.window.last + 1 :] *= 1.3
        worlds = Worlds(env, 8, 3)
        outcomes.append([np.asarray(worlds.step(worlds.sample_actions()).observation) for _ in range(25)])
    np.testing.assert_array_equal(*outcomes)


def test_a_step_is_recorded_once():
    worlds = make("stock-trading", 8)
    worlds.rollout_random(5)
    assert worlds.engine.recordings == 1


def test_worlds_of_one_market_do_not_disturb_each_other():
    env = make_env("stock-trading")
    first, second = Worlds(env, 4, 0), Worlds(env.for_evaluation(), 4, 0)
    for _ in range(3):
        first.rollout_random(2)
        second.rollout_random(2)
    alone = Worlds(make_env("stock-trading"), 4, 0)
    alone.rollout_random(6)
    np.testing.assert_array_equal(first.observe(), alone.observe())


def test_a_market_says_what_it_is_made_of(small_market):
    described, closes = small_market.notes
    assert "3 stocks of" in described and "train 2010-03-30 to 2010-06-" in described
    assert closes.startswith("Only closes are known")
    picture = small_market.draw({"day": np.array([70]), "cash": np.array([0.5]), "shares": np.full((3, 1), 100.0)})
    assert len(picture.shapes) == 1 + 2 * 4 + 1


def test_a_market_of_a_file_of_ones_own_passes_its_check(small_market):
    for result in check(small_market, num_worlds=4, num_steps=22):
        assert result.passed, result
