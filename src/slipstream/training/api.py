"""`slipstream.train`: a run from Python, with the same defaults as from the command line."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipstream.envs.registry import make_env
from slipstream.runs.directory import RunDirectory, new_run_name
from slipstream.training.config import PolicyConfig, TrainConfig, make_settings
from slipstream.training.fused import FusedTrainer, Result, resume_trainer, run_training
from slipstream.training.policies import check_policies
from slipstream.training.presets import preset
from slipstream.training.progress import Display

RUNS = "runs"
"""Where runs go when no directory is named."""

DEFAULTS = ("num_worlds", "rollout_length", "total_steps", "evaluate_every")
"""What a preset says of a run, beside the world's options and the algorithm's settings."""


def default_config(
    env: str,
    *,
    algo: str = "ppo",
    settings: Mapping[str, Any] | None = None,
    policies: Mapping[str, PolicyConfig] | None = None,
    env_options: Mapping[str, Any] | None = None,
    **changes: Any,
) -> TrainConfig:
    """The preset of a world, with changes.

    Args:
        env: name of the world.
        algo: how the default policies learn.
        settings: changes to the algorithm's settings, for all default policies.
        policies: who learns and how; by default one policy for each group.
        env_options: options of the world.
        **changes: other fields of `TrainConfig`.
    """
    base = preset(env)
    options = {**base.env_options, **(env_options or {})}
    world = make_env(env, **options)
    chosen = make_settings(algo, settings or {}, base.settings(algo) if algo in ("ppo", "a2c") else None)
    if policies is None:
        policies = {g.name: PolicyConfig((g.name,), algo, chosen) for g in world.groups}  # type: ignore[arg-type]
    check_policies(world, policies)
    fields = {f.name for f in dataclasses.fields(TrainConfig)}
    if unknown := set(changes) - fields:
        raise ValueError(f"Unknown training setting {sorted(unknown)[0]!r}; the settings are {sorted(fields)}.")
    defaults = {name: getattr(base, name) for name in DEFAULTS}
    return TrainConfig(env=env, policies=policies, env_options=options, **{**defaults, **changes})


def train(
    env: str | TrainConfig | None = None,
    *,
    run: str | Path | None = None,
    resume: str | Path | None = None,
    checkpoint: str = "latest",
    quiet: bool = False,
    **options: Any,
) -> Result:
    """Train policies, and leave a run directory behind.

    Args:
        env: name of a world (or a whole `TrainConfig`).
        run: the directory of the run; by default a new one under `runs/`.
        resume: an earlier run to go on with, bit for bit as if it had not stopped.
        checkpoint: where to go on from: `latest`, `best`, or a checkpoint's name.
        quiet: show nothing.
        **options: see `default_config`; with `resume` only `total_steps` and `stop_at_return`.
    """
    if (env is None) == (resume is None):
        raise ValueError("Name a world to train in, or a run to resume.")
    if resume is not None:
        return _resume(Path(resume), checkpoint, quiet, options)
    config = env if isinstance(env, TrainConfig) else default_config(str(env), **options)
    algo = next(iter(config.policies.values())).algo
    path = Path(run) if run is not None else Path(RUNS) / new_run_name(config.env, algo, config.seed)
    trainer = FusedTrainer(config)
    directory = RunDirectory.create(path, config.to_json())
    directory.log(f"started: {config.env} with seed {config.seed}")
    try:
        return run_training(trainer, directory, _display(config, quiet), resumed=False)
    finally:
        directory.release()


def _resume(path: Path, checkpoint: str, quiet: bool, options: dict[str, Any]) -> Result:
    allowed = ("total_steps", "stop_at_return")
    if unknown := [name for name in options if name not in allowed]:
        raise ValueError(f"A resumed run keeps its settings; only {', '.join(allowed)} can change, not {unknown[0]}.")
    directory = RunDirectory.open(path)
    directory.claim()
    try:
        config = dataclasses.replace(TrainConfig.from_json(directory.config()), **options)
        trainer = resume_trainer(directory, config, checkpoint)
        directory.log(f"resumed at step {trainer.step}")
        return run_training(trainer, directory, _display(config, quiet), resumed=True)
    finally:
        directory.release()


def _display(config: TrainConfig, quiet: bool) -> Display:
    return Display(config.env, config.iterations * config.steps_per_iteration, quiet)
