"""The tables of a tournament, and how a database with them is opened: any that SQLAlchemy knows."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from slipstream.runs.directory import RunError

T = TypeVar("T")

VERSION = 1
"""Of the tables."""

PATIENCE = 30.0
"""Seconds that a writer waits for others."""

tables = sa.MetaData()

facts = sa.Table(
    "slipstream_facts",
    tables,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
"""The version of the tables."""

control = sa.Table(
    "slipstream_control",
    tables,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("pods", sa.Integer, nullable=False),
    sa.Column("paused", sa.Boolean, nullable=False),
    sa.Column("stopping", sa.Boolean, nullable=False),
    sa.Column("elapsed", sa.Float, nullable=False),
    sa.Column("agents", sa.Integer, nullable=False),
    sa.Column("epoch", sa.Integer, nullable=False),
)
"""A single row: what is wanted of a tournament, how long it has run, how many agents and epochs there were."""

pods = sa.Table(
    "slipstream_pods",
    tables,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("agent", sa.String(64)),
)
"""Who may submit: a pod of another epoch may not."""

submissions = sa.Table(
    "slipstream_submissions",
    tables,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("id", sa.String(64), nullable=False, unique=True),
    sa.Column("pool", sa.String(128), nullable=False),
    sa.Column("parent", sa.String(64)),
    sa.Column("algo", sa.String(32), nullable=False),
    sa.Column("settings", sa.JSON, nullable=False),
    sa.Column("seed", sa.BigInteger, nullable=False),
    sa.Column("steps", sa.BigInteger, nullable=False),
    sa.Column("age", sa.BigInteger, nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("score", sa.Float, nullable=False),
    sa.Column("standard_error", sa.Float, nullable=False),
    sa.Column("episodes", sa.Integer, nullable=False),
    sa.Column("weights", sa.Text),
    sa.Column("checksum", sa.String(64)),
    sa.Column("pod", sa.String(64), nullable=False),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("submitted", sa.Float, nullable=False),
    sa.Column("times", sa.JSON, nullable=False),
)
sa.Index("slipstream_ranking", submissions.c.pool, submissions.c.score.desc(), submissions.c.number)
# The few that have weights, without looking at the many that have none.
sa.Index(
    "slipstream_kept",
    submissions.c.pool,
    submissions.c.score.desc(),
    submissions.c.number,
    sqlite_where=submissions.c.weights.isnot(None),
    postgresql_where=submissions.c.weights.isnot(None),
)

matches = sa.Table(
    "slipstream_matches",
    tables,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("pool", sa.String(128), nullable=False),
    sa.Column("agent", sa.String(64), nullable=False, index=True),
    sa.Column("others", sa.JSON, nullable=False),
    sa.Column("score", sa.Float, nullable=False),
    sa.Column("against", sa.JSON, nullable=False),
    sa.Column("episodes", sa.Integer, nullable=False),
)
"""What an agent earned with others around it: a row for each of those who played."""


class LeaderboardError(RunError):
    """Something is wrong with the database of a tournament; the message says what, and what to do."""


class Database:
    """A database with the tables of a tournament."""

    def __init__(self, url: str):
        """Args:
        url: `sqlite:///path/to/file`, `postgresql+psycopg://user:password@host/name`, or any other of SQLAlchemy's.
        """
        try:
            self.url = sa.make_url(url)
        except ArgumentError as error:
            hint = "write sqlite:///file or postgresql+psycopg://user:password@host/name"
            raise LeaderboardError(f"{url!r} is no database's address: {hint}.") from error
        self.shown = self.url.render_as_string(hide_password=True)
        self.local = self.url.get_backend_name() == "sqlite"
        try:
            self.engine = self._engine()
        except (NoSuchModuleError, ImportError) as error:
            raise LeaderboardError(f"There is no driver for {self.shown} ({error}): install its package.") from error

    def _engine(self) -> sa.Engine:
        if not self.local:
            # A connection that the server has closed is noticed before it is used.
            return sa.create_engine(self.url, pool_pre_ping=True, pool_size=2, max_overflow=8)
        engine = sa.create_engine(self.url, poolclass=NullPool, connect_args={"timeout": PATIENCE})
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine

    @property
    def file(self) -> Path | None:
        """Of SQLite."""
        return Path(self.url.database) if self.local and self.url.database else None

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        with self._explained(), self.engine.connect() as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Inside is one transaction: when this is left it has reached the disk, or nothing of it happened."""
        connect = self.engine.execution_options(slipstream_writes=True).connect
        with self._explained(), connect() as connection, connection.begin():
            yield connection

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise self._explanation(error) from error
        except SQLAlchemyError as error:
            raise LeaderboardError(f"The leaderboard {self.shown} cannot be used: {_first_line(error)}.") from error

    def _explanation(self, error: DBAPIError) -> LeaderboardError:
        reason = _first_line(error.orig or error)
        if "locked" in reason or "busy" in reason:
            return Unavailable(f"The leaderboard {self.shown} has been locked by another process for {PATIENCE:.0f} s.")
        if isinstance(error, OperationalError) or error.connection_invalidated:
            return Unavailable(f"The leaderboard {self.shown} cannot be reached: {reason}.")
        if "not a database" in reason or "malformed" in reason:
            return LeaderboardError(f"{self.shown} is damaged, or no leaderboard: {reason}.")
        return LeaderboardError(f"The leaderboard {self.shown} cannot be used: {reason}.")

    def make_tables(self) -> None:
        """Create what is missing, or refuse a database of another version."""
        with self.writing() as c:
            if sa.inspect(c).has_table(facts.name):
                self._check_version(c)
                return
            tables.create_all(c)
            c.execute(facts.insert().values(name="version", value=str(VERSION)))
            start = {"pods": 0, "paused": False, "stopping": False, "elapsed": 0.0, "agents": 0, "epoch": 0}
            c.execute(control.insert().values(id=1, **start))

    def check_tables(self) -> None:
        """Refuse a database that is none of ours, or of another version."""
        if self.file is not None and not self.file.exists():
            raise LeaderboardError(f"There is no leaderboard {self.file}.")
        with self.reading() as c:
            if not sa.inspect(c).has_table(facts.name):
                raise LeaderboardError(f"{self.shown} has no leaderboard in it.")
            self._check_version(c)

    def _check_version(self, c: sa.Connection) -> None:
        found = c.execute(sa.select(facts.c.value).where(facts.c.name == "version")).scalar()
        if found != str(VERSION):
            raise LeaderboardError(
                f"The leaderboard {self.shown} is of version {found}; this version of Slipstream reads {VERSION}. "
                "Choose another --database."
            )

    def close(self) -> None:
        self.engine.dispose()


class Unavailable(LeaderboardError):
    """The database does not answer now, but may later."""


def insist(ask: Callable[[], T], seconds: float) -> T:
    """What a database answers; if it does not, it is asked again, for so long."""
    end, pause = time.monotonic() + seconds, 0.05
    while True:
        try:
            return ask()
        except Unavailable:
            if (left := end - time.monotonic()) <= 0:
                raise
            time.sleep(min(pause, left))
            pause = min(2 * pause, 2.0)


def _prepare_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions begin when `_begin_sqlite` says so
    cursor = connection.cursor()
    # A transaction is on the disk when it is committed, also after a power cut; readers never wait for writers.
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _begin_sqlite(connection: sa.Connection) -> None:
    # Who will write takes its turn at once: otherwise two who have read could both be refused.
    writes = connection.get_execution_options().get("slipstream_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
