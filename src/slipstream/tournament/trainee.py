"""What a pod trains with: the fused driver, kept warm from one agent to the next, or the pipeline."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from slipstream.runs.directory import RunDirectory
from slipstream.tournament.plan import Plan
from slipstream.training.config import PipelineConfig, TrainConfig
from slipstream.training.config_json import to_json
from slipstream.training.evaluate import Evaluation, Judge
from slipstream.training.fused import FusedTrainer, Parts
from slipstream.training.in_gymnasium import evaluate_in_gymnasium
from slipstream.training.pipeline.trainer import PipelineTrainer
from slipstream.training.policies import committed
from slipstream.training.saving import from_named_arrays, under

Arrays = Mapping[str, np.ndarray]


class Trainee(Protocol):
    """Trains one agent after the other."""

    @property
    def step(self) -> int:
        """Environment steps of this quantum."""
        ...

    @property
    def age(self) -> int:
        """Environment steps that the agent and its ancestors have learned from."""
        ...

    def begin(self, seed: int, settings: Mapping[str, float], learner: Arrays | None, source: str) -> None:
        """Start anew, or with what somebody has learned."""

    def working(self) -> contextlib.AbstractContextManager[None]:
        """Inside, it can `iterate`."""
        ...

    def iterate(self) -> None: ...

    def oppose(self, opponents: Mapping[str, Arrays]) -> None:
        """From here on, play with others: what acts, by policy."""

    def judge(self) -> Evaluation:
        """How good it is, on the episodes that agents are ranked by."""
        ...

    def save(self) -> tuple[TrainConfig, Parts, dict[str, Any]]:
        """The configuration, parts and facts of a checkpoint."""
        ...


def fixed(plan: Plan, pool: str, settings: Mapping[str, float]) -> dict[str, float]:
    """Of an agent's settings, those that cannot be turned while it is trained."""
    turned = () if isinstance(plan.train.driver, PipelineConfig) else plan.situation(pool, 1).ranges
    return {name: value for name, value in settings.items() if name not in turned}


def kind_of(plan: Plan, pool: str, settings: Mapping[str, float]) -> str:
    """Agents of the same kind can be trained by the same trainee, one after the other."""
    return json.dumps([pool, fixed(plan, pool, settings)], sort_keys=True)


def make_trainee(plan: Plan, pool: str, settings: Mapping[str, float]) -> Trainee:
    """For agents of a pool that differ from the tournament's settings in this way."""
    policies = {
        name: dataclasses.replace(policy, frozen=name != pool, load=None if name != pool else policy.load)
        for name, policy in plan.train.policies.items()
    }
    own = plan.settings_of(pool, fixed(plan, pool, settings))
    policies[pool] = dataclasses.replace(policies[pool], settings=own)
    fields: dict[str, Any] = {"policies": policies, "evaluate_episodes": plan.episodes, "save_replay": False}
    config = dataclasses.replace(plan.train, **fields, stop_at_return=None)
    make = PipelineTrainee if isinstance(config.driver, PipelineConfig) else FusedTrainee
    return make(plan, pool, config)


class FusedTrainee:
    """Compiled worlds and one trainer for all agents: what varies between them is turned, and compiled once."""

    def __init__(self, plan: Plan, pool: str, config: TrainConfig):
        self._plan, self._pool = plan, pool
        self._config = config
        self._trainer = FusedTrainer(config)
        self._turned = sorted(plan.situation(pool, 1).ranges)
        self._judge = Judge(config, self._trainer.policies, seed=plan.ranking_seed)

    @property
    def step(self) -> int:
        return self._trainer.step

    @property
    def age(self) -> int:
        return self._trainer.ages[self._pool]

    def begin(self, seed: int, settings: Mapping[str, float], learner: Arrays | None, source: str) -> None:
        trainer, own = self._trainer, self._config.policies[self._pool]
        trainer.begin_anew(seed)
        trainer.load_starting_points()
        chosen = self._plan.settings_of(self._pool, settings)
        trainer.dials = {self._pool: {name: float(getattr(chosen, name)) for name in self._turned}}
        policies = {**self._config.policies, self._pool: dataclasses.replace(own, settings=chosen)}
        self._config = dataclasses.replace(self._config, seed=seed, policies=policies)
        if learner is not None:
            trainer.adopt(dict(learner), source)

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        yield

    def iterate(self) -> None:
        self._trainer.iterate()

    def oppose(self, opponents: Mapping[str, Arrays]) -> None:
        for name, actor in opponents.items():
            template = self._trainer.frozen[name]
            self._trainer.frozen[name] = committed(from_named_arrays(template, actor, f"An opponent {name!r}"))

    def judge(self) -> Evaluation:
        return self._judge(self._trainer.actors)

    def save(self) -> tuple[TrainConfig, Parts, dict[str, Any]]:
        parts, facts = self._trainer.save()
        return self._config, parts, facts


class PipelineTrainee:
    """Environments of Gymnasium in processes of their own, made anew for every agent."""

    def __init__(self, plan: Plan, pool: str, config: TrainConfig):
        self._plan, self._pool, self._config = plan, pool, config
        self._trainer: PipelineTrainer | None = None

    @property
    def _now(self) -> PipelineTrainer:
        assert self._trainer is not None
        return self._trainer

    @property
    def step(self) -> int:
        return self._now.step

    @property
    def age(self) -> int:
        return int(self._now.save(last=False)[0]["learner"][f"age/{self._pool}"][0])

    def begin(self, seed: int, settings: Mapping[str, float], learner: Arrays | None, source: str) -> None:
        self._config = dataclasses.replace(self._config, seed=seed)
        self._trainer = PipelineTrainer(self._config)
        self._trainer.load_starting_points()
        if learner is not None:
            self._trainer.adopt(learner, source)

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        with tempfile.TemporaryDirectory() as folder:
            run = RunDirectory.create(Path(folder) / "run", to_json(self._config))
            try:
                with self._now.working(run, run.log, run.log):
                    yield
            finally:
                run.release()

    def iterate(self) -> None:
        self._now.iterate()

    def oppose(self, opponents: Mapping[str, Arrays]) -> None:
        """Environments of Gymnasium have a single agent."""

    def judge(self) -> Evaluation:
        plan, trainer = self._plan, self._now
        options = self._config.env_options
        return evaluate_in_gymnasium(
            trainer.policies, trainer.actors, plan.train.env, options, plan.episodes, seed=plan.ranking_seed
        )

    def save(self) -> tuple[TrainConfig, Parts, dict[str, Any]]:
        parts, facts = self._now.save(last=False)
        return self._config, parts, facts


def actor_of(arrays: Arrays, pool: str) -> dict[str, np.ndarray]:
    """What acts by one policy, out of the part of a checkpoint."""
    return under(arrays, pool)
