"""`slipstream.train`: a run from Python, with the same defaults as from the command line."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from slipstream.arrays import array_types
from slipstream.runs.checkpoint import checkpoint_names, load_checkpoint
from slipstream.runs.directory import RunDirectory, new_run_name
from slipstream.runs.metrics import MetricsFile, TensorBoard, forget_after
from slipstream.training.choices import AnyEnv, default_config, groups_of, with_changes
from slipstream.training.config import FusedConfig, PipelineConfig, TrainConfig
from slipstream.training.config_json import changed, from_json, to_json
from slipstream.training.display import Display
from slipstream.training.evaluate import Judge
from slipstream.training.fused import FusedTrainer
from slipstream.training.fused_tuning import tuned
from slipstream.training.health import Health
from slipstream.training.loop import Loop, Result, Row, Sink
from slipstream.training.pipeline.trainer import PipelineTrainer
from slipstream.training.policies import check_policies
from slipstream.training.source import from_anywhere, keep_source, world_of
from slipstream.training.starting import with_opponents

RUNS = "runs"
"""Where runs go when no directory is named."""

RESUMABLE = ("total_steps", "total_seconds", "stop_at_return", "checkpoint_every")
"""What may change when a run goes on."""

Callback = Callable[[Row], bool | None]


def train(
    env: AnyEnv | TrainConfig | None = None,
    *,
    run: str | Path | None = None,
    resume: str | Path | None = None,
    checkpoint: str = "latest",
    quiet: bool = False,
    callback: Callback | None = None,
    saved_source: bool = False,
    **options: Any,
) -> Result:
    """Train policies, and leave a run directory behind.

    Args:
        env: a world: its name, an `Env` class or object; or a whole `TrainConfig`. With `resume`, only needed for a
            world that was defined in a notebook.
        run: the directory of the run; by default a new one under `runs/`.
        resume: an earlier run to go on with, bit for bit as if it had not stopped.
        checkpoint: where to go on from: `latest`, `best`, or a checkpoint's name.
        quiet: show nothing.
        callback: is given every row of metrics, a mapping from names to numbers; the run stops when it returns True.
        saved_source: with `resume`, take a world of the user's own as the run has kept it, not as its file is now.
        **options: see `default_config`: `train("cartpole", seed=3, learning_rate=1e-3, hidden=(32, 32))`. With a
            `TrainConfig` they change it; with `resume` only what a run can go on with may change.
    """
    if resume is not None:
        if isinstance(env, TrainConfig) or run is not None:
            raise ValueError("A resumed run has its own configuration and directory: give none beside it.")
        return _resume(Path(resume), env, checkpoint, saved_source, quiet, callback, options)
    if env is None:
        raise ValueError("Name a world to train in, or a run to resume.")
    if checkpoint != "latest" or saved_source:
        raise ValueError("checkpoint and saved_source say how to resume: they need a run to resume.")
    config = with_changes(env, options) if isinstance(env, TrainConfig) else default_config(env, **options)
    config = with_opponents(from_anywhere(config))
    world = config.env if isinstance(env, str | TrainConfig) or isinstance(config.driver, PipelineConfig) else env
    _check_backend(config)  # what keeps a backend from starting is said before anything else
    check_policies(groups_of(world, config), config.policies)
    algo = next(iter(config.policies.values())).algo
    path = Path(run) if run is not None else Path(RUNS) / new_run_name(config.env, algo, config.seed)
    with Display(config, quiet) as display:
        if isinstance(config.driver, FusedConfig) and config.driver.tune:
            config = tuned(config, world, display.say)
        trainer = _trainer(config, world)
        trainer.load_starting_points()
        directory = RunDirectory.create(path, to_json(config))
        try:
            keep_source(directory, config)
            directory.log(f"started: {config.env} with seed {config.seed}")
            for note in trainer.worlds.env.notes if isinstance(trainer, FusedTrainer) else ():
                directory.log(note)
                display.say(note)
            return _run(trainer, directory, display, callback, world, None, 0.0)
        finally:
            directory.release()


def _resume(
    path: Path,
    env: AnyEnv | None,
    checkpoint: str,
    saved_source: bool,
    quiet: bool,
    callback: Callback | None,
    options: Mapping[str, Any],
) -> Result:
    if unknown := [name for name in options if name not in RESUMABLE]:
        raise ValueError(f"A resumed run keeps its settings; only {', '.join(RESUMABLE)} can change, not {unknown[0]}.")
    directory = RunDirectory.open(path)
    directory.claim()
    try:
        config = changed(from_json(directory.config()), options)
        _check_backend(config)
        found = (
            load_checkpoint(directory, checkpoint) if checkpoint != "latest" or checkpoint_names(directory) else None
        )
        with Display(config, quiet) as display:
            world = world_of(directory, config, saved_source, display.warn) if env is None else env
            trainer = _trainer(config, world)
            seconds = 0.0
            if found is None:
                trainer.load_starting_points()
            else:
                trainer.restore(found, f"Checkpoint {found.name} of {path}")
                seconds = float(found.facts["seconds"])
            if options:
                directory.write_config(to_json(config))
            forget_after(directory, trainer.iteration)
            directory.log(f"resumed at step {trainer.step}")
            return _run(trainer, directory, display, callback, world, trainer.step, seconds)
    finally:
        directory.release()


def _check_backend(config: TrainConfig) -> None:
    if isinstance(config.driver, FusedConfig):
        array_types(config.backend)


def _trainer(config: TrainConfig, world: AnyEnv) -> FusedTrainer | PipelineTrainer:
    if isinstance(config.driver, FusedConfig):
        return FusedTrainer(config, world)
    return PipelineTrainer(config, str(world))


def _run(
    trainer: FusedTrainer | PipelineTrainer,
    directory: RunDirectory,
    display: Display,
    callback: Callback | None,
    env: AnyEnv,
    from_step: int | None,
    seconds: float,
) -> Result:
    def warn(text: str) -> None:
        directory.log(f"warning: {text}")
        display.warn(text)

    sinks: list[Sink] = [MetricsFile(directory), TensorBoard(directory, from_step), display]
    if callback is not None:
        sinks.append(CallbackSink(callback))
    try:
        if isinstance(trainer, FusedTrainer):
            judge = Judge(trainer.config, trainer.policies, env)
            return Loop(trainer, judge, directory, sinks, Health(warn), seconds)()
        with trainer.working(directory, warn, display.say):
            return Loop(trainer, trainer, directory, sinks, Health(warn), seconds)()
    finally:
        for sink in sinks:
            sink.close()


@dataclasses.dataclass(frozen=True)
class CallbackSink:
    """A user's function as a sink."""

    function: Callback

    def report(self, row: Row) -> bool:
        return bool(self.function(row))

    def close(self) -> None: ...
