"""Prices of stocks: read from a file, and refused if they are not what they seem to be."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstream.envs.extras import ExtraMissing, trading_extra

if TYPE_CHECKING:
    from pandas import DataFrame, Series

BUNDLED, BUNDLED_INDEX, BUNDLED_START = "sp500_dataset.csv.gz", "sp500_index.csv.gz", "2005-01-01"
"""Of skfolio: closes of 20 US companies and the S&P 500. Before the start, prices have too few digits to be traded at:
adjusted for later splits, Apple's of 1990 is 0.264."""

LONGEST_GAP = 10
"""Days in a row without any price (a holiday, or September 2001) before it counts as a gap."""

DAY_COLUMNS = ("date", "datetime", "timestamp", "time", "day")
NAME_COLUMNS = ("symbol", "ticker", "tic", "stock", "name")
CLOSE_COLUMNS = ("close", "price")
ADJUSTED_COLUMNS = ("adj close", "adj_close", "adjclose", "adjusted_close")


@dataclass(frozen=True, eq=False)
class Prices:
    """Of some stocks over time.

    Attributes:
        source: where they are from.
        sha256: of the files.
        days: `[days]`, when each row was; several rows may be of one day, for minute prices say.
        names: of the stocks.
        close: `[days, stocks]`.
        high: `[days, stocks]`, or None if only closes are known.
        low: the same.
        index: `[days]`, of what the stocks are to be compared with; None if nothing is known.
        index_name: what that is.
    """

    source: str
    sha256: str
    days: np.ndarray
    names: tuple[str, ...]
    close: np.ndarray
    high: np.ndarray | None = None
    low: np.ndarray | None = None
    index: np.ndarray | None = None
    index_name: str = ""

    @property
    def rows_per_year(self) -> float:
        """How many rows a year of trading has: 252 of daily prices."""
        _, counts = np.unique(self.days.astype("datetime64[D]"), return_counts=True)
        return 252.0 * float(np.median(counts))

    @property
    def daily(self) -> bool:
        return self.rows_per_year == 252.0


def load_prices(file: str | None, index: str | None, max_jump: float) -> Prices:
    """Prices from a file, checked.

    Args:
        file: CSV or Parquet; None: those that skfolio carries.
        index: the column (or symbol) that is no stock, but what stocks are to be compared with.
        max_jump: by which factor a price may change from one row to the next.
    """
    if file is None:
        if index is not None:
            raise ValueError(f"index names a column of your own file, and there is none: got index={index!r}.")
        paths = (_bundled(BUNDLED), _bundled(BUNDLED_INDEX))
    else:
        if not Path(file).is_file():
            raise ValueError(f"There is no file {file}.")
        paths = (Path(file).resolve(),)
    return _load(paths, tuple((p.stat().st_mtime_ns, p.stat().st_size) for p in paths), index, max_jump)


def _bundled(name: str) -> Path:
    """A file of skfolio's, found without importing it: that takes seconds."""
    try:
        listed = metadata.files("skfolio") or []
    except metadata.PackageNotFoundError as error:
        raise ExtraMissing("skfolio") from error
    for entry in listed:
        if entry.name == name:
            return Path(str(entry.locate()))
    raise ValueError(f"This version of skfolio has no {name}: install the one that pyproject.toml names.")


@lru_cache(maxsize=4)
def _load(paths: tuple[Path, ...], _versions: Any, index: str | None, max_jump: float) -> Prices:
    sha256 = hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()
    table = _read(paths[0])
    if len(paths) == 2:  # skfolio's
        reference = _wide(_read(paths[1]), "the index")["close"]
        found = {kind: part.loc[BUNDLED_START:] for kind, part in _wide(table, BUNDLED).items()}
        prices = _checked("skfolio", sha256, found, max_jump)
        follows = reference.reindex(found["close"].index).iloc[:, 0]
        return Prices(**{**vars(prices), "index": follows.to_numpy(float), "index_name": "S&P 500"})
    source = str(paths[0])
    names = _columns(table)
    long = next((names[n] for n in NAME_COLUMNS if n in names), None)
    found = _wide(table, source) if long is None else _unstacked(table, long, source)
    return _split_index(_checked(source, sha256, found, max_jump), index)


