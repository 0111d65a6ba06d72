"""The leaderboard ranks, and keeps what it has acknowledged."""

import dataclasses
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from slipstream.tournament import schema
from slipstream.tournament.leaderboard import Fenced, Leaderboard, LeaderboardError, Match, Submission


def test_ranks_follow_scores_and_those_who_came_first(board, submission):
    scores = [3.0, 1.0, 2.0, 3.0, -1.0]
    entries = [board.submit(submission(board, score)) for score in scores]
    expected = sorted(range(5), key=lambda i: (-scores[i], i))
    assert [e.id for e in board.top("cart", 10)] == [entries[i].id for i in expected]
    assert [board.rank(entries[i].id) for i in expected] == [1, 2, 3, 4, 5]
    assert board.rank_of("cart", 2.5) == 3 and board.rank_of("cart", 3.0) == 3
    assert board.top("cart", 2) == [entries[0], entries[3]]
    assert board.count("cart") == 5 and board.count("horse") == 0 and board.pools() == ["cart"]
    assert board.history() == entries and board.history(after=3) == entries[3:]


def test_a_submission_comes_back_as_it_was(board, submission):
    given = submission(
        board, 1 / 3, parent="000007", settings={"hidden": [8, 8], "memory": "none"}, times={"save": 0.2}
    )
    entry = board.submit(given)
    assert Submission(**{f.name: getattr(entry, f.name) for f in dataclasses.fields(Submission)}) == given
    assert board.entry(given.id) == entry and board.entry("000099") is None
    assert abs(entry.submitted - time.time()) < 60


def test_pools_are_ranked_apart(board, submission):
    for pool, score in (("tagger", 1.0), ("runner", 5.0), ("tagger", 2.0)):
        board.submit(submission(board, score, pool=pool))
    assert [e.score for e in board.top("tagger", 5)] == [2.0, 1.0]
    assert board.rank_of("tagger", 4.0) == 1


def test_the_same_submission_again_changes_nothing(board, submission):
    given = submission(board, 1.0)
    assert board.submit(given) == board.submit(given)
    assert board.count() == 1


def test_no_two_agents_share_an_id(board, submission):
    given = submission(board, 1.0)
    board.submit(given)
    _, epoch = board.begin("pod-1")
    with pytest.raises(LeaderboardError, match="already is another agent 000001"):
        board.submit(dataclasses.replace(given, pod="pod-1", epoch=epoch))


def test_a_pod_that_was_declared_dead_comes_too_late(board, submission):
    late, later, latest = (submission(board, 1.0, pod) for pod in ("pod-0", "pod-1", "pod-2"))
    board.declare_dead("pod-0")
    board.begin("pod-1")  # it has been given something else to do
    for given in (late, later):
        assert not board.may_submit(given.pod, given.epoch)
        with pytest.raises(Fenced, match="too late"):
            board.submit(given)
    assert board.at_work() == {"pod-1": "000004", "pod-2": "000003"}
    board.declare_all_dead()
    with pytest.raises(Fenced):
        board.submit(latest)
    assert board.count() == 0 and board.control().agents == 4


def test_only_the_best_keep_their_weights(board, submission):
    entries = [board.submit(submission(board, score)) for score in (3.0, 1.0, 2.0, 4.0)]
    gone = board.retire("cart", keep=2)
    assert {e.id for e in gone} == {entries[1].id, entries[2].id} and all(e.weights for e in gone)
    assert {e.id for e in board.kept()} == {entries[0].id, entries[3].id}
    assert [e.score for e in board.top("cart", 9)] == [4.0, 3.0, 2.0, 1.0]
    assert [e.score for e in board.top("cart", 9, kept_only=True)] == [4.0, 3.0]
    assert board.retire("cart", keep=2) == []


def test_scores_that_come_from_matches_change_ranks(board, submission):
    a, b = (board.submit(submission(board, score)) for score in (2.0, 1.0))
    played = [Match("cart", e.id, {"horse": "x"}, r, {"horse": -r}, 8) for e, r in ((a, 0.5), (b, 1.5))]
    board.record_matches(played)
    board.rescore({a.id: (0.5, 0.1), b.id: (1.5, 0.1)})
    assert [e.id for e in board.top("cart", 2)] == [b.id, a.id]
    assert board.matches() == played and board.matches([b.id]) == played[1:]


def test_what_is_wanted_of_a_tournament_is_kept(url, board):
    board.change(pods=4, paused=True, elapsed=12.5)
    again = Leaderboard(url)
    wanted = again.control()
    again.close()
    assert (wanted.pods, wanted.paused, wanted.stopping, wanted.elapsed) == (4, True, False, 12.5)


def test_fifty_pods_submitting_at_once_lose_nothing(url, board):
    each, failures = 4, []

    def submit(number: int) -> None:
        try:
            own = Leaderboard(url)
            for i in range(each):
                agent, epoch = own.begin(f"pod-{number}")
                usual = dict(algo="ppo", settings={}, seed=i, steps=1, age=1, seconds=1.0, standard_error=0.1)
                usual |= dict(episodes=9, weights=None, checksum=None)
                score = float(number)
                own.submit(Submission(agent, "cart", None, score=score, pod=f"pod-{number}", epoch=epoch, **usual), 60)
            own.close()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=submit, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    entries = board.history()
    assert len(entries) == 50 * each == len({e.id for e in entries}) == len({e.epoch for e in entries})
    assert sorted(e.score for e in entries) == sorted(float(n) for n in range(50) for _ in range(each))


