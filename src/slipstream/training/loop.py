"""The loop of a run, the same for every driver: goals, budgets, evaluations, reports, checkpoints, interrupts."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from slipstream.child_process import ChildFailed
from slipstream.envs.statistics import EpisodeTotals
from slipstream.runs.checkpoint import best_score, save_checkpoint
from slipstream.runs.directory import RunDirectory
from slipstream.training.config import TrainConfig
from slipstream.training.evaluate import Evaluation, Verdict
from slipstream.training.health import Health, TrainingFailed
from slipstream.training.interrupt import Interrupt

SAVING_SHARE = 0.05
"""How much of the time goes into checkpoints at most: those with a large replay are written less often."""

Row = Mapping[str, float]


class Trainer(Protocol):
    """What the loop drives."""

    config: TrainConfig

    @property
    def iteration(self) -> int: ...

    @property
    def step(self) -> int:
        """Steps of all worlds together; it changes while the trainer iterates, and at no other time."""
        ...

    @property
    def actors(self) -> dict[str, Any]:
        """What acts, by policy."""
        ...

    def iterate(self) -> dict[str, dict[str, Any]]:
        """Collect experience and learn from it; metrics by policy, which need not have been computed yet."""
        ...

    def totals(self) -> EpisodeTotals:
        """Of all episodes so far."""
        ...

    def seconds_spent(self) -> dict[str, float]:
        """Where the time has gone so far."""
        ...

    def figures(self) -> dict[str, float]:
        """Further numbers for a report."""
        ...

    def save(self, *, last: bool = True) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
        """Arrays by part of a checkpoint, and small facts.

        Args:
            last: it may be the last checkpoint for a long time.
        """
        ...


class Judge(Protocol):
    """Who says how good the policies are."""

    def verdict(self, iteration: int, actors: dict[str, Any]) -> Verdict | None:
        """If there is something new to say: of these actors, or of earlier ones, which it then names."""
        ...


class Sink(Protocol):
    """Where reports go: a file, TensorBoard, the display, a user's callback."""

    def report(self, row: Row) -> bool | None:
        """Take a report; True asks the run to stop."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Result:
    """How a training run ended."""

    run: str
    step: int
    seconds: float
    finished: bool
    """Whether it reached its goal or its budget, or a callback ended it (and it was not interrupted)."""
    returns: dict[str, float]
    """Mean return by group over the episodes that ended last."""
    evaluation: Evaluation | None
    """The last one."""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def of(data: Mapping[str, Any]) -> Result:
        """What `to_json` came from."""
        evaluation = None if data["evaluation"] is None else Evaluation.of(data["evaluation"])
        return Result(**{**data, "evaluation": evaluation})

    def __repr__(self) -> str:
        returns = ", ".join(f"{group} {value:.1f}" for group, value in self.returns.items())
        ended = "finished" if self.finished else "interrupted"
        return f"Result({self.run!r}, {ended} after {self.step:,} steps in {self.seconds:.1f} s; return: {returns})"


class Loop:
    """Runs a trainer until its goal, the end of its budget, or an interrupt."""

    def __init__(
        self,
        trainer: Trainer,
        judge: Judge,
        run: RunDirectory,
        sinks: Sequence[Sink],
        health: Health,
        seconds: float = 0.0,
    ):
        """Args:
        trainer: what to run.
        judge: evaluates it.
        run: where to save it.
        sinks: who gets the reports.
        health: notices when something is wrong with them.
        seconds: how long it was trained before, in earlier processes.
        """
        self.trainer, self.judge, self.run = trainer, judge, run
        self.sinks, self.health = sinks, health
        self.config = trainer.config
        self._earlier, self._began = seconds, time.perf_counter()
        self._saved_at, self._saving_took = self._began, 0.0
        self._verdict: Verdict | None = None
        self._judged_at: int | None = None
        self._returns: dict[str, float] = {}
        self._last = self._snapshot()

    @property
    def seconds(self) -> float:
        return self._earlier + time.perf_counter() - self._began

    def __call__(self) -> Result:
        """Run it. What goes wrong in training is raised when everything has been saved that can be."""
        try:
            return self._run()
        except TrainingFailed as error:
            self._save(last=True)
            self.run.log(f"failed at step {self.trainer.step}: {error}")
            raise
        except ChildFailed as error:  # in the middle of a rollout: there is nothing whole to be saved
            self.run.log(f"failed at step {self.trainer.step}: {error}")
            raise TrainingFailed(str(error)) from error

    def _run(self) -> Result:
        reached = stopped = False
        with Interrupt() as interrupt:
            while not (self._out_of_budget() or reached or stopped or interrupt.requested):
                metrics = self.trainer.iterate()
                verdict = self.judge.verdict(self.trainer.iteration, self.trainer.actors)
                evaluated = verdict is not None
                if evaluated:
                    self._verdict, self._judged_at = verdict, self.trainer.iteration
                    reached = self._goal_reached()
                if evaluated or self._report_due() or self._out_of_budget():
                    stopped = self._report(metrics, evaluated)
                if self._checkpoint_due(evaluated):
                    self._save(last=False)
            self._save(last=True)
        finished = not interrupt.requested or self._out_of_budget() or reached
        self.run.log(
            f"{'finished' if finished else 'interrupted'} at step {self.trainer.step} after {self.seconds:.1f} s"
        )
        evaluation = self._verdict.evaluation if self._verdict is not None else None
        return Result(str(self.run.path), self.trainer.step, self.seconds, finished, self._returns, evaluation)

    # When to do what.

    def _out_of_budget(self) -> bool:
        steps, seconds = self.config.total_steps, self.config.total_seconds
        out_of_steps = steps is not None and self.trainer.step >= steps
        return out_of_steps or (seconds is not None and self.seconds >= seconds)

    def _goal_reached(self) -> bool:
        goal, score = self.config.stop_at_return, self._score()
        return goal is not None and score is not None and score >= goal

    def _score(self) -> float | None:
        """How good the policies are right now; weights that were not evaluated have no score."""
        if self._verdict is None or self._judged_at != self.trainer.iteration:
            return None
        return self._verdict.score

    def _report_due(self) -> bool:
        return time.perf_counter() - self._last.at >= self.config.report_every

    def _checkpoint_due(self, evaluated: bool) -> bool:
        score = self._score() if evaluated else None
        better = score is not None and score > best_score(self.run)
        every = self.config.checkpoint_every
        if every:  # 0 is after every iteration, come what may
            every = max(every, self._saving_took / SAVING_SHARE)
        return better or time.perf_counter() - self._saved_at >= every

    # Reports and checkpoints.

    def _snapshot(self) -> _Snapshot:
        trainer = self.trainer
        return _Snapshot(time.perf_counter(), trainer.step, trainer.totals(), trainer.seconds_spent())

    def _report(self, metrics: Mapping[str, Mapping[str, Any]], evaluated: bool) -> bool:
        """Hand a row to all sinks; whether one of them asks the run to stop."""
        now, last = self._snapshot(), self._last
        self._last = now
        episodes = now.totals.since(last.totals)
        if episodes.episodes:
            self._returns = episodes.returns
        spent = {name: seconds - last.spent[name] for name, seconds in now.spent.items()}
        row: dict[str, float] = {
            "iteration": self.trainer.iteration,
            "step": now.step,
            "seconds": self.seconds,
            "steps_per_second": (now.step - last.step) / max(now.at - last.at, 1e-9),
            "episodes": episodes.episodes,
            "episode_length": episodes.length,
            "broken_worlds": episodes.broken,
            **{f"time/{name}": seconds / (sum(spent.values()) or 1.0) for name, seconds in spent.items()},
            **{f"return/{group}": value for group, value in episodes.returns.items()},
            **{f"return_std/{group}": value for group, value in episodes.return_std.items()},
            **{f"rewards_not_finite/{group}": count for group, count in episodes.unpaid.items()},
            **{f"report/{name}": value for name, value in episodes.report.items()},
            **{f"{policy}/{name}": float(v) for policy, values in metrics.items() for name, v in values.items()},
            **self.trainer.figures(),
        }
        if evaluated and self._verdict is not None:
            row |= {f"evaluation/{group}": s.mean for group, s in self._verdict.evaluation.groups.items()}
        stops = [sink.report(row) for sink in self.sinks]
        self.health.examine(row)
        return any(stops)

    def _save(self, last: bool) -> None:
        began = time.perf_counter()
        parts, facts = self.trainer.save(last=last)
        facts = {**facts, "seconds": self.seconds}
        score = self._score()
        if score is not None and self._verdict is not None and self._verdict.actor is not None:
            parts["actor"] = dict(self._verdict.actor)  # a score belongs to those who were judged
        save_checkpoint(self.run, self.trainer.step, parts, facts, self.config.keep_checkpoints, score)
        self._saved_at = time.perf_counter()
        self._saving_took = self._saved_at - began


@dataclass(frozen=True)
class _Snapshot:
    """How far a run was at a moment: reports are differences between two of them."""

    at: float
    step: int
    totals: EpisodeTotals
    spent: dict[str, float]
