"""stock-trading in plain vectorised NumPy, written from the rules alone: reference of the tests, peer of the benchmark.

A market is a row: quantities of a portfolio are `[markets, stocks]`. Observations come out feature-major,
`[features, markets]`, as Slipstream's do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True)
class Known:
    """What is known of each day.

    Attributes:
        price: `[days, stocks]`.
        seen: `[days, features]`.
        turbulence: `[days]`.
    """

    price: np.ndarray
    seen: np.ndarray
    turbulence: np.ndarray


@dataclass(frozen=True)
class Rules:
    cost: float = 0.001
    max_trade: float = 0.1
    max_shares: float | None = None
    turbulence_threshold: float | None = 8.0
    initial_cash: float = 1_000_000.0
    episode_length: int = 252
    reward_scale: float = 100.0


class Outcome(NamedTuple):
    """What a step leads to, before any reset."""

    observation: np.ndarray
    """`[features, markets]`"""
    reward: np.ndarray
    """`[markets]`"""
    truncated: np.ndarray
    """`[markets]`"""


class Trading:
    """Portfolios in a market, in float32."""

    def __init__(self, num_markets: int, known: Known, first: int, last: int, rules: Rules, seed: int = 0):
        """Args:
        num_markets: how many portfolios.
        known: of each day.
        first: row of the first day of the period.
        last: row of its last day.
        rules: of trading.
        seed: of the days on which episodes begin.
        """
        self.known, self.rules, self.first, self.last = known, rules, first, last
        self.draw = np.random.default_rng(seed)
        stocks = known.price.shape[1]
        self.day, self.count = np.zeros(num_markets, np.int64), np.zeros(num_markets, np.int64)
        self.cash = np.zeros(num_markets, np.float32)
        self.shares = np.zeros((num_markets, stocks), np.float32)
        self.costs, self.turnover = np.zeros(num_markets, np.float32), np.zeros(num_markets, np.float32)
        self.begin(np.ones(num_markets, bool))

    def begin(self, which: np.ndarray) -> None:
        """Start a new episode in some markets (`[markets]`, flags)."""
        latest = self.last - self.rules.episode_length
        self.day[which] = self.draw.integers(self.first, latest + 1, which.sum())
        self.cash[which] = self.rules.initial_cash
        for quantity in (self.shares, self.costs, self.turnover, self.count):
            quantity[which] = 0

    def held(self) -> np.ndarray:
        """What the shares are worth, `[markets, stocks]`."""
        return self.shares * self.known.price[self.day]

    def assets(self) -> np.ndarray:
        """`[markets]`"""
        return self.cash + self.held().sum(axis=1)

    def step(self, action: np.ndarray) -> Outcome:
        """Trade (`action`: `[stocks, markets]`) and go on to the next day, without a reset."""
        rules, price = self.rules, self.known.price[self.day]
        rate, one = np.float32(rules.cost), np.float32(1)
        before = self.assets()
        if rules.max_shares is None:
            wish = np.clip(action.T, -1, 1) * (np.float32(rules.max_trade) * before[:, None] / price)
        else:
            wish = np.clip(action.T, -1, 1) * np.float32(rules.max_shares)
        sell, buy = np.minimum(np.maximum(-wish, 0), self.shares), np.maximum(wish, 0)
        if rules.turbulence_threshold is not None:
            panic = self.known.turbulence[self.day] > rules.turbulence_threshold
            sell[panic], buy[panic] = self.shares[panic], 0
        income = (sell * price).sum(axis=1)
        cash = self.cash + income * (one - rate)
        bill = (buy * price).sum(axis=1)
        due = bill * (one + rate)
        short = due > cash
        part = np.ones_like(cash)
        part[short] = cash[short] / due[short]
        buy *= part[:, None]
        bill *= part
        self.cash = np.maximum(cash - bill * (one + rate), 0)
        self.shares = self.shares - sell + buy
        self.costs = self.costs + rate * (income + bill)
        self.turnover = self.turnover + (income + bill) / before
        self.day, self.count = self.day + 1, self.count + 1
        reward = (self.assets() - before) * np.float32(rules.reward_scale / rules.initial_cash)
        return Outcome(self.observe(), reward, self.count >= rules.episode_length)

    def observe(self) -> np.ndarray:
        total = self.assets()
        own = np.concatenate([self.cash[:, None], self.held()], axis=1) / total[:, None]
        return np.concatenate([own, self.known.seen[self.day]], axis=1).T

    def random_step(self) -> np.ndarray:
        """A step with random actions and resets where episodes end; the observation to act upon next."""
        shape = (self.shares.shape[1], len(self.cash))
        outcome = self.step(self.draw.uniform(-1, 1, shape).astype(np.float32))
        if not outcome.truncated.any():
            return outcome.observation
        self.begin(outcome.truncated)
        return self.observe()
