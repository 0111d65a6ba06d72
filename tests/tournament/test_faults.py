"""Pods, nodes, drivers, the leaderboard's server and the head are killed; what was acknowledged stays."""

import pytest
from chaos import Chaos
from soaking import soak


@pytest.fixture(autouse=True)
def own_environment(monkeypatch):
    """What is set for processes that are started goes when the test is over."""
    import os

    from slipstream.tournament import tournament

    for name in ("DRIVER", "PAUSE"):
        monkeypatch.setattr(tournament, name, getattr(tournament, name))
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def test_a_pod_a_node_and_the_driver_are_killed_and_nothing_is_lost(tmp_path):
    chaos = Chaos(tmp_path, pods=2, nodes=1)
    try:
        chaos.start_cluster()
        with chaos.mended():
            chaos.wait_for(3)
            for what in ("pod", "node", "driver"):
                assert chaos.kill(what)
                chaos.wait_for(1)
        chaos.finish()
        assert chaos.check()["acknowledged"] >= 6
    finally:
        chaos.end_all()


@pytest.mark.slow
def test_everything_is_killed_again_and_again(tmp_path):
    weights = {"pod": 6, "node": 2, "driver": 2, "leaderboard": 1, "head": 0.5}
    found = soak(tmp_path, 40, pods=3, nodes=2, weights=weights)
    assert found["kills"] == 40 and found["enough"]
