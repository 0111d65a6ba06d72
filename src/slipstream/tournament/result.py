"""What comes out of a tournament: the best agent, an ensemble of the best, and how good both are on new episodes."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.runs.checkpoint import load_checkpoint, save_checkpoint
from slipstream.runs.directory import RunDirectory, append
from slipstream.tournament.directory import TournamentDirectory
from slipstream.tournament.leaderboard import Entry, Leaderboard
from slipstream.tournament.league import who_beats_whom
from slipstream.tournament.lineage import ancestors
from slipstream.tournament.plan import Plan
from slipstream.tournament.storage import Storage
from slipstream.training.config import PipelineConfig, PolicyConfig, TrainConfig
from slipstream.training.config_json import from_json, to_json
from slipstream.training.evaluate import Evaluation, evaluate, evaluation_worlds
from slipstream.training.in_gymnasium import evaluate_in_gymnasium
from slipstream.training.loading import load_policies
from slipstream.training.play import WorldsArena
from slipstream.training.saving import under
from slipstream.training.source import keep_source


@dataclass(frozen=True)
class Judged:
    """A policy of the tournament, and what it is worth."""

    run: str
    agents: dict[str, list[str]]
    """By pool, who acts."""
    evaluation: Evaluation
    """On episodes that nobody was ranked by."""


@dataclass(frozen=True)
class Outcome:
    """How a tournament ended."""

    directory: str
    finished: bool
    """Whether it came to its end (and was not interrupted)."""
    seconds: float
    submissions: int
    leaders: dict[str, list[Entry]]
    """By pool, the best one first, as they were ranked."""
    winner: Judged | None
    """None: nothing was submitted."""
    ensemble: Judged | None
    overhead: dict[str, float]
    """Seconds that pods cost beside training and judging: `median` and `largest` after each pod's first agent."""
    league: list[dict[str, Any]]
    """Who beats whom, for every two pools."""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def __repr__(self) -> str:
        if self.winner is None:
            return f"Outcome({self.directory!r}: nothing was submitted)"
        scores = ", ".join(f"{g} {s.mean:.1f}" for g, s in self.winner.evaluation.groups.items())
        return f"Outcome({self.directory!r}: the best of {self.submissions} agents returns {scores})"


@dataclass(frozen=True)
class Stored:
    """An agent out of the storage."""

    entry: Entry
    config: TrainConfig
    actor: dict[str, np.ndarray]
    learner: dict[str, np.ndarray]
    facts: dict[str, Any]


def conclude(directory: TournamentDirectory, board: Leaderboard, finished: bool, say: Callable[[str], None]) -> Outcome:
    """Make run directories of the best agent and of the ensemble, and judge both on episodes nobody was ranked by.

    Args:
        directory: of the tournament.
        board: its leaderboard.
        finished: whether it came to its end.
        say: is told what is being done.
    """
    plan = directory.plan()
    leaders = {pool: board.top(pool, plan.keep, kept_only=plan.league) for pool in plan.pools}
    kept = {pool: board.top(pool, plan.ensemble, kept_only=True) for pool in plan.pools}
    winner = ensemble = None
    if all(kept.values()):
        storage = Storage(plan.storage)
        agents = {pool: [_read(storage, entry) for entry in entries] for pool, entries in kept.items()}
        say("judging the best agent on new episodes ...")
        write_winner(directory.winner, plan, {p: a[0] for p, a in agents.items()}, board)
        winner = _judged(directory.winner, plan, {p: a[:1] for p, a in agents.items()})
        if plan.ensemble > 1 and all(len(a) > 1 for a in agents.values()):
            say("judging the ensemble ...")
            write_ensemble(directory.ensemble, plan, agents)
            ensemble = _judged(directory.ensemble, plan, agents)
    history = board.history()
    league = who_beats_whom(board.matches(), leaders) if plan.league else []
    elapsed = board.control().elapsed
    outcome = Outcome(
        str(directory.path), finished, elapsed, len(history), leaders, winner, ensemble, overhead(history), league
    )
    directory.write_result(json.loads(json.dumps(outcome.to_json())))
    return outcome


def overhead(history: Sequence[Entry]) -> dict[str, float]:
    """What pods cost beside training and judging, the first agent of each process left out: that one compiles."""
    parts = ("submit_before", "start", "save")
    costs = [sum(entry.times[name] for name in parts) for entry in history if "start" in entry.times]
    return {"median": float(np.median(costs)), "largest": max(costs)} if costs else {}


