"""What critics put out: expectations, and distributions whose targets are exact where that can be said."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.algos.heads import Expectation, Histogram, combined

HEAD = Histogram(-10.0, 10.0, 41)


def distribution(seed: int, lanes: int = 6) -> jax.Array:
    return HEAD.distribution(jax.random.normal(jax.random.key(seed), (HEAD.outputs, lanes)))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.floats(-3.0, 3.0), st.floats(0.0, 0.6))
def test_moving_a_distribution_moves_its_mean_and_keeps_its_mass(seed: int, shift: float, scale: float):
    before = distribution(seed)
    after = HEAD.target(before, jnp.full(6, shift), jnp.full(6, scale))
    np.testing.assert_allclose(after.sum(axis=0), 1.0, atol=1e-5)
    assert (after >= 0).all()
    # Nothing leaves the range, so the mean is exact.
    np.testing.assert_allclose(HEAD.mean(after), shift + scale * HEAD.mean(before), atol=1e-4)


def test_returns_beyond_the_range_are_counted_at_its_ends():
    after = HEAD.target(distribution(0), jnp.full(6, 99.0), jnp.zeros(6))
    assert after[-1].tolist() == pytest.approx([1.0] * 6)


def test_an_unchanged_distribution_is_its_own_target_and_has_the_least_error():
    logits = jax.random.normal(jax.random.key(1), (HEAD.outputs, 6))
    before = HEAD.distribution(logits)
    after = HEAD.target(before, jnp.zeros(6), jnp.ones(6))
    np.testing.assert_allclose(after, before, atol=1e-5)
    gradient = jax.grad(lambda out: HEAD.error(out, before).sum())(logits)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-6)


@pytest.mark.parametrize("head", [Expectation(), HEAD])
def test_the_least_of_several_critics_is_taken_whole_and_their_mean_is_between(head):
    out = jax.random.normal(jax.random.key(2), (3, head.outputs, 6)) * 3.0
    distributions = head.distribution(out)
    means = head.mean(distributions)
    np.testing.assert_allclose(head.mean(combined(head, distributions, "min")), means.min(axis=0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        head.mean(combined(head, distributions, "mean")), means.mean(axis=0), rtol=1e-3, atol=1e-4
    )
