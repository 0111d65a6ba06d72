"""Distributions over actions, compared with their closed forms in NumPy."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from slipstream.nets.distributions import Categorical, Gaussian, distribution_for
from slipstream.spaces import Box, Discrete, MultiDiscrete

RNG = np.random.default_rng(0)
TWO = Categorical((2, 3))
LOGITS = RNG.normal(size=(5, 4)).astype(np.float32) * 2


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x.astype(np.float64) - x.max(axis=0))
    return e / e.sum(axis=0)


def all_actions(lanes: int) -> list[np.ndarray]:
    pairs = itertools.product(range(2), range(3))
    return [np.repeat(np.array(p, np.int32)[:, None], lanes, axis=1) for p in pairs]


def test_log_prob_of_independent_choices_is_the_sum_of_their_logarithms():
    first, second = softmax(LOGITS[:2]), softmax(LOGITS[2:])
    for action in all_actions(4):
        expected = np.log(first[action[0, 0]]) + np.log(second[action[1, 0]])
        np.testing.assert_allclose(TWO.log_prob(LOGITS, action), expected, rtol=1e-5)


def test_probabilities_of_all_choices_sum_to_one():
    total = sum(np.exp(TWO.log_prob(LOGITS, a)) for a in all_actions(4))
    np.testing.assert_allclose(total, 1.0, rtol=1e-6)


def test_entropy_of_choices_is_the_expected_surprise():
    surprise = [np.exp(lp) * lp for lp in (np.asarray(TWO.log_prob(LOGITS, a)) for a in all_actions(4))]
    np.testing.assert_allclose(TWO.entropy(LOGITS), -sum(surprise), rtol=1e-5)


def test_choices_are_sampled_as_often_as_they_are_likely():
    lanes = 40_000
    logits = jnp.repeat(jnp.asarray(LOGITS[:, :1]), lanes, axis=1)
    sample = np.asarray(TWO.sample(logits, key=jax.random.key(1)))
    assert sample.dtype == np.int32 and sample.shape == (2, lanes)
    for row, p in zip(sample, (softmax(LOGITS[:2, 0]), softmax(LOGITS[2:, 0]))):
        frequency = np.bincount(row, minlength=len(p)) / lanes
        assert np.all(np.abs(frequency - p) < 5 * np.sqrt(p * (1 - p) / lanes))


def test_components_are_sampled_independently():
    lanes = 40_000
    first, second = np.asarray(Categorical((2, 2)).sample(jnp.zeros((4, lanes)), key=jax.random.key(2)))
    assert abs(np.mean(first == second) - 0.5) < 5 * 0.5 / math.sqrt(lanes)


def test_the_mode_is_the_likeliest_choice_of_each_component():
    expected = [LOGITS[:2].argmax(axis=0), LOGITS[2:].argmax(axis=0)]
    np.testing.assert_array_equal(TWO.mode(LOGITS), expected)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_a_masked_choice_has_no_probability_and_is_never_sampled(scale):
    lanes = 20_000
    mask = jnp.asarray([[True], [False], [True], [False], [True]]).repeat(lanes, axis=1)
    # What is forbidden is what the network likes best.
    logits = TWO.masked(jnp.where(mask, -scale, scale), mask)
    sample = np.asarray(TWO.sample(logits, key=jax.random.key(3)))
    assert set(np.unique(sample[0])) == {0} and set(np.unique(sample[1])) == {0, 2}
    forbidden = jnp.asarray([[1], [0]]).repeat(lanes, axis=1)
    assert np.all(np.exp(TWO.log_prob(logits, forbidden)) == 0.0)
    assert set(np.unique(TWO.mode(logits)[0])) == {0}
    np.testing.assert_allclose(TWO.entropy(logits), math.log(2), rtol=1e-5)


def test_masking_renormalises_what_is_left():
    mask = np.array([[True, True, True, False, True]]).T.repeat(4, axis=1)
    masked = TWO.masked(jnp.asarray(LOGITS), jnp.asarray(mask))
    expected = softmax(LOGITS[[2, 4]])
    got = [np.exp(TWO.log_prob(masked, np.array([[0], [c]]).repeat(4, axis=1))) for c in (0, 2)]
    np.testing.assert_allclose(np.stack(got) / softmax(LOGITS[:2])[0], expected, rtol=1e-5)


def test_gradients_through_a_mask_are_finite_and_zero_for_what_is_masked():
    mask = jnp.asarray([[True], [False], [True], [True], [True]])

    def total(x):
        masked = TWO.masked(x, mask)
        return (TWO.log_prob(masked, jnp.zeros((2, 1), jnp.int32)) + TWO.entropy(masked)).sum()

    gradient = np.asarray(jax.grad(total)(jnp.asarray(LOGITS[:, :1])))
    assert np.all(np.isfinite(gradient)) and gradient[1, 0] == 0.0 and np.any(gradient[2:] != 0.0)


def gaussian_case() -> tuple[Gaussian, np.ndarray, np.ndarray, np.ndarray]:
    mean, log_std = RNG.normal(size=(2, 3)), RNG.normal(size=(2, 3)) * 0.5
    parameters = np.concatenate([mean, log_std]).astype(np.float32)
    return Gaussian(2, (-1.0, -1.0), (1.0, 1.0)), parameters, mean, np.exp(log_std)


def test_gaussian_log_prob_is_the_density_in_closed_form():
    g, parameters, mean, std = gaussian_case()
    x = RNG.normal(size=(2, 3))
    density = np.exp(-0.5 * ((x - mean) / std) ** 2) / (std * math.sqrt(2 * math.pi))
    np.testing.assert_allclose(g.log_prob(parameters, x), np.log(density).sum(axis=0), rtol=1e-4)


def test_gaussian_density_integrates_to_one():
    g = Gaussian(1, (-1.0,), (1.0,))
    x = np.linspace(-8, 8, 4001)
    parameters = np.stack([np.full_like(x, 0.3), np.full_like(x, -0.2)])
    density = np.exp(np.asarray(g.log_prob(parameters, x[None]), np.float64))
    assert np.trapezoid(density, x) == pytest.approx(1.0, abs=1e-5)


def test_gaussian_entropy_is_its_closed_form():
    g, parameters, _, std = gaussian_case()
    expected = np.log(std * math.sqrt(2 * math.pi * math.e)).sum(axis=0)
    np.testing.assert_allclose(g.entropy(parameters), expected, rtol=1e-5)


def test_gaussian_samples_have_the_mean_and_deviation_asked_for():
    lanes = 40_000
    g = Gaussian(2, (-1.0, -1.0), (1.0, 1.0))
    parameters = jnp.repeat(jnp.asarray([[2.0], [-1.0], [0.0], [-1.0]]), lanes, axis=1)
    sample = np.asarray(g.sample(parameters, key=jax.random.key(4)))
    std = np.exp([0.0, -1.0])
    np.testing.assert_allclose(sample.mean(axis=1), [2.0, -1.0], atol=5 / math.sqrt(lanes))
    np.testing.assert_allclose(sample.std(axis=1), std, rtol=0.02)
    assert abs(np.corrcoef(sample)[0, 1]) < 5 / math.sqrt(lanes)
    np.testing.assert_array_equal(g.mode(parameters)[:, 0], [2.0, -1.0])


def test_to_env_spans_the_bounds_and_clips_to_them():
    g = distribution_for(Box(2, (-2.0, 0.0), (2.0, 10.0)))
    inside = np.asarray(g.to_env(jnp.asarray([[-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0]])))
    np.testing.assert_allclose(inside, [[-2.0, 0.0, 2.0], [0.0, 5.0, 10.0]])
    outside = np.asarray(g.to_env(jnp.asarray([[-1.5, 9.0], [-1.5, 9.0]])))
    np.testing.assert_allclose(outside, [[-2.0, 2.0], [0.0, 10.0]])


def test_to_env_leaves_unbounded_components_as_they_are():
    g = distribution_for(Box(3, (-math.inf, 0.0, -4.0), (math.inf, math.inf, 4.0)))
    got = np.asarray(g.to_env(jnp.asarray([[7.0, -7.0], [7.0, -7.0], [0.5, -7.0]])))
    np.testing.assert_allclose(got, [[7.0, -7.0], [7.0, 0.0], [2.0, -4.0]])


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (Discrete(3), Categorical((3,))),
        (MultiDiscrete((2, 3)), TWO),
        (Box(2, -1.0, 1.0), Gaussian(2, (-1.0, -1.0), (1.0, 1.0))),
    ],
)
def test_a_space_has_its_distribution(space, expected):
    assert distribution_for(space) == expected


def test_choices_reach_the_world_unchanged():
    action = jnp.asarray([[0, 1], [2, 0]])
    assert TWO.to_env(action) is action
