"""The leaderboard: a durable, ranked table of submitted agents, and what is wanted of a tournament.

Pods write to it themselves, each submission in one transaction. There is no process in between that could be lost:
what was acknowledged is in the database, and nothing else has to survive.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from slipstream.tournament.schema import (
    Database,
    LeaderboardError,
    Unavailable,
    control,
    insist,
    matches,
    pods,
    submissions,
)

__all__ = [
    "Control",
    "Entry",
    "Fenced",
    "Leaderboard",
    "LeaderboardError",
    "Match",
    "Submission",
    "Unavailable",
    "insist",
]


class Fenced(LeaderboardError):
    """A submission that came too late: its pod was declared dead."""


@dataclass(frozen=True)
class Submission:
    """An agent as a pod hands it in."""

    id: str
    pool: str
    """The policy it is: those of one pool are ranked among themselves."""
    parent: str | None
    algo: str
    settings: dict[str, Any]
    """Those that differ from the tournament's."""
    seed: int
    steps: int
    """Environment steps of its own quantum."""
    age: int
    """Environment steps that it and its ancestors have learned from."""
    seconds: float
    """Wall-clock time of its quantum, the pod's own work included."""
    score: float
    standard_error: float
    episodes: int
    weights: str | None
    """Where they are; None: they are not kept."""
    checksum: str | None
    pod: str
    epoch: int
    """Of the pod, as it was when it began."""
    times: dict[str, float] = field(default_factory=dict)
    """Seconds of what a pod does beside training, by name."""


@dataclass(frozen=True)
class Entry(Submission):
    """A submission that was acknowledged."""

    number: int = 0
    """In the order of submission, from 1."""
    submitted: float = 0.0
    """When, in seconds since 1970."""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Match:
    """What an agent earned with others around it."""

    pool: str
    agent: str
    others: dict[str, str]
    """By pool, who else played; somebody untrained if a pool is not there."""
    score: float
    """Its mean return."""
    against: dict[str, float]
    """By pool, the mean return of the others."""
    episodes: int


@dataclass(frozen=True)
class Control:
    """What is wanted of a tournament, and how far it is."""

    pods: int
    paused: bool
    stopping: bool
    """Pods end their quantum early and submit what they have."""
    elapsed: float
    """Seconds that it has run so far."""
    agents: int
    """How many have been started."""
    epoch: int
    """The last one that was given out."""


COLUMNS = [f.name for f in dataclasses.fields(Entry)]


