"""The rules of trading: as plain NumPy has them, and nothing is gained or lost on the way."""

from __future__ import annotations

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

MARKETS = 48


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
        {"max_shares": 2_000.0, "cost": 0.0},
        {"turbulence_threshold": 1.5, "cost": 0.01, "max_trade": 0.03, "initial_cash": 5_000.0},
        {"turbulence_threshold": None, "episode_length": 400},
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
        if not expected.truncated.any():
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
