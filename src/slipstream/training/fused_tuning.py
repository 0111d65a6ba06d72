"""How many worlds, and how large batches, run fastest in the fused loop: measured before a run that asks for it.

What is measured is speed alone. Presets have the numbers that were found to learn fastest; with more worlds, or larger
batches, there are fewer gradient steps for each sample.
"""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slipstream.algos.settings import OffPolicyConfig, PPOConfig, Settings
from slipstream.envs.registry import AnyEnv, env_name
from slipstream.training.config import FusedConfig, TrainConfig
from slipstream.training.fused import FusedTrainer
from slipstream.training.pipeline.tuning import climb, keep_on_this_machine, known_on_this_machine

WINDOW = 1.0
"""Seconds for which a choice is measured, at least."""

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""What is tried, times what the run would begin with."""


@dataclass(frozen=True)
class Measured:
    """What a choice came to."""

    num_worlds: int
    batch: int
    """Gradient steps per epoch (`minibatches`), or samples of a gradient step (`batch_size`)."""
    steps: float
    """In a second; 0 where there was not enough memory."""


def tuned(config: TrainConfig, env: AnyEnv, say: Callable[[str], None]) -> TrainConfig:
    """A configuration with the numbers that run fastest on this machine.

    Args:
        config: what to train.
        env: the world.
        say: is told what was measured.
    """
    key = _kind_of_run(config, env)
    found = known_on_this_machine().get(key)
    if found is None:
        found = _search(config, env)
        keep_on_this_machine(key, found)
        say(f"Measured on this machine:\n{_table(config, found)}")
    else:
        say(f"Measured on this machine in an earlier run:\n{_table(config, found)}")
    return _with(config, found["num_worlds"], found["batch"])


def _search(config: TrainConfig, env: AnyEnv) -> dict[str, Any]:
    measured: list[Measured] = []

    def measure(candidate: TrainConfig) -> float:
        driver, batch = _driver(candidate), _batch(candidate)
        known = [m.steps for m in measured if (m.num_worlds, m.batch) == (driver.num_worlds, batch)]
        if not known:
            measured.append(Measured(driver.num_worlds, batch, steps_per_second(candidate, env)))
        return known[0] if known else measured[-1].steps

    worlds, batch = _driver(config).num_worlds, _batch(config)
    worlds = _best(worlds, lambda n: measure(_with(config, n, batch)))
    if batch:
        # Small batches learn more from a sample: larger ones must compute more gradients in a second.
        weight = 1 if _replays(config) else 0
        batch = _best(batch, lambda n: measure(_with(config, worlds, n)) * n**weight)
    return {"num_worlds": worlds, "batch": batch, "measured": [vars(m) for m in measured]}


def _best(start: int, score: Callable[[int], float]) -> int:
    options = sorted({max(1, round(start * factor)) for factor in FACTORS})
    climber = climb(options, start)
    tried = next(climber)
    while True:
        try:
            tried = climber.send(score(tried))
        except StopIteration as end:
            return end.value


def steps_per_second(config: TrainConfig, env: AnyEnv) -> float:
    """How fast a configuration runs once it is compiled; 0 if there is not enough memory."""
    try:
        trainer = FusedTrainer(_eager(config), env)
    except ValueError:
        return 0.0
    for _ in range(2):
        trainer.iterate()
    began, before = time.perf_counter(), trainer.step
    while time.perf_counter() - began < WINDOW:
        trainer.iterate()
    return (trainer.step - before) / (time.perf_counter() - began)


def _eager(config: TrainConfig) -> TrainConfig:
    """The same, but it learns at once."""

    def eager(settings: Settings) -> Settings:
        return dataclasses.replace(settings, warm_up=0) if isinstance(settings, OffPolicyConfig) else settings

    policies = {n: dataclasses.replace(p, settings=eager(p.settings)) for n, p in config.policies.items()}
    return dataclasses.replace(config, policies=policies)


def _driver(config: TrainConfig) -> FusedConfig:
    assert isinstance(config.driver, FusedConfig)
    return config.driver


def _first(config: TrainConfig) -> Settings:
    """Whose batches are tuned; those of the other policies become the same number of times larger or smaller."""
    return next(p for p in config.policies.values() if not p.frozen).settings


def _replays(config: TrainConfig) -> bool:
    return isinstance(_first(config), OffPolicyConfig)


def _setting(settings: Settings) -> str | None:
    if isinstance(settings, PPOConfig):
        return "minibatches"
    return "batch_size" if isinstance(settings, OffPolicyConfig) else None


def _batch(config: TrainConfig) -> int:
    name = _setting(_first(config))
    return getattr(_first(config), name) if name else 0


def _with(config: TrainConfig, num_worlds: int, batch: int) -> TrainConfig:
    factor = batch / _batch(config) if batch else 1.0

    def scaled(settings: Settings) -> Settings:
        name = _setting(settings)
        if name is None or type(settings) is not type(_first(config)):
            return settings
        return dataclasses.replace(settings, **{name: max(1, round(getattr(settings, name) * factor))})

    policies = {n: dataclasses.replace(p, settings=scaled(p.settings)) for n, p in config.policies.items()}
    driver = dataclasses.replace(_driver(config), num_worlds=num_worlds)
    return dataclasses.replace(config, policies=policies, driver=driver)


def _kind_of_run(config: TrainConfig, env: AnyEnv) -> str:
    """Runs for which the same numbers are fastest, on this machine."""
    policies = [[p.algo, dataclasses.asdict(p.settings)] for p in config.policies.values()]
    kind = ["fused", env_name(env), dict(config.env_options), dataclasses.asdict(_driver(config)), policies]
    return json.dumps([*kind, *config.schedule[:1], config.backend, os.cpu_count()], default=str)


def _table(config: TrainConfig, found: dict[str, Any]) -> str:
    """What was measured, for people to read."""
    name = _setting(_first(config)) or ""
    lines = [f"  worlds  {name:>11}     steps/s"]
    for m in found["measured"]:
        best = (m["num_worlds"], m["batch"]) == (found["num_worlds"], found["batch"])
        batch = f"{m['batch']:,}" if name else ""
        lines.append(f"{m['num_worlds']:>8,}  {batch:>11}  {m['steps']:>10,.0f}{'  <- taken' if best else ''}")
    return "\n".join(lines)
