"""What could have been had without learning anything, at the same prices and costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from slipstream.envs.extras import trading_extra
from slipstream.envs.trading.stock_trading import StockTrading
from slipstream.training.backtest.ledger import Ledger

EXPLAINED = (
    "Equal weights are bought on the first day and held; minimum variance is found anew every month from the year "
    "before it. Both pay the same costs."
)

MONTHS = 12
"""How often in a year the portfolio of minimum variance is found anew, from the changes of the year before."""

Weights = Callable[[np.ndarray], Any]
"""From changes of the past, `[days, stocks]`, to how much of each stock to hold."""


def baselines(env: StockTrading) -> list[Ledger]:
    """Equal weights, minimum variance and the index, over the period of a market."""
    with trading_extra():
        from skfolio.optimization import EqualWeighted, MeanRisk

    year = round(env.market.prices.rows_per_year)
    month = max(1, year // MONTHS)
    return [
        held("equal weights", env, lambda past: EqualWeighted().fit(past).weights_, None, year),
        held("minimum variance", env, lambda past: MeanRisk().fit(past).weights_, month, year),
        index(env),
    ]


def held(name: str, env: StockTrading, choose: Weights, every: int | None, past: int) -> Ledger:
    """A portfolio by weights that are found from the past alone.

    Args:
        name: what to call it.
        env: the market, in the period.
        choose: the weights, from the changes of the past.
        every: rows between two purchases; None: there is one, on the first day.
        past: rows of the past that are looked at (fewer if there are none).
    """
    close, first, last = env.market.prices.close, env.window.first, env.window.last
    shares, cash, turnover, costs = np.zeros(close.shape[1]), 1.0, 0.0, 0.0
    wealth = []
    for day in range(first, last + 1):
        total = cash + shares @ close[day]
        wealth.append(total)
        due = day == first or (every is not None and (day - first) % every == 0)
        if due and day < last:
            changes = close[max(0, day - past) : day + 1]
            weights = np.asarray(choose(changes[1:] / changes[:-1] - 1.0))
            wanted, traded = rebalanced(shares * close[day], total, weights, env.cost)
            shares, cash = wanted / close[day], total - wanted.sum() - env.cost * traded
            turnover, costs = turnover + traded / total, costs + env.cost * traded
    return Ledger(name, env.market.prices.days[first : last + 1], np.array(wealth), turnover, costs)


def rebalanced(worth: np.ndarray, total: float, weights: np.ndarray, cost: float) -> tuple[np.ndarray, float]:
    """What to hold of each stock so that the weights are right when the costs are paid, and for how much is traded."""
    left = total
    for _ in range(50):  # every round is nearer by the factor of the cost
        traded = float(np.abs(weights * left - worth).sum())
        left = total - cost * traded
    return weights * left, traded


def index(env: StockTrading) -> Ledger:
    """What the stocks are compared with: the index that the prices come with, or the mean of the stocks' changes."""
    prices, rows = env.market.prices, slice(env.window.first, env.window.last + 1)
    if prices.index is not None:
        wealth, name = prices.index[rows] / prices.index[env.window.first], prices.index_name
    else:
        close = prices.close[rows]
        means = (close[1:] / close[:-1]).mean(axis=1)
        wealth, name = np.concatenate([[1.0], np.cumprod(means)]), "mean of stocks"
    return Ledger(name, prices.days[rows], wealth, 0.0, 0.0)
