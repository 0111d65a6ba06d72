"""Prices are read in the forms they come in, and refused in one line where they are not what they seem."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from made_prices import SMALL, periods, table, walk

from slipstream.envs.registry import make_env
from slipstream.envs.trading.prices import BUNDLED, Prices, load_prices


def written(tmp_path, frame: pd.DataFrame, name: str = "prices.csv") -> str:
    file = tmp_path / name
    frame.to_parquet(file, index=False) if file.suffix == ".parquet" else frame.to_csv(file, index=False)
    return str(file)


def read(tmp_path, frame: pd.DataFrame, name: str = "prices.csv", index: str | None = None) -> Prices:
    return load_prices(written(tmp_path, frame, name), index, 1.8)


def long(close: np.ndarray) -> pd.DataFrame:
    """A row for each stock and day."""
    melted = table(close).melt(id_vars="date", var_name="Symbol", value_name="Close")
    return melted.assign(High=melted.Close * 1.01, Low=melted.Close * 0.98)


# Forms.


def test_the_bundled_prices_are_20_stocks_from_2005_on_with_their_index():
    prices = load_prices(None, None, 1.8)
    assert prices.close.shape == (4529, 20) and {"AAPL", "XOM"} <= set(prices.names)
    assert str(prices.days[0]) == "2005-01-03T00:00:00" and str(prices.days[-1]) == "2022-12-28T00:00:00"
    assert prices.index is not None and prices.index.shape == (4529,) and prices.index[-1] == 3783.22
    assert prices.high is None and prices.rows_per_year == 252


def test_the_bundled_prices_are_read_without_importing_skfolio():
    source = (
        "import sys\nfrom slipstream.envs.registry import make_env\nmake_env('stock-trading')\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('skfolio', 'sklearn', 'cvxpy')])"
    )
    assert subprocess.run([sys.executable, "-c", source], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["prices.csv", "prices.parquet", "prices.csv.gz"])
def test_a_column_for_each_stock(tmp_path, name):
    close = walk()
    prices = read(tmp_path, table(close), name)
    assert prices.names == ("A", "B", "C") and prices.high is None
    np.testing.assert_allclose(prices.close, close)
    assert str(prices.days[1]) == "2010-01-05T00:00:00"


def test_parquet_may_have_its_days_as_the_index(tmp_path):
    close = walk()
    table(close).set_index(pd.to_datetime(table(close).date)).drop(columns="date").to_parquet(tmp_path / "p.parquet")
    prices = load_prices(str(tmp_path / "p.parquet"), None, 1.8)
    assert prices.names == ("A", "B", "C") and str(prices.days[0]) == "2010-01-04T00:00:00"


@pytest.mark.parametrize("by", [["date", "Symbol"], ["Symbol", "date"]])
def test_a_row_for_each_stock_and_day(tmp_path, by):
    close = walk()
    prices = read(tmp_path, long(close).sort_values(by))
    assert prices.names == ("A", "B", "C") and prices.high is not None and prices.low is not None
    np.testing.assert_allclose(prices.close, close)
    np.testing.assert_allclose(prices.high, close * 1.01)
    np.testing.assert_allclose(prices.low, close * 0.98)


def test_adjusted_closes_adjust_highs_and_lows(tmp_path):
    close = walk()
    prices = read(tmp_path, long(close).assign(**{"Adj Close": lambda t: t.Close / 4}))
    np.testing.assert_allclose(prices.close, close / 4)
    np.testing.assert_allclose(prices.high, close * 1.01 / 4)


def test_minute_prices(tmp_path):
    close = walk(600)
    opening = pd.bdate_range("2020-01-06", periods=60) + pd.Timedelta(hours=9.5)
    minutes = [day + pd.Timedelta(minutes=30 * k) for day in opening for k in range(10)]
    prices = read(tmp_path, table(close).assign(date=minutes))
    assert prices.rows_per_year == 2520 and not prices.daily
    with pytest.raises(ValueError, match=r"train_period=2020-01-14T10:00:00\.\.2020-02-27T11:00:00 "):
        make_env("stock-trading", file=str(tmp_path / "prices.csv"), **SMALL)


def test_an_index_among_the_columns_is_not_traded(tmp_path):
    close = walk()
    prices = read(tmp_path, table(close), index="B")
    assert prices.names == ("A", "C") and prices.index_name == "B"
    np.testing.assert_allclose(prices.index, close[:, 1])
    np.testing.assert_allclose(prices.close, close[:, [0, 2]])
    with pytest.raises(ValueError, match=r"has no column 'SPX' beside stocks; it has A, B, C\."):
        read(tmp_path, table(close), index="SPX")
    with pytest.raises(ValueError, match="index names a column of your own file"):
        load_prices(None, "AAPL", 1.8)


def test_a_file_that_changes_is_read_again(tmp_path):
    first, second = (read(tmp_path, table(walk(days))) for days in (200, 201))
    assert (len(first.days), len(second.days)) == (200, 201) and first.sha256 != second.sha256


# What is refused.


def swapped(frame: pd.DataFrame, row: int) -> pd.DataFrame:
    order = np.arange(len(frame))
    order[[row, row + 1]] = order[[row + 1, row]]
    return frame.iloc[order]


def changed(row: int, value: float | None) -> pd.DataFrame:
    frame = table(walk())
    frame.loc[row, "B"] = value
    return frame


def split(factor: float) -> pd.DataFrame:
    close = walk()
    close[100:, 1] /= factor
    return table(close)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            changed(7, None),
            r"B has no price on 2010-01-13 \(1 are missing in all\); fill the gaps or leave the stock out",
        ),
        (changed(7, 0.0), r"the price of B on 2010-01-13 is 0; prices are positive"),
        (changed(7, -3.5), r"the price of B on 2010-01-13 is -3\.5"),
        (changed(7, np.inf), r"the price of B on 2010-01-13 is inf"),
        (split(2.0), r"B goes from .* on 2010-05-21 to .* on 2010-05-24, like a split; give prices that are adjusted"),
        (split(0.1), r"like a split"),
        (swapped(table(walk()), 9), r"prices are not sorted: 2010-01-15 comes after 2010-01-18; sort them by day"),
        (table(walk()).iloc[[0, 1, 1, 2]], r"there are two prices of 2010-01-05; keep one of them"),
        (table(walk()).drop(index=range(20, 40)), r"there are no prices between 2010-01-29 and 2010-03-01"),
        (table(walk()).assign(B="high"), r"column 'B' should hold prices, and holds 'high'"),
        (
            table(walk()).assign(date="someday"),
            r"column 'date' should hold days such as 2020-01-31, and begins with 'som",
        ),
        (table(walk())[["date"]], r"has no column of prices beside 'date'"),
        (table(walk()).iloc[:1], r"has prices of 1 days; at least 2 are needed"),
        (long(walk()).drop(index=5), r"A has no price on 2010-01-11"),
        (long(walk()).iloc[[0, 1, 1, 2]], r"there are two prices of A of 2010-01-05"),
        (swapped(long(walk()), 3), r"prices of A are not sorted"),
        (long(walk()).drop(columns="Close"), r"has a column 'Symbol', but none of close, price for prices"),
        (long(walk()).assign(High=1.0), r"the high of A on 2010-01-04 is below its low"),
    ],
)
def test_prices_that_are_not_what_they_seem_are_refused(tmp_path, frame, message):
    with pytest.raises(ValueError, match=message) as refused:
        read(tmp_path, frame)
    assert "\n" not in str(refused.value)


def test_files_that_are_not_there_or_no_tables_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"There is no file nowhere\.csv"):
        load_prices("nowhere.csv", None, 1.8)
    for name in ("prices.parquet", "empty.csv"):
        (tmp_path / name).write_text("")
        with pytest.raises(ValueError, match=r"cannot be read as a table of prices \(CSV or Parquet\)"):
            load_prices(str(tmp_path / name), None, 1.8)


def test_a_leap_can_be_allowed(tmp_path):
    frame = split(2.5)
    assert load_prices(written(tmp_path, frame), None, 3.0).close.shape == (200, 3)


def test_missing_packages_are_named_with_what_installs_them(monkeypatch, tmp_path):
    file = written(tmp_path, table(walk(199)))
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ValueError, match=r"^Trading needs pandas: pip install slipstream-rl\[trading\]$"):
        make_env("stock-trading", file=file, **SMALL)


# Periods.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"train_period is missing; such as train_period=2010-03-30\.\.2010-07-22 validation_period=2010-07-23"),
        ({"train_period": "2010-04-01..2010-06-01"}, "validation_period is missing"),
        ({"train_period": "2010"}, r"train_period must look like 2006-01-03\.\.2014-12-31, got '2010'"),
        ({"train_period": "2010-05-01..2010-04-01"}, "ends before it begins"),
        ({"test_period": "1999-01-01..1999-12-31"}, r"has no prices: .* goes from 2010-01-04 to 2010-10-08"),
        ({"validation_period": "2010-05-03..2010-08-31"}, "train_period=.* and validation_period=.* overlap"),
        ({"test_period": "2010-08-02..2010-10-08"}, "validation_period=.* and test_period=.* overlap"),
        (
            {"validation_period": "2010-09-01..2010-10-08", "test_period": "2010-07-01..2010-08-31"},
            "in the wrong order",
        ),
        (
            {"train_period": "2010-02-01..2010-06-01"},
            r"begins after 20 rows .* need 61 .* begin at 2010-03-30 or later",
        ),
        ({"turbulence_window": 90}, r"begins after 61 rows of prices, and indicators need 91"),
        ({"turbulence_window": 3}, "turbulence_window must be above the number of stocks, 3, got 3"),
        ({"episode_length": 46}, r"has 46 rows of prices, and an episode of 46 steps needs 47"),
    ],
)
def test_periods_are_refused_that_would_not_do(tmp_path, options, message):
    file = written(tmp_path, table(walk()))
    others = {} if "missing" in message else periods(200)
    with pytest.raises(ValueError, match=message) as refused:
        make_env("stock-trading", file=file, **{**SMALL, **others, **options})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["max_trade", "max_shares", "initial_cash", "episode_length", "reward_scale"])
def test_options_that_make_no_sense_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} must be positive, got -1"):
        make_env("stock-trading", **{name: -1})
    for option, value, must in (("cost", 1.0, "within 0 .. 1"), ("max_jump", 1.0, "above 1")):
        with pytest.raises(ValueError, match=f"{option} must be {must}, got {value}"):
            make_env("stock-trading", **{option: value})


def test_the_bundled_file_is_named_where_a_version_lacks_it(monkeypatch):
    monkeypatch.setattr("importlib.metadata.files", lambda name: [])
    with pytest.raises(ValueError, match=f"This version of skfolio has no {BUNDLED}"):
        load_prices(None, None, 1.9)
