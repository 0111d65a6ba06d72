"""Our tolerance is dm_control's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.arrays import array_types
from slipstream.envs.dm_control.tolerance import ENDING, SIGMOIDS, product, small_control, tolerance

rewards = pytest.importorskip("dm_control.utils.rewards")

numbers = st.floats(-20, 20).map(lambda x: round(x, 3))


@settings(max_examples=200, deadline=None)
@given(
    sigmoid=st.sampled_from(sorted(SIGMOIDS)),
    low=st.one_of(numbers, st.just(-math.inf)),
    width=st.one_of(st.floats(0, 5), st.just(math.inf)),
    margin=st.one_of(st.just(0.0), st.floats(0.01, 10)),
    value=st.floats(0.01, 0.99),
    x=st.lists(numbers, min_size=1, max_size=8),
)
def test_tolerance_is_dm_controls(sigmoid, low, width, margin, value, x):
    bounds = (low, low + width if math.isfinite(low) else width)
    with np.errstate(over="ignore"):
        expected = rewards.tolerance(np.array(x), bounds, margin, sigmoid, value)
    assert [tolerance(v, bounds, margin, sigmoid, value) for v in x] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("sigmoid", sorted(SIGMOIDS))
def test_compiled_tolerance_is_dm_controls(sigmoid):
    x = np.linspace(-5, 5, 101, dtype=np.float32)
    value = 0.0 if sigmoid in ENDING else 0.1
    found = tolerance(array_types("llvm").Float(x), (-1.0, 1.5), 2.0, sigmoid, value)
    np.testing.assert_allclose(np.asarray(found), rewards.tolerance(x, (-1.0, 1.5), 2.0, sigmoid, value), atol=1e-6)


def test_what_makes_no_sense_is_refused():
    for wrong in ({"bounds": (1.0, 0.0)}, {"margin": -1.0}, {"value_at_margin": 1.0}, {"value_at_margin": 0.0}):
        with pytest.raises(ValueError, match="must be"):
            tolerance(0.0, **{"margin": 1.0, **wrong})


def test_small_controls_earn_more():
    assert small_control([0.0, 0.0]) == pytest.approx(1.0)
    assert small_control([1.0, -1.0]) == pytest.approx(0.8)
    assert product([2.0, 3.0, 4.0]) == 24.0
