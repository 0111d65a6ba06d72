"""The fused loop: worlds, policies and learning on one device, with nothing but metrics leaving it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from slipstream.envs.registry import make
from slipstream.runs.checkpoint import Checkpoint, best_score, checkpoint_names, load_checkpoint, save_checkpoint
from slipstream.runs.directory import RunDirectory, RunError
from slipstream.runs.metrics import MetricsWriter, forget_after
from slipstream.training.config import TrainConfig
from slipstream.training.evaluate import Evaluation, evaluate
from slipstream.training.interrupt import Interrupt
from slipstream.training.loading import initial_states
from slipstream.training.policies import Policies, States
from slipstream.training.progress import Display
from slipstream.training.saving import from_named_arrays, named_arrays

EVALUATION_SEED = 1_000_003
"""Added to a run's seed for the worlds it is evaluated in."""


GOAL_CHECK = 4
"""Iterations between two evaluations of a run that has a goal and no other plan."""


@dataclass
class Timer:
    """Where the time goes."""

    simulation: float = 0.0
    inference: float = 0.0
    update: float = 0.0

    def shares(self) -> dict[str, float]:
        total = self.simulation + self.inference + self.update or 1.0
        return {f"time/{name}": value / total for name, value in vars(self).items()}


@dataclass(frozen=True)
class Result:
    """How a training run ended."""

    run: str
    step: int
    seconds: float
    finished: bool
    """Whether it reached its goal or its number of steps (and was not interrupted)."""
    returns: dict[str, float]
    """Mean return by group over the episodes that ended last."""
    evaluation: Evaluation | None


@dataclass
class Progress:
    """How far a run has come."""

    iteration: int = 0
    seconds: float = 0.0
    returns: dict[str, float] = field(default_factory=dict)
    evaluation: Evaluation | None = None
    evaluated_at: int | None = None
    """The iteration of that evaluation."""


