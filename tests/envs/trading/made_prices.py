"""Prices made up for tests, and worlds of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from slipstream.envs.registry import make_env
from slipstream.envs.trading.prices import Prices
from slipstream.envs.trading.stock_trading import StockTrading

START = "2010-01-04"


def walk(days: int = 200, stocks: int = 3, seed: int = 0) -> np.ndarray:
    """Prices that wander, `[days, stocks]`."""
    steps = np.random.default_rng(seed).normal(0.0005, 0.02, (days, stocks))
    return 50.0 * np.exp(np.cumsum(steps, axis=0)) * (1.0 + np.arange(stocks))


def table(close: np.ndarray) -> pd.DataFrame:
    """With a column for each stock: A, B ..."""
    days = pd.bdate_range(START, periods=len(close))
    columns = {chr(ord("A") + k): close[:, k] for k in range(close.shape[1])}
    return pd.DataFrame({"date": days.strftime("%Y-%m-%d"), **columns})


def prices(close: np.ndarray) -> Prices:
    days = pd.bdate_range(START, periods=len(close)).to_numpy().astype("datetime64[s]")
    return Prices("made up", "", days, tuple(chr(ord("A") + k) for k in range(close.shape[1])), close)


def periods(days: int, lookback: int = 61) -> dict[str, str]:
    """Three periods of as many days each, after those that indicators need."""
    moments = [str(d.date()) for d in pd.bdate_range(START, periods=days)]
    cuts = np.linspace(lookback, days, 4).astype(int)
    names = ("train_period", "validation_period", "test_period")
    return {n: f"{moments[a]}..{moments[b - 1]}" for n, a, b in zip(names, cuts, cuts[1:])}


SMALL: dict[str, Any] = {"turbulence_window": 60, "episode_length": 20}
"""Options that fit 200 days."""


def world(folder: Path, close: np.ndarray, **options: Any) -> StockTrading:
    """A market of these prices, written to a file and read again."""
    file = folder / "prices.csv"
    table(close).to_csv(file, index=False)
    env = make_env("stock-trading", file=str(file), **{**SMALL, **periods(len(close)), **options})
    assert isinstance(env, StockTrading)
    return env
