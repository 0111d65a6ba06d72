"""Trading stocks at prices that were: many portfolios, each at a time of its own, in one kernel."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import drjit as dr
import numpy as np

from slipstream.arrays import ArrayTypes, array_types
from slipstream.envs.drawing import BLUE, GREY, INK, Picture, Shape, Text, rectangle
from slipstream.envs.env import Env, Float, Group, Int
from slipstream.envs.trading.market import Market, Row, Table, make_market
from slipstream.envs.trading.periods import TEST, TRAIN, VALIDATION, Window, find_windows
from slipstream.envs.trading.prices import describe_day, load_prices
from slipstream.spaces import Box


@dataclass
class State:
    """A portfolio, in every world. Money is counted in units of what an episode begins with."""

    day: Int
    """The row of the prices."""
    cash: Float
    shares: tuple[Float, ...]
    """How many of each stock."""
    costs: Float
    """What trading has cost in the episode."""
    turnover: Float
    """What was bought and sold in the episode, each day in units of the total assets."""


class StockTrading(Env):
    """Buy and sell shares of many stocks at real prices.

    What is decided after the close of a day is traded at that close, and worth what it is at the next one.
    """

    file_options = ("file",)
    tolerances = {"shares": 1e-6}

    def __init__(
        self,
        file: str | None = None,
        train_period: str | None = None,
        validation_period: str | None = None,
        test_period: str | None = None,
        index: str | None = None,
        cost: float = 0.001,
        max_trade: float = 0.1,
        max_shares: float | None = None,
        turbulence_threshold: float | None = 8.0,
        turbulence_window: int = 252,
        initial_cash: float = 1_000_000.0,
        episode_length: int = 252,
        reward_scale: float = 100.0,
        max_jump: float = 1.8,
    ):
        """Args:
        file: CSV or Parquet with prices, a column for each stock, or a row for each stock and day (date, symbol, close,
            and high and low if they are known); by default the closes of 20 US companies that skfolio carries.
        train_period: days to train on, FIRST..LAST; for skfolio's prices 2006 to 2014 by default.
        validation_period: later days, by which policies are evaluated and ranked; 2015 to 2017 by default.
        test_period: days after those, for the final report (`slipstream backtest`) alone; 2018 to 2022 by default.
        index: a column or symbol of the file that is no stock, but what stocks are compared with.
        cost: of trading, as a share of what is bought or sold.
        max_trade: how much of a stock an action of 1 buys, and one of -1 sells, as a share of the total assets.
        max_shares: the same as a number of shares, in place of max_trade.
        turbulence_threshold: on days of more turbulence everything is sold and nothing bought; None: there are none.
        turbulence_window: days of the past that a day must differ from to be turbulent.
        initial_cash: what an episode begins with.
        episode_length: steps of an episode, which begins on a random day of the period.
        reward_scale: by which the change of the total assets is multiplied, in units of initial_cash: with 100, the
            return of an episode is the gain in percent.
        max_jump: by which factor a price may change from one row to the next; a larger change is taken for a split.
        """
        _check_positive(
            max_trade=max_trade,
            max_shares=max_shares,
            turbulence_threshold=turbulence_threshold,
            initial_cash=initial_cash,
            episode_length=episode_length,
            reward_scale=reward_scale,
        )
        if not 0 <= cost < 1:
            raise ValueError(f"cost must be within 0 .. 1, got {cost}.")
        if max_jump <= 1:
            raise ValueError(f"max_jump must be above 1, got {max_jump}.")
        prices = load_prices(file, index, max_jump)
        if turbulence_window <= len(prices.names):
            raise ValueError(
                f"turbulence_window must be above the number of stocks, {len(prices.names)}, got {turbulence_window}."
            )
        self.market: Market = make_market(prices, turbulence_window)
        periods = {TRAIN: train_period, VALIDATION: validation_period, TEST: test_period}
        self.windows = find_windows(prices, periods, self.market.lookback, episode_length)
        self.period, self.window = TRAIN, self.windows[TRAIN]
        self.max_steps = self.episode_length = episode_length
        self.cost, self.max_trade, self.max_shares = cost, max_trade, max_shares
        self.turbulence_threshold, self.initial_cash = turbulence_threshold, initial_cash
        self.reward_scale = reward_scale
        self.stocks = self.market.stocks
        self.groups = (Group("trader", Box(1 + self.stocks + self.market.seen), Box(self.stocks, -1.0, 1.0)),)
        self._tables: dict[Any, Table] = {}
        self.notes = (self._described(),)
        if prices.high is None:
            self.notes += (
                "Only closes are known: they take the place of highs and lows in the indicators CCI and DX.",
            )

    def _described(self) -> str:
        """Which prices, and which days are for what."""
        prices = self.market.prices
        spans = (
            f"{name} {describe_day(prices.days[w.first])} to {describe_day(prices.days[w.last])}"
            for name, w in self.windows.items()
        )
        return f"{self.stocks} stocks of {prices.source} (sha256 {prices.sha256[:16]}): {', '.join(spans)}."

    # When.

    def for_evaluation(self) -> StockTrading:
        """The same market in the days by which policies are ranked."""
        return self._within(VALIDATION, self.windows[VALIDATION], self.episode_length)

    def for_backtest(self, period: str = TEST) -> StockTrading:
        """The same market in the days of the final report, all of them one episode. Nothing but that asks for them."""
        window = self.windows[period]
        return self._within(period, window, len(window) - 1)

    def _within(self, period: str, window: Window, length: int) -> StockTrading:
        other = copy.copy(self)
        other.period, other.window, other.max_steps = period, window, length
        return other

    # What is known.

    def tables(self, types: ArrayTypes) -> Any:
        backend = dr.backend_v(types.Float)
        if backend not in self._tables:
            self._tables[backend] = self.market.on_device(types)
        return [self._tables[backend].numbers] if types.compiled else []

    def row(self, day: Any) -> Row:
        """What is known on a day, with prices in units of the initial cash."""
        if not self._tables:  # the features are counted before there are any worlds
            self.tables(array_types("scalar"))
        row = self.market.row(self._tables[dr.backend_v(day)], day)
        return replace(row, price=[price * (1.0 / self.initial_cash) for price in row.price])

    # Rules.

    def reset(self, rng):
        starts = len(self.window) - (self.max_steps or 0)
        day = self.window.first + (rng.integer(starts) if starts > 1 else 0)
        return State(day, 1.0, (0.0,) * self.stocks, 0.0, 0.0)

    def step(self, state, action, rng):
        today, tomorrow = self.row(state.day), self.row(state.day + 1)
        total = assets(state, today.price)
        cash, shares, traded = self.trade(state, action, today, total)
        paid = self.cost * traded
        # What the total assets change by. Their difference would be the same, with fewer digits.
        change = value(shares, [new - old for new, old in zip(tomorrow.price, today.price)]) - paid
        after = State(state.day + 1, cash, shares, state.costs + paid, state.turnover + traded / total)
        return after, change * self.reward_scale, False

    def trade(self, state: State, action: Sequence[Any], today: Row, total: Any) -> tuple[Any, tuple[Any, ...], Any]:
        """Cash and shares after buying and selling, and for how much money that was.

        Sales come first. If what is left then does not pay for all purchases, each of them shrinks alike.
        """
        most = [self.max_shares or self.max_trade * total / price for price in today.price]
        closing = False if self.turbulence_threshold is None else today.turbulence > self.turbulence_threshold
        sold, wanted = [], []
        for owned, chosen, limit in zip(state.shares, action, most):
            sold.append(dr.select(closing, owned, dr.minimum(owned, dr.maximum(-chosen, 0.0) * limit)))
            wanted.append(dr.select(closing, 0.0, dr.maximum(chosen, 0.0) * limit))
        earned, asked = value(sold, today.price), value(wanted, today.price)
        cash = state.cash + earned * (1.0 - self.cost)
        due = asked * (1.0 + self.cost)
        enough = due <= cash
        part = dr.select(enough, 1.0, cash / dr.maximum(due, 1e-30))
        shares = tuple(owned - less + more * part for owned, less, more in zip(state.shares, sold, wanted))
        # Where all of it is spent, rounding leaves neither a cent nor a debt of one.
        return dr.select(enough, cash - due, 0.0), shares, earned + asked * part

    def observe(self, state):
        """The shares of cash and of each stock in the total assets, the indicators of each stock, and turbulence."""
        row = self.row(state.day)
        part = 1.0 / assets(state, row.price)
        held = (owned * price * part for owned, price in zip(state.shares, row.price))
        return (state.cash * part, *held, *row.seen)

    def report(self, state):
        gained = assets(state, self.row(state.day).price) - 1.0
        return {
            "gain_percent": 100.0 * gained,
            "costs_percent": 100.0 * state.costs,
            "turnover": state.turnover,
        }

    # Showing it.

    def draw(self, state: Mapping[str, np.ndarray]) -> Picture:
        """The portfolio as bars: cash first, then each stock."""
        day = int(np.clip(state["day"][0], 0, len(self.market.prices.days) - 1))
        price = self.market.prices.close[day]
        money = np.concatenate([state["cash"] * self.initial_cash, state["shares"][:, 0] * price])
        total = money.sum()
        shapes: list[Shape] = [rectangle(-0.5, -0.3, len(money) - 0.5, 0.0, GREY)]
        for k, (name, part) in enumerate(zip(("cash", *self.market.prices.names), money / total)):
            shapes.append(rectangle(k - 0.4, 0.0, k + 0.4, 10.0 * float(part), INK if k == 0 else BLUE))
            shapes.append(Text((float(k), -0.7), name[:5], 0.35))
        shown = f"{describe_day(self.market.prices.days[day])}   {total:,.0f}"
        shapes.append(Text((len(money) / 2 - 0.5, 10.8), shown, 0.8))
        return Picture(shapes, (-1.0, -1.2, float(len(money)), 11.5))


def value(shares: Sequence[Any], price: Sequence[Any]) -> Any:
    """What shares are worth."""
    total: Any = 0.0
    for owned, each in zip(shares, price):
        total = total + owned * each
    return total


def assets(state: State, price: Sequence[Any]) -> Any:
    """What a portfolio is worth in all."""
    return state.cash + value(state.shares, price)


def _check_positive(**numbers: float | None) -> None:
    for name, number in numbers.items():
        if number is not None and not number > 0:
            raise ValueError(f"{name} must be positive, got {number}.")
