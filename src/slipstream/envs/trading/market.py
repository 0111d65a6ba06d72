"""Prices and what is known of them, as one table that rules read on the device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import drjit as dr
import numpy as np

from slipstream.arrays import ArrayTypes
from slipstream.envs.trading.indicators import INDICATORS, LOOKBACK, indicators, turbulence
from slipstream.envs.trading.prices import Prices

PACKET = 16
"""Numbers that are read at once: a row of the table is a multiple of it."""


@dataclass(frozen=True)
class Row:
    """What is known on a day, of all stocks.

    Attributes:
        price: of each stock.
        seen: indicators, those of all stocks together, and last the logarithm of 1 + turbulence.
        turbulence: see `indicators.turbulence`.
    """

    price: list[Any]
    seen: list[Any]
    turbulence: Any


@dataclass(frozen=True)
class Market:
    """Prices, indicators and turbulence of every day.

    Attributes:
        prices: of stocks.
        turbulence_window: days that the turbulence of one is compared with.
    """

    prices: Prices
    turbulence_window: int

    @property
    def stocks(self) -> int:
        return len(self.prices.names)

    @property
    def seen(self) -> int:
        """How many numbers of `Row.seen` there are."""
        return len(INDICATORS) * self.stocks + 1

    @property
    def lookback(self) -> int:
        """The first row of which everything is known."""
        return max(LOOKBACK, self.turbulence_window + 1)

    @cached_property
    def table(self) -> np.ndarray:
        """`[days, columns]` in float32: prices, what is seen, turbulence, and zeros up to a multiple of `PACKET`.

        Rows of which not everything is known are zeros, but for their prices.
        """
        close = self.prices.close
        unusual = turbulence(close, self.turbulence_window)
        seen = indicators(self.prices).reshape(len(close), -1)
        columns = np.concatenate([close, seen, np.log1p(unusual)[:, None], unusual[:, None]], axis=1)
        columns[: self.lookback, self.stocks :] = 0.0
        if not np.isfinite(columns).all():
            day, column = np.argwhere(~np.isfinite(columns))[0]
            raise ValueError(f"An indicator (column {column}) of {self.prices.days[day]} is not a number.")
        padding = -columns.shape[1] % PACKET
        return np.pad(columns, ((0, 0), (0, padding))).astype(np.float32)

    def on_device(self, types: ArrayTypes) -> Table:
        """The table in the memory of a backend."""
        columns = self.table.shape[1]
        if not types.compiled:
            return Table(self.table.astype(np.float64), None, columns)
        # One wrapped around NumPy's memory is aligned otherwise, and cannot be recorded.
        numbers = types.Float(np.ascontiguousarray(self.table.ravel())) + dr.opaque(types.Float, 0.0)
        dr.eval(numbers)
        return Table(numbers, types.module.ArrayXf, columns)

    def row(self, table: Table, day: Any) -> Row:
        """The row of a day, each world's own; of a day beyond the table, the nearest one."""
        numbers = table.row(dr.clip(day, 0, len(self.prices.days) - 1))
        last = self.stocks + self.seen
        return Row(numbers[: self.stocks], numbers[self.stocks : last], numbers[last])


@dataclass(frozen=True)
class Table:
    """`Market.table` on a device.

    Attributes:
        numbers: `[days * columns]`; on the scalar backend `[days, columns]`.
        packet: the type of several numbers that are read at once; None on the scalar backend.
        columns: of a row.
    """

    numbers: Any
    packet: Any
    columns: int

    def row(self, day: Any) -> list[Any]:
        if self.packet is None:
            return self.numbers[int(day)].tolist()
        packets = self.columns // PACKET
        first = dr.uint32_array_t(type(self.numbers))(day) * packets
        shape = (PACKET, dr.width(first))
        parts = (dr.gather(self.packet, self.numbers, first + k, shape=shape) for k in range(packets))
        return [number for part in parts for number in part]


@lru_cache(maxsize=4)
def make_market(prices: Prices, turbulence_window: int) -> Market:
    """The market of prices; the same one for the same prices."""
    return Market(prices, turbulence_window)