def _read(storage: Storage, entry: Entry) -> Stored:
    assert entry.weights is not None and entry.checksum is not None
    with storage.fetched(entry.weights, entry.checksum) as folder:
        run = RunDirectory.open(folder)
        checkpoint = load_checkpoint(run)
        config = from_json(run.config())
        return Stored(entry, config, checkpoint.part("actor"), checkpoint.part("learner"), checkpoint.facts)


def _prefixed(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{prefix}/{name}": array for name, array in arrays.items()}


def write_winner(path: Path, plan: Plan, best: Mapping[str, Stored], board: Leaderboard) -> None:
    """An ordinary run directory with the best agent (in a league: of every pool), and how it got there."""
    some = next(iter(best.values()))
    policies = {
        name: dataclasses.replace(best[name].config.policies[name] if name in best else policy, load=None)
        for name, policy in plan.train.policies.items()
    }
    actor, learner = dict(some.actor), {}
    for pool, agent in best.items():
        actor |= _prefixed(pool, under(agent.actor, pool))
        learner |= {n: a for n, a in agent.learner.items() if n.startswith(f"{pool}/") or n == f"age/{pool}"}
    config = dataclasses.replace(plan.train, policies=policies, seed=some.entry.seed)
    score = sum(a.entry.score for a in best.values()) / len(best)
    _write_run(path, config, some, {"actor": actor, "learner": learner}, score, _curve(plan, best, board))


def write_ensemble(path: Path, plan: Plan, agents: Mapping[str, Sequence[Stored]]) -> None:
    """A run directory whose policies are ensembles."""
    some = next(iter(agents.values()))[0]
    policies: dict[str, PolicyConfig] = {}
    actor = dict(some.actor)
    for name, policy in plan.train.policies.items():
        if name not in agents:
            policies[name] = dataclasses.replace(policy, load=None)
            continue
        members = tuple(dataclasses.replace(a.config.policies[name], load=None) for a in agents[name])
        policies[name] = dataclasses.replace(members[0], frozen=True, members=members)
        actor = {n: a for n, a in actor.items() if not n.startswith(f"{name}/")}
        for i, agent in enumerate(agents[name]):
            actor |= _prefixed(f"{name}/{i}", under(agent.actor, name))
    config = dataclasses.replace(plan.train, policies=policies, seed=some.entry.seed)
    _write_run(path, config, some, {"actor": actor}, None, [])


def _curve(plan: Plan, best: Mapping[str, Stored], board: Leaderboard) -> list[dict[str, float]]:
    """The scores of an agent's ancestors and its own, over the steps they have learned from."""
    rows = []
    for pool, agent in best.items():
        seconds = 0.0
        for number, entry in enumerate(ancestors(board.history(), agent.entry.id)):
            seconds += entry.seconds
            known = {"iteration": number, "step": entry.age, "seconds": seconds}
            rows.append({**known, f"evaluation/{plan.group_of(pool)}": entry.score})
    return rows


def _write_run(
    path: Path,
    config: TrainConfig,
    origin: Stored,
    parts: Mapping[str, Mapping[str, np.ndarray]],
    score: float | None,
    rows: Sequence[Mapping[str, float]],
) -> None:
    """A run directory in place of an earlier one, as a whole."""
    temporary = path.with_name(f".{path.name}.new")
    shutil.rmtree(temporary, ignore_errors=True)
    run = RunDirectory.create(temporary, to_json(config))
    keep_source(run, config)
    step = max(origin.entry.age, 1)
    save_checkpoint(run, step, parts, origin.facts, keep=1, score=score)
    for row in rows:
        append(run.metrics_file, (json.dumps(row) + "\n").encode())
    run.log(f"agent {origin.entry.id} of a tournament")
    run.release()
    old = path.with_name(f".{path.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if path.exists():
        path.rename(old)
    temporary.rename(path)
    shutil.rmtree(old, ignore_errors=True)


def _judged(path: Path, plan: Plan, agents: Mapping[str, Sequence[Stored]]) -> Judged:
    policies, actors = load_policies(RunDirectory.open(path))
    train, seed, episodes = plan.train, plan.final_seed, plan.final_episodes
    options = dict(train.env_options)
    if isinstance(train.driver, PipelineConfig):
        evaluation = evaluate_in_gymnasium(policies, actors, train.env, options, episodes, seed=seed)
    else:
        arena = WorldsArena(evaluation_worlds(train.env, episodes, seed, train.backend, **options))
        evaluation = evaluate(policies, actors, arena)
    return Judged(str(path), {pool: [a.entry.id for a in some] for pool, some in agents.items()}, evaluation)
