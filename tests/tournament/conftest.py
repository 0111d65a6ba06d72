"""Leaderboards on SQLite and on a real PostgreSQL, and agents to submit."""

import pytest
from postgres import postgres

from slipstream.tournament.leaderboard import Leaderboard, Submission


@pytest.fixture(scope="module")
def server():
    with postgres() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """Of an empty database, of either kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/leaderboard.sqlite"
        return
    server = request.getfixturevalue("server")
    yield server.url
    import sqlalchemy as sa

    from slipstream.tournament.schema import tables

    engine = sa.create_engine(server.url)
    tables.drop_all(engine)
    engine.dispose()


@pytest.fixture
def board(url):
    made = Leaderboard(url, create=True)
    yield made
    made.close()


@pytest.fixture
def submission():
    """`submission(board, score, **fields)`: of a new agent in a pod."""

    def make(board: Leaderboard, score: float, pod: str = "pod-0", **fields) -> Submission:
        agent, epoch = board.begin(pod)
        usual = dict(pool="cart", parent=None, algo="ppo", settings={"learning_rate": 0.1}, seed=1, steps=10, age=30)
        usual |= dict(seconds=1.5, standard_error=0.5, episodes=20, weights=f"/weights/{agent}", checksum="c" * 64)
        return Submission(id=agent, score=score, pod=pod, epoch=epoch, **{**usual, **fields})

    return make
