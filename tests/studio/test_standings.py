"""The leaderboard on the page: the best first, and where they came from."""

import sqlite3

import pytest

from slipstream.studio.standings import DATABASE, best_so_far, line_of, read_agents, standings_text

AGENTS = [
    (1, "000001", "cat", None, "ppo", '{"learning_rate": 0.001}', 100, 1.0, 0.1),
    (2, "000002", "cat", None, "ppo", "{}", 100, 3.0, 0.1),
    (3, "000003", "cat", "000001", "ppo", '{"a|b_c": 1}', 200, 5.0, 0.1),
    (4, "000004", "mouse", None, "sac", "{}", 100, -1.0, 0.1),
    (5, "000005", "cat", "000003", "ppo", "{}", 300, 4.0, 0.1),
]


@pytest.fixture
def folder(tmp_path):
    with sqlite3.connect(tmp_path / DATABASE) as c:
        c.execute(
            "CREATE TABLE slipstream_submissions (number INTEGER, id TEXT, pool TEXT, parent TEXT, algo TEXT, "
            "settings TEXT, age INTEGER, score REAL, standard_error REAL, pod TEXT)"
        )
        c.executemany("INSERT INTO slipstream_submissions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'pod')", AGENTS)
    c.close()
    return tmp_path


def test_the_best_of_each_pool_is_first_and_its_line_is_told(folder):
    agents = read_agents(folder)
    assert agents is not None and len(agents) == 5
    cats, mice = standings_text(agents).split("\n\n**")
    assert "4 agents. The first one's line: 000001 → 000003" in cats and mice.startswith("mouse**: 1 agents")
    ranked = [line.split(" | ")[1] for line in cats.splitlines() if line.startswith("| ") and line[2].isdigit()]
    assert ranked == ["000003", "000005", "000002", "000001"]
    assert "It has ppo a\\|b\\_c=1." in cats
    assert [a.id for a in line_of(agents, agents[-1])] == ["000001", "000003", "000005"]
    assert best_so_far(agents) == ([1.0, 2.0, 3.0, 5.0], [1.0, 3.0, 5.0, 4.0], [1.0, 3.0, 5.0, 5.0])


def test_no_tournament_and_a_damaged_one_are_told_apart(tmp_path):
    assert read_agents(tmp_path) is None
    (tmp_path / DATABASE).write_bytes(b"not a database at all, but long enough to be looked at" * 30)
    with pytest.raises(OSError, match=r"leaderboard.sqlite cannot be read"):
        read_agents(tmp_path)
    assert standings_text([]) == "*Nobody has been submitted yet.*"
