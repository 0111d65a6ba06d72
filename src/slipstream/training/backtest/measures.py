"""Figures of a portfolio, by skfolio's measures."""

from __future__ import annotations

import math
from dataclasses import dataclass

from slipstream.envs.extras import trading_extra
from slipstream.training.backtest.ledger import Ledger


@dataclass(frozen=True)
class Measures:
    """Of a portfolio over a period; shares are of 1, not of 100."""

    cumulative_return: float
    annual_return: float
    """The same growth each year."""
    volatility: float
    """Standard deviation of the daily returns, as of a year."""
    sharpe: float
    """Mean of the daily returns as of a year over volatility; what is earned without risk counts as 0."""
    calmar: float
    """Annual return over the largest drawdown."""
    max_drawdown: float
    """From a peak to the lowest point after it, as a share of the peak."""
    turnover: float
    """What was bought and sold in a year, in units of the total assets."""
    costs: float
    """Of trading over the whole period, in units of the money at its beginning."""


def measure(ledger: Ledger, rows_per_year: float) -> Measures:
    """Figures of a ledger."""
    with trading_extra():
        from skfolio import measures

    returns = ledger.returns
    years = len(returns) / rows_per_year
    growth = float(ledger.wealth[-1] / ledger.wealth[0])
    annual = growth ** (1.0 / years) - 1.0
    volatility = float(measures.standard_deviation(returns)) * math.sqrt(rows_per_year)
    drawdown = float(measures.max_drawdown(measures.get_drawdowns(returns, compounded=True)))
    mean = float(measures.mean(returns)) * rows_per_year
    return Measures(
        cumulative_return=growth - 1.0,
        annual_return=annual,
        volatility=volatility,
        sharpe=mean / volatility if volatility > 0 else math.nan,
        calmar=annual / drawdown if drawdown > 0 else math.nan,
        max_drawdown=drawdown,
        turnover=ledger.turnover / years,
        costs=ledger.costs,
    )