class Leaderboard:
    """What pods, the tournament and onlookers read and write. Several may at the same time."""

    def __init__(self, url: str, *, create: bool = False):
        """Args:
        url: of the database.
        create: make the tables if they are missing; otherwise that is an error.
        """
        self.database = Database(url)
        if create:
            self.database.make_tables()
        else:
            self.database.check_tables()

    def close(self) -> None:
        self.database.close()

    # Submitting.

    def submit(self, submission: Submission, patience: float = 0.0) -> Entry:
        """Take a submission. When this returns it is on disk; the same one again changes nothing.

        Args:
            submission: what to take.
            patience: for so many seconds, try again when the database does not answer.

        Raises:
            Fenced: if its pod has been declared dead.
        """
        if not math.isfinite(submission.score):
            raise LeaderboardError(f"The score of agent {submission.id} is {submission.score}: it cannot be ranked.")
        return insist(lambda: self._submit(submission), patience)

    def _submit(self, submission: Submission) -> Entry:
        values = dataclasses.asdict(submission)
        try:
            with self.database.writing() as c:
                own = sa.select(pods.c.epoch).where(pods.c.name == submission.pod).with_for_update()
                if c.execute(own).scalar() != submission.epoch:
                    raise Fenced(
                        f"Agent {submission.id} came too late: {submission.pod} of epoch {submission.epoch} was "
                        "declared dead."
                    )
                c.execute(submissions.insert().values(**values, submitted=time.time()))
        except LeaderboardError as error:
            if not isinstance(error.__cause__, IntegrityError):
                raise
            known = self.entry(submission.id)  # an acknowledgement that was lost on its way
            if known is None or known.epoch != submission.epoch:
                raise LeaderboardError(f"There already is another agent {submission.id}.") from error
            return known
        entry = self.entry(submission.id)
        assert entry is not None
        return entry

    # Ranks.

    def entry(self, id: str) -> Entry | None:
        with self.database.reading() as c:
            row = c.execute(_entries().where(submissions.c.id == id)).mappings().first()
        return None if row is None else Entry(**row)

    def top(self, pool: str, count: int, kept_only: bool = False) -> list[Entry]:
        """The best of a pool, the first one first; of equal ones the one that came first.

        Args:
            pool: of which policy.
            count: how many.
            kept_only: leave out those whose weights are no longer kept.
        """
        query = _entries().where(submissions.c.pool == pool)
        if kept_only:
            query = query.where(submissions.c.weights.isnot(None))
        query = query.order_by(submissions.c.score.desc(), submissions.c.number).limit(count)
        with self.database.reading() as c:
            return [Entry(**row) for row in c.execute(query).mappings()]

    def rank(self, id: str) -> int:
        """From 1, among those of the same pool."""
        entry = self.entry(id)
        if entry is None:
            raise LeaderboardError(f"There is no agent {id!r} in the leaderboard.")
        return self.rank_of(entry.pool, entry.score, entry.number)

    def rank_of(self, pool: str, score: float, number: int | None = None) -> int:
        """Which rank a score has, or would have if it came now."""
        s = submissions.c
        before = sa.true() if number is None else s.number < number
        query = sa.select(sa.func.count()).select_from(submissions)
        in_pool = s.pool == pool
        with self.database.reading() as c:
            better = c.execute(query.where(in_pool, s.score > score)).scalar_one()
            equal = c.execute(query.where(in_pool, s.score == score, before)).scalar_one()
        return 1 + better + equal

    def count(self, pool: str | None = None) -> int:
        query = sa.select(sa.func.count()).select_from(submissions)
        if pool is not None:
            query = query.where(submissions.c.pool == pool)
        with self.database.reading() as c:
            return c.execute(query).scalar_one()

    def pools(self) -> list[str]:
        """Of which there are submissions."""
        with self.database.reading() as c:
            return list(c.execute(sa.select(submissions.c.pool).distinct().order_by(submissions.c.pool)).scalars())

    def history(self, after: int = 0) -> list[Entry]:
        """All submissions, in the order they came, from some number on."""
        with self.database.reading() as c:
            query = _entries().where(submissions.c.number > after).order_by(submissions.c.number)
            return [Entry(**row) for row in c.execute(query).mappings()]

    # Weights.

    def retire(self, pool: str, keep: int) -> list[Entry]:
        """Let those beyond the first so many go without weights; who they are, as they were before."""
        with self.database.writing() as c:
            query = _entries().where(submissions.c.pool == pool, submissions.c.weights.isnot(None))
            query = query.order_by(submissions.c.score.desc(), submissions.c.number).offset(keep)
            if self.database.local:
                query = query.limit(-1)  # SQLite knows no offset without a limit
            gone = [Entry(**row) for row in c.execute(query).mappings()]
            if gone:
                which = submissions.c.id.in_([entry.id for entry in gone])
                c.execute(submissions.update().where(which).values(weights=None, checksum=None))
        return gone

    def kept(self) -> list[Entry]:
        """All whose weights are kept."""
        with self.database.reading() as c:
            return [Entry(**row) for row in c.execute(_entries().where(submissions.c.weights.isnot(None))).mappings()]

    # Matches.

    def record_matches(self, played: Sequence[Match]) -> None:
        with self.database.writing() as c:
            c.execute(matches.insert(), [dataclasses.asdict(match) for match in played])

    def matches(self, agents: Sequence[str] | None = None, latest: int = 2000) -> list[Match]:
        """What was played last, of some agents or of all, in the order it was."""
        names = [f.name for f in dataclasses.fields(Match)]
        query = sa.select(*(matches.c[name] for name in names)).order_by(matches.c.number.desc()).limit(latest)
        if agents is not None:
            query = query.where(matches.c.agent.in_(agents))
        with self.database.reading() as c:
            return [Match(**row) for row in c.execute(query).mappings()][::-1]

    def rescore(self, ratings: Mapping[str, tuple[float, float]]) -> None:
        """Set score and standard error of agents whose rank comes from matches."""
        with self.database.writing() as c:
            for id, (score, error) in ratings.items():
                c.execute(submissions.update().where(submissions.c.id == id).values(score=score, standard_error=error))

    # Who may submit.

    def begin(self, pod: str) -> tuple[str, int]:
        """A new agent in a pod: its id, and the epoch that it is submitted with.

        What the pod was doing before is fenced off from here on.
        """
        with self.database.writing() as c:
            c.execute(control.update().values(agents=control.c.agents + 1, epoch=control.c.epoch + 1))
            agents, epoch = c.execute(sa.select(control.c.agents, control.c.epoch)).one()
            agent = f"{agents:06d}"
            self._set_pod(c, pod, epoch, agent)
        return agent, epoch

    def declare_dead(self, pod: str) -> None:
        """Whatever a pod still submits comes too late."""
        with self.database.writing() as c:
            c.execute(control.update().values(epoch=control.c.epoch + 1))
            epoch = c.execute(sa.select(control.c.epoch)).scalar_one()
            self._set_pod(c, pod, epoch, None)

    def declare_all_dead(self) -> None:
        """Nobody who has been at work so far may submit."""
        with self.database.writing() as c:
            c.execute(pods.delete())

    def _set_pod(self, c: sa.Connection, pod: str, epoch: int, agent: str | None) -> None:
        changed = c.execute(pods.update().where(pods.c.name == pod).values(epoch=epoch, agent=agent))
        if changed.rowcount == 0:
            c.execute(pods.insert().values(name=pod, epoch=epoch, agent=agent))

    def may_submit(self, pod: str, epoch: int) -> bool:
        with self.database.reading() as c:
            return c.execute(sa.select(pods.c.epoch).where(pods.c.name == pod)).scalar() == epoch

    def at_work(self) -> dict[str, str]:
        """By pod, the agent it trains."""
        with self.database.reading() as c:
            rows = c.execute(sa.select(pods.c.name, pods.c.agent).where(pods.c.agent.isnot(None)).order_by(pods.c.name))
            return {name: agent for name, agent in rows}

    # What is wanted.

    def control(self) -> Control:
        columns = [control.c[f.name] for f in dataclasses.fields(Control)]
        with self.database.reading() as c:
            return Control(*c.execute(sa.select(*columns)).one())

    def change(self, **wanted: Any) -> None:
        """Set fields of `Control`."""
        with self.database.writing() as c:
            c.execute(control.update().values(**wanted))


def _entries() -> sa.Select:
    return sa.select(*(submissions.c[name] for name in COLUMNS))
