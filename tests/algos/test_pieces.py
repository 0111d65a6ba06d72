"""Sums over many lanes, a piece at a time."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from slipstream.algos.pieces import in_pieces


@pytest.mark.parametrize("lanes", [3, 4, 8, 12, 13])
def test_sums_and_what_is_kept_by_lane_do_not_depend_on_the_pieces(lanes, monkeypatch):
    monkeypatch.setattr("slipstream.algos.pieces.PIECE", 4)
    sizes = []

    def function(inputs):
        a, b = inputs
        sizes.append(a.shape[-1])
        return {"sum": (a * b).sum(axis=-1)}, (a - b, b)

    a = jnp.arange(2 * lanes, dtype=jnp.float32).reshape(2, lanes)
    b = jnp.arange(lanes, dtype=jnp.float32)
    sums, (difference, kept) = in_pieces(function, (a, b))
    np.testing.assert_allclose(sums["sum"], (a * b).sum(axis=-1), rtol=1e-6)
    np.testing.assert_array_equal(difference, a - b)
    np.testing.assert_array_equal(kept, b)
    assert set(sizes) == ({4} if lanes in (8, 12) else {lanes})