def _read(path: Path) -> DataFrame:
    with trading_extra():
        import pandas as pd
        import pyarrow  # noqa: F401  (pandas reads Parquet with it)
    try:
        if path.suffix in (".parquet", ".pq"):
            table = pd.read_parquet(path)
            return table if isinstance(table.index, pd.RangeIndex) else table.reset_index()
        return pd.read_csv(path)
    except Exception as error:  # whatever a reader makes of somebody's file
        what = " ".join(str(error).split())[:200]
        raise ValueError(f"{path} cannot be read as a table of prices (CSV or Parquet): {what}") from error


def _columns(table: DataFrame) -> dict[str, str]:
    """Columns by their names in small letters."""
    return {str(name).strip().lower(): name for name in table.columns}


def _days_of(table: DataFrame, source: str) -> tuple[str, Series]:
    """The column with the days, and the days."""
    import pandas as pd

    names = _columns(table)
    column = next((names[n] for n in DAY_COLUMNS if n in names), table.columns[0])
    try:
        days = pd.to_datetime(table[column])
        if getattr(days.dt, "tz", None) is not None:
            days = days.dt.tz_localize(None)
    except (ValueError, TypeError, AttributeError) as error:
        first = table[column].iloc[0] if len(table) else "nothing"
        raise ValueError(
            f"{source}: column {column!r} should hold days such as 2020-01-31, and begins with {first!r}."
        ) from error
    if days.isna().any():
        raise ValueError(f"{source}: row {int(days.isna().to_numpy().argmax()) + 1} has no day.")
    return column, days


def _wide(table: DataFrame, source: str) -> dict[str, DataFrame]:
    """A table with a column for each stock."""
    column, days = _days_of(table, source)
    _check_order(days, "", source)
    close = table.drop(columns=[column])
    if close.shape[1] == 0:
        raise ValueError(f"{source} has no column of prices beside {column!r}.")
    return {"close": _as_numbers(close.set_index(days), source)}


def _unstacked(table: DataFrame, name_column: str, source: str) -> dict[str, DataFrame]:
    """A table with a row for each stock and day, and columns such as close, high and low."""
    names = _columns(table)
    column, days = _days_of(table, source)
    close = next((names[n] for n in CLOSE_COLUMNS if n in names), None)
    adjusted = next((names[n] for n in ADJUSTED_COLUMNS if n in names), None)
    if close is None and adjusted is None:
        raise ValueError(f"{source} has a column {name_column!r}, but none of {', '.join(CLOSE_COLUMNS)} for prices.")
    for name, rows in days.groupby(table[name_column].to_numpy(), sort=False):
        _check_order(rows, f" of {name}", source)

    def by_stock(what: str) -> DataFrame:
        wide = table.assign(**{column: days}).pivot(index=column, columns=name_column, values=what)
        return _as_numbers(wide.reindex(columns=list(dict.fromkeys(table[name_column]))), source)

    shown = by_stock(adjusted if adjusted is not None else str(close))
    found = {"close": shown}
    if {"high", "low"} <= names.keys():
        # Where closes are adjusted for splits and dividends, so must the rest be.
        factor = shown / by_stock(close) if adjusted is not None and close is not None else 1.0
        found |= {kind: by_stock(names[kind]) * factor for kind in ("high", "low")}
    return found


def _as_numbers(table: DataFrame, source: str) -> DataFrame:
    import pandas as pd

    for name in table.columns:
        if not pd.api.types.is_numeric_dtype(table[name]):
            raise ValueError(f"{source}: column {name!r} should hold prices, and holds {table[name].iloc[0]!r}.")
    return table.astype(float)


