"""How the suite rewards a quantity for being where it should be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import reduce
from operator import mul
from typing import Any, Literal

import drjit as dr

Sigmoid = Literal["gaussian", "hyperbolic", "long_tail", "reciprocal", "cosine", "linear", "quadratic", "tanh_squared"]


def tolerance(
    x: Any,
    bounds: tuple[float, float] = (0.0, 0.0),
    margin: float = 0.0,
    sigmoid: Sigmoid = "gaussian",
    value_at_margin: float = 0.1,
) -> Any:
    """1 within the bounds, falling towards 0 outside of them: `dm_control.utils.rewards.tolerance`.

    Args:
        x: a scalar.
        bounds: from where to where it is 1; both ends count, and may be infinite.
        margin: how far outside it is `value_at_margin`. 0: it is 0 everywhere outside.
        sigmoid: in what way it falls.
        value_at_margin: 0 is allowed where the way ends: linear, quadratic and cosine.
    """
    low, high = bounds
    if low > high or margin < 0.0:
        raise ValueError(f"bounds must be in order and the margin 0 or more, got {bounds} and {margin}.")
    lowest = 0.0 if sigmoid in ENDING else math.ulp(0.0)
    if not lowest <= value_at_margin < 1.0:
        raise ValueError(f"value_at_margin of {sigmoid} must be between 0 and 1, got {value_at_margin}.")
    outside: Any = 0.0
    for bound, sign in ((low, -1.0), (high, 1.0)):
        if math.isfinite(bound):
            outside = dr.maximum(outside, sign * (x - bound))
    if margin == 0.0:
        return dr.select(outside > 0.0, 0.0, 1.0)
    return dr.select(outside > 0.0, SIGMOIDS[sigmoid](outside * (1.0 / margin), value_at_margin), 1.0)


def _hyperbolic(x: Any, value: float) -> Any:
    return 1.0 / dr.cosh(x * math.acosh(1.0 / value))


def _cosine(x: Any, value: float) -> Any:
    scaled = x * (math.acos(2.0 * value - 1.0) / math.pi)
    return dr.select(scaled < 1.0, 0.5 * (1.0 + dr.cos(math.pi * scaled)), 0.0)


def _tanh_squared(x: Any, value: float) -> Any:
    tanh = dr.tanh(x * math.atanh(math.sqrt(1.0 - value)))
    return 1.0 - tanh * tanh


ENDING = ("linear", "quadratic", "cosine")

SIGMOIDS: dict[str, Callable[[Any, float], Any]] = {
    "gaussian": lambda x, value: dr.exp(math.log(value) * x * x),
    "hyperbolic": _hyperbolic,
    "long_tail": lambda x, value: 1.0 / ((1.0 / value - 1.0) * x * x + 1.0),
    "reciprocal": lambda x, value: 1.0 / ((1.0 / value - 1.0) * x + 1.0),
    "cosine": _cosine,
    "linear": lambda x, value: dr.maximum(1.0 - (1.0 - value) * x, 0.0),
    "quadratic": lambda x, value: dr.maximum(1.0 - (1.0 - value) * x * x, 0.0),
    "tanh_squared": _tanh_squared,
}
"""By kind, functions of a positive distance in margins, and of what they are at 1."""


def small_control(action: Iterable[Any]) -> Any:
    """From 0.8 for controls at their bounds of -1 and 1 to 1 for none: the mean over all motors."""
    each = [tolerance(a, margin=1.0, value_at_margin=0.0, sigmoid="quadratic") for a in action]
    return (4.0 + sum(each) * (1.0 / len(each))) * 0.2


def product(values: Iterable[Any]) -> Any:
    """Of all of them."""
    return reduce(mul, values)
