"""The squashed normal distribution, against numerical integration."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from slipstream.nets import squashed

OUTPUTS = [(0.0, 0.0), (0.8, -1.0), (-2.5, 1.0), (0.3, 30.0), (0.3, -30.0)]


@pytest.mark.parametrize(("mean", "raw"), OUTPUTS)
def test_densities_add_up_to_one_and_are_those_of_the_samples(mean: float, raw: float):
    normal = jnp.linspace(-8.0, 8.0, 20_001)[None]
    outputs = jnp.broadcast_to(jnp.asarray([[mean], [raw]]), (2, normal.size))
    action, log_prob = (np.asarray(a, np.float64) for a in squashed.sample(outputs, normal))
    inside = np.abs(action[0]) < 1 - 1e-5  # beyond, 32-bit numbers do not tell actions apart
    density = np.exp(log_prob)[inside]
    total = np.trapezoid(density, action[0][inside])
    std = np.exp(np.clip(raw - 1.0, -5.0, 1.0))
    edge = np.arctanh(1 - 1e-5)
    expected = np.mean(np.abs(mean + std * np.random.default_rng(0).normal(size=400_000)) < edge)
    assert total == pytest.approx(expected, abs=0.01)


def test_probabilities_far_out_are_finite():
    outputs = jnp.asarray([[50.0, -50.0], [3.0, 3.0]])
    action, log_prob = squashed.sample(outputs, jnp.zeros((1, 2)))
    assert action.tolist() == [[1.0, -1.0]] and np.isfinite(log_prob).all()
    assert squashed.mode(outputs).tolist() == [[1.0, -1.0]]