def _check_order(days: Series, whose: str, source: str) -> None:
    """Refuse days that are not in order, or there twice."""
    values = days.to_numpy()
    if (back := np.flatnonzero(values[1:] < values[:-1])).size:
        before, after = (describe_day(values[i]) for i in (back[0], back[0] + 1))
        raise ValueError(f"{source}: prices{whose} are not sorted: {after} comes after {before}; sort them by day.")
    if (twice := np.flatnonzero(values[1:] == values[:-1])).size:
        raise ValueError(
            f"{source}: there are two prices{whose} of {describe_day(values[twice[0]])}; keep one of them."
        )


def _checked(source: str, sha256: str, found: dict[str, DataFrame], max_jump: float) -> Prices:
    """Prices without gaps, zeros and leaps, or an error that names the first one."""
    close = found["close"]
    days = close.index.to_numpy().astype("datetime64[s]")
    names = tuple(str(name) for name in close.columns)
    if len(days) < 2:
        raise ValueError(f"{source} has prices of {len(days)} days; at least 2 are needed.")
    arrays = {kind: part.to_numpy(np.float64) for kind, part in found.items()}
    for kind, array in arrays.items():
        what = "price" if kind == "close" else kind
        if (rows := np.argwhere(np.isnan(array))).size:
            day, stock = rows[0]
            raise ValueError(
                f"{source}: {names[stock]} has no {what} on {describe_day(days[day])} ({len(rows)} are missing in "
                "all); fill the gaps or leave the stock out."
            )
        if (rows := np.argwhere(~((array > 0) & np.isfinite(array)))).size:
            day, stock = rows[0]
            raise ValueError(
                f"{source}: the {what} of {names[stock]} on {describe_day(days[day])} is {array[day, stock]:g}; "
                "prices are positive."
            )
    if "high" in arrays and (rows := np.argwhere(arrays["high"] < arrays["low"])).size:
        day, stock = rows[0]
        raise ValueError(f"{source}: the high of {names[stock]} on {describe_day(days[day])} is below its low.")
    apart = np.diff(days) / np.timedelta64(1, "D")
    if (gap := np.flatnonzero(apart > LONGEST_GAP)).size:
        before, after = (describe_day(days[i]) for i in (gap[0], gap[0] + 1))
        raise ValueError(f"{source}: there are no prices between {before} and {after}; fill the gap or begin after it.")
    _check_jumps(source, days, names, arrays["close"], max_jump)
    return Prices(source, sha256, days, names, arrays["close"], arrays.get("high"), arrays.get("low"))


def _check_jumps(source: str, days: np.ndarray, names: tuple[str, ...], close: np.ndarray, max_jump: float) -> None:
    ratio = close[1:] / close[:-1]
    if (rows := np.argwhere(np.maximum(ratio, 1.0 / ratio) > max_jump)).size:
        day, stock = rows[0]
        before, after = (f"{close[row, stock]:g} on {describe_day(days[row])}" for row in (day, day + 1))
        raise ValueError(
            f"{source}: {names[stock]} goes from {before} to {after}, like a split; give prices that are adjusted "
            f"for splits, or a larger max_jump than {max_jump:g}."
        )


def _split_index(prices: Prices, index: str | None) -> Prices:
    """Take the column that is no stock out of the stocks."""
    if index is None:
        return prices
    if index not in prices.names or len(prices.names) < 2:
        raise ValueError(f"{prices.source} has no column {index!r} beside stocks; it has {', '.join(prices.names)}.")
    at = prices.names.index(index)

    def others(array: np.ndarray | None) -> np.ndarray | None:
        return None if array is None else np.delete(array, at, axis=1)

    names = tuple(name for name in prices.names if name != index)
    rest = {kind: others(getattr(prices, kind)) for kind in ("close", "high", "low")}
    return Prices(**{**vars(prices), **rest, "names": names, "index": prices.close[:, at], "index_name": index})


def describe_day(moment: Any) -> str:
    """A day, or a moment of one, as it is written."""
    text = str(np.datetime64(moment, "s"))
    return text.removesuffix("T00:00:00").replace("T", " ")
