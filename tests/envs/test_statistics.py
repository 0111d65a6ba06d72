"""What is known of the episodes that have ended."""

import numpy as np
import pytest
from small_worlds import Drift, Leaving

from slipstream.envs import Worlds
from slipstream.envs.statistics import EpisodeTotals

every_backend = pytest.mark.parametrize("backend", ["llvm", "scalar"])


def returns_of_an_episode(worlds):
    total = np.zeros(worlds.num_worlds)
    for _ in range(10):
        total += np.asarray(worlds.step(np.zeros((1, worlds.num_worlds), np.float32)).reward)
    return total


@every_backend
def test_statistics_are_means_over_the_episodes_between_two_moments(backend):
    worlds = Worlds(Drift(), 5, backend=backend)
    begin = worlds.episode_totals()
    assert worlds.episode_statistics.episodes == 0 and np.isnan(worlds.episode_statistics.length)
    first = returns_of_an_episode(worlds)
    middle = worlds.episode_totals()
    second = returns_of_an_episode(worlds)
    end = worlds.episode_totals()
    for statistics, returns in (
        (middle.since(begin), first),
        (end.since(middle), second),
        (end.since(begin), np.concatenate([first, second])),
        (worlds.episode_statistics, np.concatenate([first, second])),
    ):
        assert (statistics.episodes, statistics.length) == (len(returns), 10.0)
        assert statistics.returns["point"] == pytest.approx(returns.mean(), rel=1e-5)
        assert statistics.return_std["point"] == pytest.approx(returns.std(), rel=1e-3)
    assert end.since(end).episodes == 0 and np.isnan(end.since(end).returns["point"])


@every_backend
def test_looking_at_the_totals_changes_nothing(backend):
    watched, alone = (Worlds(Leaving(), 3, backend=backend) for _ in range(2))
    for _ in range(9):
        for worlds in (watched, alone):
            worlds.step(worlds.sample_actions())
        assert watched.episode_totals() == watched.episode_totals()
    for name, values in watched.save().items():
        np.testing.assert_array_equal(values, alone.save()[name])


def test_totals_are_exact_after_a_million_episodes():
    """In float32 the sums would by now be too large for the difference of two of them to mean anything."""
    worlds = Worlds(Drift(), 2)
    worlds.engine.set_clock({"return_sum/point": np.full(2, 3e9), "return_square_sum/point": np.full(2, 3e12)})
    earlier = worlds.episode_totals()
    returns = returns_of_an_episode(worlds)
    statistics = worlds.episode_totals().since(earlier)
    assert statistics.returns["point"] == pytest.approx(returns.mean(), rel=1e-4)
    assert statistics.return_std["point"] == pytest.approx(returns.std(), rel=0.05)


@every_backend
def test_every_world_sums_up_what_it_reports(backend):
    worlds = Worlds(Leaving(), 2, backend=backend)
    worlds.set_state(step=[0, 1])
    for _ in range(3):
        worlds.step({"walker": np.zeros(6, int), "watcher": np.zeros(2, int)})
    assert {name: sums.tolist() for name, sums in worlds.report_sums().items()} == {"left": [0.0, 3.0]}
    assert Worlds(Drift(), 2, backend=backend).report_sums() == {}


def test_totals_add_up_all_worlds():
    clock = {"episodes": [1, 2], "length_sum": [10, 30], "broken": [0, 1], "return_sum/a": [1.0, 0.5]}
    clock |= {"return_square_sum/a": [1.0, 0.25], "report_sum/b": [3.0, 4.0], "unpaid/a": [2, 3], "step": [7, 7]}
    totals = EpisodeTotals.of({name: np.array(values) for name, values in clock.items()})
    assert totals == EpisodeTotals(3, 40, {"a": 1.5}, {"a": 1.25}, {"b": 7.0}, 1, {"a": 5})
