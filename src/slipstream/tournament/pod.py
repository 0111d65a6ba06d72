"""A pod: trains an agent for a quantum, judges it, and submits it. It knows nothing of Ray."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipstream.runs.checkpoint import load_checkpoint
from slipstream.runs.directory import RunDirectory
from slipstream.tournament.leaderboard import Entry, Leaderboard, Match, Submission, Unavailable, insist
from slipstream.tournament.league import rate
from slipstream.tournament.plan import Plan
from slipstream.tournament.storage import Storage, Stored
from slipstream.tournament.trainee import Arrays, Trainee, actor_of, kind_of, make_trainee
from slipstream.tournament.updater import place
from slipstream.training.config_json import to_json
from slipstream.training.evaluate import Evaluation

GLANCE = 1.0
"""Seconds between two looks at whether the agent is still wanted."""

PATIENCE = 120.0
"""For so many seconds a pod asks again when the leaderboard does not answer, rather than lose what it has trained."""


@dataclass(frozen=True)
class Origin:
    """An agent that is in storage."""

    id: str
    path: str
    checksum: str

    @staticmethod
    def of(entry: Entry) -> Origin:
        assert entry.weights is not None and entry.checksum is not None
        return Origin(entry.id, entry.weights, entry.checksum)


@dataclass(frozen=True)
class Job:
    """An agent that is to be trained."""

    agent: str
    epoch: int
    pool: str
    seed: int
    settings: Mapping[str, float]
    parent: Origin | None = None
    opponents: tuple[Mapping[str, Origin], ...] = ()
    """In a league: with whom to play, by policy, in turns. A policy that is not there plays as it is born."""


@dataclass(frozen=True)
class Report:
    """What became of a job."""

    agent: str
    pool: str
    entry: Entry | None
    """None: it was no longer wanted."""
    rank: int
    """Among those who were kept; 0 if it was not wanted."""
    times: dict[str, float]
    """Seconds: `start` (`cold_start` if something was compiled), `train`, `evaluate`, `save`, `submit`."""


@dataclass(frozen=True)
class Judgement:
    """How good an agent is."""

    score: float
    standard_error: float
    leaders: Sequence[float]
    """The scores of those who are kept, in any order."""
    matches: Sequence[Match] = ()
    """What was played for it, in a league."""


class Pod:
    """Trains one agent after the other, in one process."""

    def __init__(self, name: str, plan: Plan):
        self.name, self.plan = name, plan
        self._board = insist(lambda: Leaderboard(plan.database), PATIENCE)
        self._storage = Storage(plan.storage)
        self._trainees: dict[str, Trainee] = {}
        """By kind; those of every pool are kept warm."""
        self._submitting = 0.0
        """Seconds that the last submission took: a row cannot say that of itself, so the next one does."""

    def run(self, job: Job) -> Report:
        """Train an agent for a quantum and submit it."""
        began = time.perf_counter()
        cold, trainee = self._begin(job)
        opponents = [self._actors(several) for several in job.opponents]
        with trainee.working():
            if opponents:
                trainee.oppose(opponents[0])
            trainee.iterate()  # compiles what has not been yet, which is not the agent's time
            started = time.perf_counter()
            wanted = self._train(job, trainee, opponents, started)
        trained = time.perf_counter()
        times = {"cold_start" if cold else "start": started - began, "train": trained - started}
        if not wanted:
            return Report(job.agent, job.pool, None, 0, times)
        judgement = self._judge(job, trainee, opponents)
        judged = time.perf_counter()
        times["evaluate"] = judged - trained
        entry, rank = self._submit(job, trainee, judgement, times, judged - began)
        times["submit"] = self._submitting = time.perf_counter() - judged - times["save"]
        return Report(job.agent, job.pool, entry, rank, times)

    def _begin(self, job: Job) -> tuple[bool, Trainee]:
        """Who trains it, and whether that one has to compile first."""
        kind = kind_of(self.plan, job.pool, job.settings)
        cold = kind not in self._trainees
        if cold:
            if len(self._trainees) >= len(self.plan.pools):
                for trainee in self._trainees.values():  # makes room
                    trainee.close()
                self._trainees.clear()
            self._trainees[kind] = make_trainee(self.plan, job.pool, job.settings)
        trainee = self._trainees[kind]
        learner = None if job.parent is None else self._part(job.parent, "learner")
        source = "" if job.parent is None else f"Agent {job.parent.id} ({job.parent.path})"
        trainee.begin(job.seed, job.settings, learner, source)
        return cold, trainee

    def _part(self, origin: Origin, part: str) -> Arrays:
        with self._storage.fetched(origin.path, origin.checksum) as folder:
            return load_checkpoint(RunDirectory.open(folder)).part(part)

    def _actors(self, several: Mapping[str, Origin]) -> dict[str, Arrays]:
        return {pool: actor_of(self._part(origin, "actor"), pool) for pool, origin in several.items()}

    def _train(self, job: Job, trainee: Trainee, opponents: list[dict[str, Arrays]], began: float) -> bool:
        """Train until the quantum is over; whether the agent is still wanted then."""
        plan, looked, turn = self.plan, began, 0
        while True:
            now = time.perf_counter()
            if plan.quantum_seconds is not None and now - began >= plan.quantum_seconds:
                return True
            if plan.quantum_steps is not None and trainee.step >= plan.quantum_steps:
                return True
            if now - looked >= GLANCE:
                looked = now
                with contextlib.suppress(Unavailable):  # a leaderboard that does not answer does not stop training
                    if not self._board.may_submit(self.name, job.epoch):
                        return False
                    if self._board.control().stopping:
                        return True
            if opponents:
                turn += 1
                trainee.oppose(opponents[turn % len(opponents)])
            trainee.iterate()

    def _judge(self, job: Job, trainee: Trainee, opponents: list[dict[str, Arrays]]) -> Judgement:
        """What the agent earns on the episodes of the ranking; in a league, what that makes of all ratings."""
        if not self.plan.league:
            score = trainee.judge().groups[self.plan.group_of(job.pool)]
            leaders = insist(lambda: self._board.top(job.pool, self.plan.keep, kept_only=True), PATIENCE)
            return Judgement(score.mean, score.standard_error, [entry.score for entry in leaders])
        played = []
        for several, actors in zip(job.opponents or ({},), opponents or [{}]):
            trainee.oppose(actors)
            played += self._rows(job, several, trainee.judge())
        kept = insist(self._board.kept, PATIENCE)
        before = insist(lambda: self._board.matches([entry.id for entry in kept]), PATIENCE)
        ratings = rate([*before, *played])
        own_pool = [entry for entry in kept if entry.pool == job.pool]
        others = [ratings[entry.id].mean if entry.id in ratings else entry.score for entry in own_pool]
        own = ratings[job.agent]
        return Judgement(own.mean, own.standard_error, others, played)

    def _submit(
        self,
        job: Job,
        trainee: Trainee,
        judged: Judgement,
        times: dict[str, float],
        seconds: float,
    ) -> tuple[Entry, int]:
        """Weights first, then the row: whatever is in the leaderboard can be loaded."""
        plan = self.plan
        placement = place(judged.leaders, judged.score, plan.keep)
        stored: Stored | None = None
        began = time.perf_counter()
        if placement.enters:
            config, parts, facts = trainee.save()
            facts = {**facts, "seconds": seconds, "agent": job.agent}
            stored = self._storage.put(job.agent, to_json(config), trainee.age, parts, facts)
        times["save"] = time.perf_counter() - began
        entry = self._board.submit(
            Submission(
                id=job.agent,
                pool=job.pool,
                parent=None if job.parent is None else job.parent.id,
                algo=plan.train.policies[job.pool].algo,
                settings=dict(job.settings),
                seed=job.seed,
                steps=trainee.step,
                age=trainee.age,
                seconds=seconds,
                score=judged.score,
                standard_error=judged.standard_error,
                episodes=plan.episodes * max(1, len(job.opponents)),
                weights=None if stored is None else stored.path,
                checksum=None if stored is None else stored.checksum,
                pod=self.name,
                epoch=job.epoch,
                times={**times, "submit_before": self._submitting},
            ),
            patience=PATIENCE,
        )
        if judged.matches:
            insist(lambda: self._board.record_matches(judged.matches), PATIENCE)
        return entry, placement.rank

    def _rows(self, job: Job, others: Mapping[str, Origin], evaluation: Evaluation) -> list[Match]:
        """What each of those who are known earned in a match."""
        players = {job.pool: job.agent, **{pool: origin.id for pool, origin in others.items()}}
        earned = {pool: evaluation.groups[self.plan.group_of(pool)].mean for pool in players}
        rows = []
        for pool, agent in players.items():
            rest = {p: a for p, a in players.items() if p != pool}
            rows.append(Match(pool, agent, rest, earned[pool], {p: earned[p] for p in rest}, evaluation.episodes))
        return rows


def to_plain(job: Job) -> dict[str, Any]:
    """A job as plain data, for another process."""
    return dataclasses.asdict(job)


def from_plain(data: Mapping[str, Any]) -> Job:
    parent = None if data["parent"] is None else Origin(**data["parent"])
    opponents = tuple({pool: Origin(**o) for pool, o in several.items()} for several in data["opponents"])
    return Job(**{**data, "parent": parent, "opponents": opponents})
