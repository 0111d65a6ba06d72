"""What a pod trains with: the fused driver or the pipeline, kept warm from one agent to the next."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from slipstream.algos.settings import Settings
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

    def close(self) -> None:
        """End; nobody will be trained here any more."""


def turned(plan: Plan, pool: str) -> list[str]:
    """Settings that can differ between agents without anything being compiled anew."""
    return sorted(plan.situation(pool, 1).ranges)


def fixed(plan: Plan, pool: str, settings: Mapping[str, float]) -> dict[str, float]:
    """Of an agent's settings, those that cannot be turned while it is trained."""
    free = turned(plan, pool)
    return {name: value for name, value in settings.items() if name not in free}


def with_settings(config: TrainConfig, seed: int, pool: str, settings: Settings) -> TrainConfig:
    """What an agent of a pool is trained by, if others before it were trained by `config`."""
    own = dataclasses.replace(config.policies[pool], settings=settings)
    return dataclasses.replace(config, seed=seed, policies={**config.policies, pool: own})


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
        self._turned = turned(plan, pool)
        self._judge = Judge(config, self._trainer.policies, seed=plan.ranking_seed)

    @property
    def step(self) -> int:
        return self._trainer.step

    @property
    def age(self) -> int:
        return self._trainer.ages[self._pool]

    def begin(self, seed: int, settings: Mapping[str, float], learner: Arrays | None, source: str) -> None:
        trainer = self._trainer
        trainer.begin_anew(seed)
        trainer.load_starting_points()
        chosen = self._plan.settings_of(self._pool, settings)
        trainer.dials = {self._pool: {name: float(getattr(chosen, name)) for name in self._turned}}
        self._config = with_settings(self._config, seed, self._pool, chosen)
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

    def close(self) -> None: ...


class PipelineTrainee:
    """Environments of Gymnasium in processes of their own, which wait from one agent to the next."""

    def __init__(self, plan: Plan, pool: str, config: TrainConfig):
        assert isinstance(config.driver, PipelineConfig)
        self._plan, self._pool, self._config = plan, pool, config
        # Agents are judged here, when their quantum is over.
        driver = dataclasses.replace(config.driver, evaluator_share=0.0, film_share=0.0)
        self._trainer = PipelineTrainer(dataclasses.replace(config, driver=driver))
        self._turned = turned(plan, pool)
        self._processes = contextlib.ExitStack()
        self._at_work = False

    @property
    def step(self) -> int:
        return self._trainer.step

    @property
    def age(self) -> int:
        return self._trainer.age

    def begin(self, seed: int, settings: Mapping[str, float], learner: Arrays | None, source: str) -> None:
        trainer = self._trainer
        trainer.begin_anew(seed)
        trainer.load_starting_points()
        chosen = self._plan.settings_of(self._pool, settings)
        trainer.learner.dials = {name: float(getattr(chosen, name)) for name in self._turned}
        self._config = with_settings(self._config, seed, self._pool, chosen)
        if learner is not None:
            trainer.adopt(learner, source)

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        if not self._at_work:
            folder = self._processes.enter_context(tempfile.TemporaryDirectory())
            run = RunDirectory.create(Path(folder) / "run", to_json(self._config))
            self._processes.callback(run.release)
            self._processes.enter_context(self._trainer.working(run, run.log, run.log))
            self._at_work = True
        else:
            self._trainer.go_on()
        try:
            yield
        finally:
            self._trainer.rest()

    def iterate(self) -> None:
        self._trainer.iterate()

    def oppose(self, opponents: Mapping[str, Arrays]) -> None:
        """Environments of Gymnasium have a single agent."""

    def judge(self) -> Evaluation:
        plan, trainer = self._plan, self._trainer
        options = self._config.env_options
        return evaluate_in_gymnasium(
            trainer.policies, trainer.actors, plan.train.env, options, plan.episodes, seed=plan.ranking_seed
        )

    def save(self) -> tuple[TrainConfig, Parts, dict[str, Any]]:
        parts, facts = self._trainer.save(last=False)
        return self._config, parts, facts

    def close(self) -> None:
        self._processes.close()


def actor_of(arrays: Arrays, pool: str) -> dict[str, np.ndarray]:
    """What acts by one policy, out of the part of a checkpoint."""
    return under(arrays, pool)
