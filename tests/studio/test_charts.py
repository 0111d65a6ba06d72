"""Curves of runs: what is shown, and that thinning and aligning change nothing that matters."""

import numpy as np
import pytest

from slipstream.studio import charts
from slipstream.studio.charts import POINTS, Plan, aligned, curves_of, plan_charts, points_of, thinned, value_range

STEPS = np.arange(1.0, 1001.0)
COLUMNS = {
    "step": STEPS,
    "seconds": 0.1 * STEPS,
    "steps_per_second": np.full(1000, 10.0),
    "return/cat": 2.0 * STEPS,
    "evaluation/cat": np.where(STEPS % 100 == 0, STEPS, np.nan),
    "report/mice": np.full(1000, np.nan),
    "report/speed": np.full(1000, 2.0),
    "report/reward_mice": 3.0 * STEPS,
    "report/reward_effort": -STEPS,
    "time/update": np.full(1000, 0.25),
    "cat/policy_loss": -STEPS,
}


def test_there_is_a_chart_for_what_has_values():
    plans = {plan.title: plan for plan in plan_charts(COLUMNS)}
    assert list(plans) == [
        "mean return of an episode",
        "what the return is made of",
        "speed",
        "policy loss",
        "steps per second",
        "what the time goes to, %",
    ]
    assert plans["mean return of an episode"].metrics == ("return/cat", "evaluation/cat")
    parts = plans["what the return is made of"]
    assert [curve.label for curve in curves_of(parts, "step", COLUMNS, {})] == ["mice", "effort"]


def test_few_points_stay_as_they_are_and_many_keep_their_line():
    points = points_of(COLUMNS, "seconds", "return/cat")
    assert points is not None and points.shape[1] <= POINTS
    assert points[1] == pytest.approx(20.0 * points[0])
    assert points[:, -1].tolist() == [100.0, 2000.0]
    few = points_of(COLUMNS, "step", "evaluation/cat")
    assert few is not None and few.tolist() == [list(range(100, 1001, 100))] * 2
    assert points_of(COLUMNS, "step", "report/mice") is None


def test_a_run_that_went_back_is_drawn_forward():
    columns = {"step": np.array([1.0, 2.0, 2.0, 3.0]), "x": np.array([1.0, 2.0, 9.0, 3.0])}
    points = points_of(columns, "step", "x")
    assert points is not None and (np.diff(points[0]) > 0).all()


def test_curves_of_different_length_share_an_axis_and_are_not_prolonged():
    short = {"step": STEPS[:50], "return/cat": STEPS[:50]}
    curves = curves_of(Plan("", "", ("return/cat",)), "step", short, {"other": COLUMNS})
    assert [curve.label for curve in curves] == ["cat", "other: cat"]
    x, mine, theirs = aligned(curves)
    assert x[0] <= 4.0 and x[-1] == 1000.0
    assert np.isnan(mine[x > 50.0]).all() and np.isfinite(mine[(x > 5.0) & (x < 50.0)]).all()
    assert theirs[x > 10.0] == pytest.approx(2.0 * x[x > 10.0])


def test_the_range_holds_all_values_and_is_calm():
    curves = curves_of(Plan("", "", ("return/cat",)), "step", COLUMNS, {})
    low, high = value_range(curves)
    assert low <= 2.0 < 2000.0 <= high < 2600.0
    assert thinned(np.zeros((2, 7)), 5).shape == (2, 5)
    constant = curves_of(Plan("", "", ("steps_per_second",)), "step", COLUMNS, {})
    assert value_range(constant)[0] < 10.0 < value_range(constant)[1]


class Shown:
    """A chart on the page."""

    visible, removed = True, False

    def remove(self) -> None:
        self.removed = True


def test_a_chart_that_goes_is_hidden_at_once_and_removed_when_browsers_have_caught_up(monkeypatch):
    now = 100.0
    monkeypatch.setattr(charts.time, "monotonic", lambda: now)
    leaving, first, second = charts.Leaving(), Shown(), Shown()
    leaving.add(first)
    now += 0.5 * charts.LAG
    leaving.add(second)
    leaving.sweep()
    assert not first.visible and not second.visible and not first.removed
    now += 0.6 * charts.LAG
    leaving.sweep()
    assert first.removed and not second.removed
    now += charts.LAG
    leaving.sweep()
    assert second.removed
