"""Worlds that begin at different points of their time limit."""

import numpy as np
import pytest
from small_worlds import Drift, Fragile

from slipstream.envs import Worlds, make
from slipstream.envs.clock import staggered_steps

every_backend = pytest.mark.parametrize("backend", ["llvm", "scalar"])


@pytest.mark.parametrize(("first", "count"), [(0, 10), (0, 1000), (777, 64), (2**31, 500)])
def test_any_part_of_the_worlds_is_spread_over_the_time_limit(first, count):
    steps = np.sort(staggered_steps(first, count, 100))
    assert steps.min() >= 0 and steps.max() < 100
    even = np.arange(count) * 100 / count
    assert np.abs(steps - even).max() <= 100 * 3 / count + 1  # as even as it gets, but for a few places
    np.testing.assert_array_equal(np.sort(staggered_steps(first, count, 100)), steps)


@every_backend
def test_episodes_end_one_after_the_other(backend):
    worlds = Worlds(Drift(), 10, backend=backend, stagger=True)
    assert worlds.get_state()["step"].tolist() == staggered_steps(0, 10, 10).tolist()
    ended = [int(np.asarray(worlds.step(np.zeros((1, 10), np.float32)).truncated).sum()) for _ in range(20)]
    assert max(ended) <= 2 and sum(ended[:10]) == 10
    assert ended[:10] == ended[10:]


@every_backend
def test_a_worlds_place_depends_on_its_number(backend):
    whole, part = (Worlds(Drift(), n, backend=backend, first_world=f, stagger=True) for n, f in ((8, 0), (4, 4)))
    np.testing.assert_array_equal(part.get_state()["step"], whole.get_state()["step"][4:])


@every_backend
def test_a_seed_staggers_again_and_a_plain_reset_does_not(backend):
    worlds = Worlds(Drift(), 6, backend=backend, stagger=True)
    first = worlds.save()
    for _ in range(3):
        worlds.step(worlds.sample_actions())
    worlds.reset()
    assert not worlds.get_state()["step"].any()
    worlds.reset(seed=0)
    for name, values in worlds.save().items():
        np.testing.assert_array_equal(values, first[name])


def test_staggering_records_nothing_anew():
    worlds = make("cartpole", 6, stagger=True)
    for seed in range(3):
        worlds.step(worlds.sample_actions())
        worlds.reset(seed)
    assert worlds.engine.recordings == 1


def test_worlds_without_a_time_limit_cannot_be_staggered():
    with pytest.raises(ValueError, match="stagger needs a time limit, and Fragile has none"):
        Worlds(Fragile(), 2, stagger=True)
