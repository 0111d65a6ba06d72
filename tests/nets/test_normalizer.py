"""Running statistics of observations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.nets.normalizer import Normalizer

FEATURES = 3


def batch(seed: int, steps: int, lanes: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    scale = rng.uniform(0.1, 10.0, size=(1, FEATURES, 1))
    return (rng.normal(size=(steps, FEATURES, lanes)) * scale + rng.normal(size=(1, FEATURES, 1)) * 5).astype(
        np.float32
    )


def samples(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """What counts, `[features, samples]`."""
    return np.moveaxis(x, 1, 0)[:, weight > 0]


merge = jax.jit(Normalizer.merge)


@settings(max_examples=40, deadline=None)
@given(shares=st.lists(st.sampled_from([0.0, 0.05, 0.5, 1.0]), min_size=1, max_size=5), seed=st.integers(0, 10_000))
def test_merging_batches_gives_the_statistics_of_all_that_counted(shares, seed):
    rng = np.random.default_rng(seed)
    normalizer, seen = Normalizer.create(FEATURES), []
    for i, share in enumerate(shares):
        x = batch(seed + i, 3, 5)
        weight = (rng.random((3, 5)) < share).astype(np.float32)
        normalizer = merge(normalizer, x, weight)
        seen.append(samples(x, weight))
    everything = np.concatenate(seen, axis=1).astype(np.float64)
    assert float(normalizer.count) == everything.shape[1]
    if everything.shape[1]:
        scale = np.abs(everything).max()
        np.testing.assert_allclose(normalizer.mean, everything.mean(axis=1), rtol=1e-4, atol=1e-5 * scale)
        np.testing.assert_allclose(normalizer.variance, everything.var(axis=1), rtol=1e-3, atol=1e-5 * scale**2)


def test_what_has_no_weight_changes_no_bit():
    x = batch(1, 4, 6)
    weight = np.ones((4, 6), np.float32)
    weight[:, 3:] = 0.0
    other = x.copy()
    other[:, :, 3:] = 1e6
    a, b = (Normalizer.create(FEATURES).merge(jnp.asarray(v), jnp.asarray(weight)) for v in (x, other))
    for field in ("count", "mean", "variance"):
        np.testing.assert_array_equal(getattr(a, field), getattr(b, field))


def test_a_batch_in_which_nothing_counts_leaves_everything_as_it_was():
    before = Normalizer.create(FEATURES).merge(jnp.asarray(batch(2, 3, 4)), jnp.ones((3, 4)))
    after = before.merge(jnp.asarray(batch(3, 3, 4)), jnp.zeros((3, 4)))
    for field in ("count", "mean", "variance"):
        np.testing.assert_array_equal(getattr(before, field), getattr(after, field))


def test_a_fresh_normalizer_changes_nothing_and_clips_at_ten():
    x = jnp.asarray([[0.5, -20.0], [3.0, 20.0], [-1.0, 0.0]])
    np.testing.assert_allclose(Normalizer.create(FEATURES)(x), np.clip(x, -10, 10), rtol=1e-6)


def test_normalised_observations_have_zero_mean_and_unit_variance():
    x = batch(4, 8, 500)
    normalizer = Normalizer.create(FEATURES).merge(jnp.asarray(x), jnp.ones((8, 500)))
    scaled = np.asarray(normalizer(jnp.asarray(np.moveaxis(x, 0, 1).reshape(FEATURES, -1))))
    np.testing.assert_allclose(scaled.mean(axis=1), 0.0, atol=1e-3)
    np.testing.assert_allclose(scaled.std(axis=1), 1.0, rtol=1e-3)


def test_a_feature_that_never_changes_stays_finite():
    x = jnp.full((2, FEATURES, 4), 7.0)
    normalizer = Normalizer.create(FEATURES).merge(x, jnp.ones((2, 4)))
    assert np.asarray(normalizer(x[0])) == pytest.approx(0.0, abs=1e-3)


def test_a_feature_that_first_varies_after_long_does_not_explode():
    """Heights ahead are 0 for a million samples; then a few are 0.2."""
    level = jnp.zeros((10, FEATURES, 100_000))
    normalizer = Normalizer.create(FEATURES).merge(level, jnp.ones((10, 100_000)))
    step = jnp.asarray([[0.2], [0.0], [-0.3]])
    np.testing.assert_allclose(normalizer(step), step, atol=1e-6, err_msg="what never varied is not scaled")
    rough = jnp.zeros((1, FEATURES, 1000)).at[0, :, :5].set(0.2)
    normalizer = normalizer.merge(rough, jnp.ones((1, 1000)))
    assert np.abs(np.asarray(normalizer(step))).max() < 2.0
    assert np.abs(np.asarray(normalizer(step)))[0] == pytest.approx(1.0, rel=0.05)


def test_what_is_usual_is_of_those_who_count():
    x = np.full((2, FEATURES, 4), 7.0, np.float32)
    x[:, :, 0] = 1e6
    weight = np.ones((2, 4), np.float32)
    weight[:, 0] = 0.0
    normalizer = Normalizer.create(FEATURES).merge(jnp.asarray(x), jnp.asarray(weight))
    np.testing.assert_array_equal(normalizer.usual, 7.0)
    np.testing.assert_array_equal(normalizer.varied, 0.0)
