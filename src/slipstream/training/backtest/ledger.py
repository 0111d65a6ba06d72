"""What became of money over the days of a period."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slipstream.envs.registry import make
from slipstream.envs.trading.stock_trading import StockTrading
from slipstream.training.play import WorldsArena, play
from slipstream.training.policies import ByPolicy, Policies


@dataclass(frozen=True)
class Ledger:
    """A portfolio over time.

    Attributes:
        name: whose it is.
        days: `[days]`
        wealth: `[days]`, the total assets in units of those of the first day, before anything was bought.
        turnover: what was bought and sold, each day in units of the total assets.
        costs: of trading, in units of the total assets of the first day.
    """

    name: str
    days: np.ndarray
    wealth: np.ndarray
    turnover: float
    costs: float

    @property
    def returns(self) -> np.ndarray:
        """From each day to the next, `[days - 1]`."""
        return self.wealth[1:] / self.wealth[:-1] - 1.0


def traded_by(name: str, policies: Policies, actors: ByPolicy, env: StockTrading, backend: str = "auto") -> Ledger:
    """How a policy trades through a period without exploring, as one episode.

    Args:
        name: whose ledger it is.
        policies: who acts.
        actors: with which weights.
        env: a market whose episodes are the whole period (see `StockTrading.for_backtest`).
        backend: what compiles it.
    """
    arena = WorldsArena(make(env, 1, 0, backend))
    arena.begin()
    changes, reports = [], {}
    for moment in play(policies, actors, arena):
        changes.append(float(moment.reward["trader"][0]) / env.reward_scale)
        if moment.done[0]:
            reports = {what: float(values[0]) for what, values in arena.reports().items()}
            break
    wealth = 1.0 + np.concatenate([[0.0], np.cumsum(changes)])
    days = env.market.prices.days[env.window.first : env.window.last + 1]
    return Ledger(name, days, wealth, reports["turnover"], reports["costs_percent"] / 100.0)
