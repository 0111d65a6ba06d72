"""What traders look at beside prices, computed from the past alone.

Indicators are those of TA-Lib, with the usual numbers of days. They are made relative to the price (or to their own
range), so that they mean the same at any price and in any year. Nothing is scaled by statistics over all days: those
would know the future.
"""

from __future__ import annotations

import numpy as np

from slipstream.envs.extras import trading_extra
from slipstream.envs.trading.prices import Prices

INDICATORS = ("change", "macd", "upper band", "lower band", "rsi", "cci", "dx", "30-day average", "60-day average")
"""Of each stock, in this order."""

LOOKBACK = 60
"""Rows before the first one of which all indicators are known."""

CHUNK = 128


def indicators(prices: Prices) -> np.ndarray:
    """Of every stock on every day: `[days, indicators, stocks]`, not a number where too few days went before.

    Where highs and lows are not known, the close takes their place.
    """
    close = prices.close
    high = close if prices.high is None else prices.high
    low = close if prices.low is None else prices.low
    with trading_extra():
        import talib
    stocks = [_of_stock(talib, *(np.ascontiguousarray(a[:, k]) for a in (close, high, low))) for k in _range(close)]
    return np.stack(stocks, axis=-1)


def _range(close: np.ndarray) -> range:
    return range(close.shape[1])


def _of_stock(talib, close: np.ndarray, high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """`[days, indicators]`"""
    macd, _, _ = talib.MACD(close)
    upper, _, lower = talib.BBANDS(close, timeperiod=20, nbdevup=2.0, nbdevdn=2.0)
    change = np.concatenate([[np.nan], np.diff(np.log(close))])
    columns = {
        "change": change * 10.0,
        "macd": macd / close * 10.0,
        "upper band": (upper / close - 1.0) * 10.0,
        "lower band": (lower / close - 1.0) * 10.0,
        "rsi": talib.RSI(close, timeperiod=30) / 50.0 - 1.0,
        "cci": talib.CCI(high, low, close, timeperiod=30) / 100.0,
        "dx": talib.DX(high, low, close, timeperiod=30) / 100.0,
        "30-day average": (close / talib.SMA(close, timeperiod=30) - 1.0) * 10.0,
        "60-day average": (close / talib.SMA(close, timeperiod=60) - 1.0) * 10.0,
    }
    return np.stack([columns[name] for name in INDICATORS], axis=1)


def turbulence(close: np.ndarray, window: int) -> np.ndarray:
    """How unusual the changes of a day are, after those of the `window` days before it (Kritzman and Li 2010).

    It is the squared Mahalanobis distance of the day's changes to those days, over the number of stocks: about 1 on
    average if every day were like the others.

    Args:
        close: `[days, stocks]`.
        window: days of the past.

    Returns:
        `[days]`, not a number where too few days went before.
    """
    changes = np.diff(np.log(close), axis=0)
    days, stocks = changes.shape
    result = np.full(days + 1, np.nan)
    if days <= window:
        return result
    past = np.lib.stride_tricks.sliding_window_view(changes[:-1], window, axis=0)  # [days - window, stocks, window]
    today = changes[window:]
    for start in range(0, len(today), CHUNK):
        rows = slice(start, start + CHUNK)
        mean = past[rows].mean(axis=-1)
        centred = past[rows] - mean[..., None]
        covariance = centred @ centred.transpose(0, 2, 1) / (window - 1)
        # Stocks that moved alike, or not at all, leave no inverse.
        distance = today[rows] - mean
        inverse = np.linalg.pinv(covariance, hermitian=True)
        result[window + 1 :][rows] = np.einsum("di,dij,dj->d", distance, inverse, distance) / stocks
    return result
