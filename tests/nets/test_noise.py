"""Noise is distributed as it should be, and independent wherever it could be used together."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from slipstream.nets.noise import normal, uniform

COUNT = 1 << 20


@pytest.fixture(scope="module")
def numbers() -> np.ndarray:
    return np.asarray(normal(jax.random.key(3), (COUNT,)), np.float64)


def test_moments_are_those_of_a_normal_distribution(numbers: np.ndarray):
    for power, expected in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0), (6, 15.0)):
        samples = numbers**power
        assert abs(samples.mean() - expected) < 5 * samples.std() / COUNT**0.5


def test_uniform_numbers_fill_the_interval_evenly_and_never_touch_its_ends():
    numbers = np.asarray(uniform(jax.random.key(5), (COUNT,)))
    counts, _ = np.histogram(numbers, 256, (-1, 1))
    expected = COUNT / 256
    assert ((counts - expected) ** 2 / expected).sum() < 255 + 6 * (2 * 255) ** 0.5  # chi squared
    assert np.abs(numbers).max() < 1
    assert np.isfinite(normal(jax.random.key(5), (COUNT,))).all()


@pytest.mark.parametrize("lag", [1, 2, 6, 128, 768])
def test_numbers_that_are_used_together_are_not_correlated(numbers: np.ndarray, lag: int):
    for power in (1, 2):
        x = numbers**power
        assert abs(np.corrcoef(x[:-lag], x[lag:])[0, 1]) < 5 / COUNT**0.5


def test_neighbouring_keys_give_independent_numbers():
    root = jax.random.key(0)
    streams = np.stack([np.asarray(normal(jax.random.fold_in(root, i), (1 << 16,))) for i in range(8)])
    correlations = np.corrcoef(streams) - np.eye(8)
    assert np.abs(correlations).max() < 5 / (1 << 16) ** 0.5
