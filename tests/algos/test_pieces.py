"""Sums over many lanes, a piece at a time."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rollouts import LANES, SMALL, STEPS, algorithm, learn, new_learner, new_rollout

from slipstream.algos.pieces import in_pieces
from slipstream.algos.settings import A2CConfig, PPOConfig


@pytest.mark.parametrize("lanes", [3, 4, 8, 12, 13])
def test_sums_and_what_is_kept_by_lane_do_not_depend_on_the_pieces(lanes, monkeypatch):
    monkeypatch.setattr("slipstream.algos.pieces.PIECE", 2)
    monkeypatch.setattr("slipstream.algos.pieces.NUMBERS", 12)
    sizes = []

    def function(inputs):
        a, b = inputs
        sizes.append(a.shape[-1])
        return {"sum": (a * b).sum(axis=-1)}, (a - b, b)

    a = jnp.arange(2 * lanes, dtype=jnp.float32).reshape(2, lanes)
    b = jnp.arange(lanes, dtype=jnp.float32)
    sums, (difference, kept) = in_pieces(function, (a, b), (2, 3))
    np.testing.assert_allclose(sums["sum"], (a * b).sum(axis=-1), rtol=1e-6)
    np.testing.assert_array_equal(difference, a - b)
    np.testing.assert_array_equal(kept, b)
    assert set(sizes) == ({4} if lanes in (8, 12) else {lanes})


@pytest.mark.parametrize(
    "config", [PPOConfig(minibatches=1, epochs=2, **SMALL), A2CConfig(**SMALL)], ids=["ppo", "a2c"]
)
@pytest.mark.parametrize("masked", [False, True])
def test_a_gradient_in_pieces_is_the_gradient_at_once(config, masked, monkeypatch):
    learner = new_learner(config)
    mask = np.arange((STEPS + 1) * 3 * LANES).reshape(STEPS + 1, 3, LANES) % 4 > 0 if masked else None
    rollout = new_rollout(learner, 1, mask=mask)
    at_once = learn(config, learner, rollout)
    monkeypatch.setattr("slipstream.algos.pieces.PIECE", 4)
    monkeypatch.setattr("slipstream.algos.pieces.NUMBERS", 1)
    pieces = algorithm.__wrapped__(config).update(learner, rollout, elapsed=0.0, key=jax.random.key(1))
    for a, b in zip(jax.tree.leaves(at_once), jax.tree.leaves(pieces), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