class FusedTrainer:
    """A training run in memory: call `iterate` until `done`."""

    def __init__(self, config: TrainConfig):
        self.config = config
        self.worlds = make(config.env, config.num_worlds, config.seed, config.backend, **dict(config.env_options))
        self.policies = Policies(self.worlds.env, config.policies)
        # XLA's own generator: drawing actions with JAX's default one takes longer than the network.
        init_key, self.key = jax.jit(lambda s: jax.random.split(jax.random.key(s, impl="rbg")))(
            config.seed & 0xFFFFFFFF
        )
        # JAX compiles anew for arrays that are not tied to a device, and those of the store are.
        self.states: States = _committed(initial_states(self.policies, key=init_key))
        self.store = self.worlds.new_store(config.rollout_length + 1)
        self.views = self.store.views
        self.extras = self.policies.empty_extras(config.rollout_length, config.num_worlds)
        self.worlds.observe_into(self.store, 0)
        self.reported = self.worlds.episode_totals()
        self.timer = Timer()
        self.progress = Progress()
        self._judge: Any = None
        self._judge_start: dict[str, np.ndarray] = {}

    @property
    def step(self) -> int:
        return self.progress.iteration * self.config.steps_per_iteration

    @property
    def done(self) -> bool:
        return self.progress.iteration >= self.config.iterations

    def iterate(self) -> dict[str, dict[str, jax.Array]]:
        """Roll out, learn, and leave the last observation where the next rollout begins."""
        now = self.progress.iteration
        for slot in range(self.config.rollout_length):
            start = time.perf_counter()
            self.extras, actions = self.policies.act(
                self.states, self.views, slot, self.extras, key=self.key, iteration=now
            )
            jax.block_until_ready(actions)
            acted = time.perf_counter()
            self.worlds.step_into(self.store, slot + 1, actions)
            self.timer.inference += acted - start
            self.timer.simulation += time.perf_counter() - acted
        start = time.perf_counter()
        fraction = now / self.config.iterations
        self.states, metrics = self.policies.update(
            self.states, self.views, self.extras, fraction, key=self.key, iteration=now
        )
        # The store's readers must have finished before the next rollout writes to it.
        jax.block_until_ready((self.states, metrics))
        self.timer.update += time.perf_counter() - start
        self.store.copy_slot(self.config.rollout_length, 0)
        self.progress.iteration += 1
        return metrics

    def evaluate(self) -> Evaluation:
        """One episode without exploration in each of some worlds of their own."""
        if self._judge is None:
            c = self.config
            self._judge = make(c.env, c.evaluate_episodes, c.seed + EVALUATION_SEED, c.backend, **dict(c.env_options))
            self._judge_start = self._judge.save()
        # Always the same episodes: evaluations can be compared, and a resumed run judges as it would have.
        self._judge.restore(self._judge_start)
        return evaluate(self.policies, self.states, self._judge)

    # Checkpoints.

    def save(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Everything that decides how the run goes on."""
        arrays = named_arrays(self.states, "policy")
        arrays |= {f"worlds/{n}": a for n, a in self.worlds.save().items()}
        arrays |= {f"slot/{n}": a for n, a in self.store.save_slot(0).items()}
        facts = {"iteration": self.progress.iteration, "seconds": self.progress.seconds}
        return arrays, facts | {"returns": self.progress.returns}

    def restore(self, checkpoint: Checkpoint, source: str) -> None:
        self.states = _committed(from_named_arrays(self.states, checkpoint.arrays, "policy", source))
        of = {kind: _with_prefix(checkpoint.arrays, kind) for kind in ("worlds/", "slot/")}
        expected = {"worlds/": self.worlds.save(), "slot/": self.store.save_slot(0)}
        shapes = [
            {k: {n: a.shape for n, a in arrays.items()} for k, arrays in kinds.items()} for kinds in (expected, of)
        ]
        if shapes[0] != shapes[1]:
            raise RunError(f"{source} does not fit: its worlds have another state.")
        if missing := {"iteration", "seconds", "returns"} - set(checkpoint.facts):
            raise RunError(f"{source} does not fit: it does not say its {', '.join(sorted(missing))}.")
        self.worlds.restore(of["worlds/"])
        self.store.restore_slot(0, of["slot/"])
        self.reported = self.worlds.episode_totals()
        self.progress.iteration = checkpoint.facts["iteration"]
        self.progress.seconds = checkpoint.facts["seconds"]
        self.progress.returns = checkpoint.facts["returns"]


def _committed(tree: Any) -> Any:
    return jax.device_put(tree, jax.devices()[0])


def _with_prefix(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name[len(prefix) :]: a for name, a in arrays.items() if name.startswith(prefix)}


def run_training(trainer: FusedTrainer, run: RunDirectory, display: Display, resumed: bool) -> Result:
    """Train until the goal, the end, or an interrupt; report and save on the way."""
    config, progress = trainer.config, trainer.progress
    writer = MetricsWriter(run, trainer.step if resumed else None)
    earlier, began = progress.seconds, time.perf_counter()
    reported_at = saved_at = began
    reported_step = trainer.step
    reached = False
    with Interrupt() as interrupt, display:
        while not (trainer.done or reached or interrupt.requested):
            metrics = trainer.iterate()
            now = time.perf_counter()
            progress.seconds = earlier + now - began
            if evaluated := _evaluation_due(trainer):
                progress.evaluation, progress.evaluated_at = trainer.evaluate(), progress.iteration
                reached = _goal_reached(trainer)
            if now - reported_at >= config.report_every or trainer.done or evaluated:
                rate = (trainer.step - reported_step) / max(now - reported_at, 1e-9)
                row = _row(trainer, metrics, rate, evaluated)
                writer.write(row)
                display.show(row)
                reported_at, reported_step = now, trainer.step
            if now - saved_at >= config.checkpoint_every or (evaluated and _beats(_score(trainer), best_score(run))):
                _save(trainer, run)
                saved_at = now
        _save(trainer, run)
    writer.close()
    finished = trainer.done or reached
    run.log(f"{'finished' if finished else 'interrupted'} at step {trainer.step} after {progress.seconds:.1f} s")
    return Result(str(run.path), trainer.step, progress.seconds, finished, progress.returns, progress.evaluation)


def _evaluation_due(trainer: FusedTrainer) -> bool:
    """Whether to evaluate now: a matter of the iteration alone, so that the same seed ends in the same place."""
    every = trainer.config.evaluate_every
    if every is None and trainer.config.stop_at_return is not None:
        every = GOAL_CHECK
    return every is not None and trainer.progress.iteration % every == 0


def _goal_reached(trainer: FusedTrainer) -> bool:
    goal, evaluation = trainer.config.stop_at_return, trainer.progress.evaluation
    first = next(iter(trainer.policies.groups.values()))[0].name
    return goal is not None and evaluation is not None and evaluation.groups[first].mean >= goal


def _row(trainer: FusedTrainer, metrics: dict, rate: float, evaluated: bool) -> dict[str, float]:
    """One report: flat names, host numbers."""
    totals = trainer.worlds.episode_totals()
    statistics, trainer.reported = totals.since(trainer.reported), totals
    if statistics.episodes:
        trainer.progress.returns = statistics.returns
    row: dict[str, float] = {
        "iteration": trainer.progress.iteration,
        "step": trainer.step,
        "seconds": trainer.progress.seconds,
        "steps_per_second": rate,
        "episodes": statistics.episodes,
        "episode_length": statistics.length,
        "broken_worlds": statistics.broken,
        **trainer.timer.shares(),
    }
    row |= {f"return/{g}": r for g, r in statistics.returns.items()}
    row |= {f"return_std/{g}": r for g, r in statistics.return_std.items()}
    row |= {f"report/{n}": v for n, v in statistics.report.items()}
    row |= {f"{p}/{n}": float(v) for p, values in metrics.items() for n, v in values.items()}
    if evaluated and trainer.progress.evaluation is not None:
        row |= {f"evaluation/{g}": s.mean for g, s in trainer.progress.evaluation.groups.items()}
    trainer.timer = Timer()
    return row


def _save(trainer: FusedTrainer, run: RunDirectory) -> None:
    arrays, facts = trainer.save()
    save_checkpoint(run, trainer.step, arrays, facts, trainer.config.keep_checkpoints, _score(trainer))


def _beats(score: float | None, best: float) -> bool:
    return score is not None and score > best


def _score(trainer: FusedTrainer) -> float | None:
    """How good the policies are right now: by evaluation if the run has any, else by the last episodes.

    With evaluations, weights that were not evaluated have no score.
    """
    config, progress = trainer.config, trainer.progress
    learner = (trainer.policies.learning or list(trainer.policies.groups))[0]
    first = trainer.policies.groups[learner][0].name
    if config.evaluate_every is None and config.stop_at_return is None:
        return progress.returns.get(first)
    if progress.evaluation is None or progress.evaluated_at != progress.iteration:
        return None
    return progress.evaluation.groups[first].mean


def resume_trainer(run: RunDirectory, config: TrainConfig, which: str = "latest") -> FusedTrainer:
    """A trainer that goes on where a checkpoint was written, or from the beginning if the run did not get to one."""
    checkpoint = load_checkpoint(run, which) if which != "latest" or checkpoint_names(run) else None
    trainer = FusedTrainer(config)
    if checkpoint is not None:
        trainer.restore(checkpoint, f"Checkpoint {checkpoint.name} of {run.path}")
    forget_after(run, trainer.progress.iteration)
    return trainer