SUBMIT_FOREVER = """
import sys
from slipstream.tournament.leaderboard import Leaderboard, Submission
board = Leaderboard(sys.argv[1])
while True:
    agent, epoch = board.begin(sys.argv[2])
    facts = dict(algo="ppo", settings={}, seed=0, steps=1, age=1, seconds=1.0, score=float(agent), standard_error=0.1)
    facts |= dict(episodes=2, weights=None, checksum=None, pod=sys.argv[2], epoch=epoch)
    board.submit(Submission(agent, "cart", None, **facts))
    print(agent, flush=True)
"""


def test_what_was_acknowledged_survives_sigkill(url, board):
    acknowledged = set()
    for round in range(2):
        pods = [
            subprocess.Popen([sys.executable, "-c", SUBMIT_FOREVER, url, f"pod-{i}"], stdout=subprocess.PIPE, text=True)
            for i in range(2)
        ]
        for pod in pods:
            for _ in range(20 + 7 * round):
                acknowledged.add(pod.stdout.readline().strip())
        for pod in pods:
            os.kill(pod.pid, signal.SIGKILL)
        for pod in pods:
            acknowledged |= {line for line in pod.communicate()[0].splitlines() if len(line) == 6}
    present = [e.id for e in board.history()]
    assert len(acknowledged) > 80 and acknowledged <= set(present) and len(present) == len(set(present))
    assert [e.score for e in board.top("cart", 1000)] == sorted((float(i) for i in present), reverse=True)


def test_what_was_acknowledged_survives_the_death_of_the_server(server, submission):
    board = Leaderboard(server.url, create=True)
    first = board.submit(submission(board, 1.0))
    second = submission(board, 2.0)
    server.kill()
    with pytest.raises(LeaderboardError, match="cannot be reached"):
        board.count()
    waiting = threading.Timer(0.5, server.start)
    waiting.start()
    entry = board.submit(second, patience=60)  # goes on trying
    waiting.join()
    assert board.history() == [first, entry]
    board.close()
    engine = sa.create_engine(server.url)
    schema.tables.drop_all(engine)
    engine.dispose()


def test_a_hundred_thousand_submissions_are_ranked_by_index(tmp_path):
    board = Leaderboard(f"sqlite:///{tmp_path}/big.sqlite", create=True)
    usual = dict(pool="cart", algo="ppo", settings={}, seed=0, steps=1, age=1, seconds=1.0, standard_error=0.1)
    usual |= dict(episodes=2, pod="pod-0", epoch=0, submitted=0.0, times={})
    rows = [{**usual, "id": str(i), "score": (i * 7919) % 100_003 / 1.0, "weights": None} for i in range(100_000)]
    with board.database.writing() as c:
        c.execute(schema.submissions.insert(), rows)
    best = sorted(rows, key=lambda row: -row["score"])
    assert [e.id for e in board.top("cart", 5)] == [row["id"] for row in best[:5]]
    assert board.rank(best[49_999]["id"]) == 50_000
    with sqlite3.connect(board.database.file) as c:
        for query in (
            "SELECT count(*) FROM slipstream_submissions WHERE pool = 'cart' AND score > 5",
            "SELECT * FROM slipstream_submissions WHERE pool = 'cart' ORDER BY score DESC, number LIMIT 5",
            "SELECT id FROM slipstream_submissions WHERE pool = 'cart' AND weights IS NOT NULL ORDER BY score DESC",
        ):
            plan = " ".join(row[3] for row in c.execute(f"EXPLAIN QUERY PLAN {query}"))
            assert "INDEX slipstream_" in plan and "TEMP B-TREE" not in plan, plan


def test_a_commit_reaches_the_disk(tmp_path):
    board = Leaderboard(f"sqlite:///{tmp_path}/leaderboard.sqlite", create=True)
    with board.database.reading() as c:
        assert c.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert c.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL


def test_a_database_of_another_version_is_refused(url, board):
    with board.database.writing() as c:
        c.execute(schema.facts.update().values(value="7"))
    for create in (False, True):
        with pytest.raises(LeaderboardError, match=r"is of version 7; this version of Slipstream reads 1"):
            Leaderboard(url, create=create)


@pytest.mark.parametrize(
    ("made", "url", "message"),
    [
        (None, "sqlite:///{}/none.sqlite", "There is no leaderboard"),
        ("text", "sqlite:///{}/file", "is damaged, or no leaderboard"),
        ("empty", "sqlite:///{}/file", "has no leaderboard in it"),
        (None, "nonsense", "'nonsense' is no database's address"),
        (None, "nosuch://host/name", "There is no driver for nosuch://host/name"),
        (None, "postgresql+psycopg://u:secret@127.0.0.1:1/db", r"postgresql\+psycopg://u:\*\*\*@.* cannot be reached"),
    ],
)
def test_what_is_no_leaderboard_is_a_clear_error(tmp_path, made, url, message):
    if made:
        Path(tmp_path / "file").write_text("no database " * 100 if made == "text" else "")
    with pytest.raises(LeaderboardError, match=message):
        Leaderboard(url.format(tmp_path))


def test_a_locked_database_is_a_clear_error(tmp_path, monkeypatch):
    monkeypatch.setattr(schema, "PATIENCE", 0.2)
    url = f"sqlite:///{tmp_path}/leaderboard.sqlite"
    board = Leaderboard(url, create=True)
    with sqlite3.connect(tmp_path / "leaderboard.sqlite", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        board.control()  # readers do not wait
        with pytest.raises(LeaderboardError, match="has been locked by another process"):
            board.change(paused=True)


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_a_score_that_is_no_number_is_refused(board, submission, score):
    with pytest.raises(LeaderboardError, match="cannot be ranked"):
        board.submit(submission(board, score))
    assert board.count() == 0
