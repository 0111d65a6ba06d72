"""Which days are for training, for ranking what was trained, and for the final report: fixed before any training."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from slipstream.envs.trading.prices import Prices, describe_day

TRAIN, VALIDATION, TEST = "train", "validation", "test"
PERIODS = (TRAIN, VALIDATION, TEST)

BUNDLED_PERIODS = {
    TRAIN: "2006-02-01..2014-12-31",
    VALIDATION: "2015-01-02..2017-12-29",
    TEST: "2018-01-02..2022-12-28",
}
"""Of skfolio's prices: two crises to learn from, three years to rank by, five to be judged by."""

SHARES = (0.6, 0.8)
"""Where validation and test begin in the periods that are proposed for a user's own prices."""


@dataclass(frozen=True)
class Window:
    """Rows of a table of prices, the last one included."""

    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first + 1


def find_windows(prices: Prices, given: Mapping[str, str | None], lookback: int, length: int) -> dict[str, Window]:
    """The rows of each period, or an error before any work is done.

    Args:
        prices: what the days are of.
        given: by period, `FIRST..LAST`; None only of all.
        lookback: rows that indicators need before a period.
        length: steps of an episode: a period has more rows than that.
    """
    missing = [name for name in PERIODS if given[name] is None]
    if prices.source == "skfolio" and len(missing) == len(PERIODS):
        given = BUNDLED_PERIODS
    elif missing:
        raise ValueError(
            f"Say which days of {prices.source} are for what, before anything is trained: {missing[0]}_period is "
            f"missing; such as {_proposal(prices, lookback)}."
        )
    days = prices.days
    windows: dict[str, Window] = {}
    for name in PERIODS:
        begin, end = _parse(name, str(given[name]))
        rows = np.flatnonzero((days >= begin) & (days <= end))
        if not rows.size:
            raise ValueError(
                f"{name}_period={given[name]} has no prices: {prices.source} goes from {describe_day(days[0])} to "
                f"{describe_day(days[-1])}."
            )
        windows[name] = Window(int(rows[0]), int(rows[-1]))
    _check_order(windows, given)
    _check_enough(windows, given, days, lookback, length)
    return windows


def _check_order(windows: Mapping[str, Window], given: Mapping[str, str | None]) -> None:
    for earlier, later in ((TRAIN, VALIDATION), (VALIDATION, TEST), (TRAIN, TEST)):
        a, b = windows[earlier], windows[later]
        shown = f"{earlier}_period={given[earlier]} and {later}_period={given[later]}"
        if a.first <= b.last and b.first <= a.last:
            raise ValueError(f"{shown} overlap: what is judged on days it was trained on looks better than it is.")
        if a.first > b.first:
            raise ValueError(f"{shown} are in the wrong order: nobody can learn from what comes later.")


def _check_enough(
    windows: Mapping[str, Window], given: Mapping[str, str | None], days: np.ndarray, lookback: int, length: int
) -> None:
    for name, window in windows.items():
        if window.first < lookback:
            possible = f"begin at {describe_day(days[lookback])} or later" if lookback < len(days) else "give more days"
            raise ValueError(
                f"{name}_period={given[name]} begins after {window.first} rows of prices, and indicators need "
                f"{lookback} (turbulence_window and 1 more, at least 60): {possible}, or look back less far."
            )
        if len(window) <= length:
            raise ValueError(
                f"{name}_period={given[name]} has {len(window)} rows of prices, and an episode of {length} steps needs "
                f"{length + 1}: take a longer period, or a smaller episode_length."
            )


def _parse(name: str, text: str) -> tuple[np.datetime64, np.datetime64]:
    first, dots, last = text.partition("..")
    begin = end = np.datetime64("NaT")
    with suppress(ValueError):
        begin, end = np.datetime64(first.strip()), np.datetime64(last.strip())
    if not dots or np.isnat(begin) or np.isnat(end):
        raise ValueError(f"{name}_period must look like 2006-01-03..2014-12-31, got {text!r}.")
    if begin > end:
        raise ValueError(f"{name}_period={text} ends before it begins.")
    # A day, a month or a year goes on to its end.
    return begin.astype("datetime64[s]"), (end + 1).astype("datetime64[s]") - np.timedelta64(1, "s")


def _proposal(prices: Prices, lookback: int) -> str:
    days, count = prices.days, len(prices.days)
    if count <= lookback + len(PERIODS):
        raise ValueError(
            f"{prices.source} has {count} rows of prices, and indicators alone need {lookback} before the first "
            "period: give more days, or a smaller turbulence_window."
        )
    cuts = [lookback, *(lookback + int(s * (count - lookback)) for s in SHARES), count]
    moments = [str(day).removesuffix("T00:00:00") for day in days]
    shown = (f"{name}_period={moments[a]}..{moments[b - 1]}" for name, a, b in zip(PERIODS, cuts, cuts[1:]))
    return " ".join(shown)
