"""`slipstream.train`: a run from Python, with the same defaults as from the command line."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from slipstream.arrays import array_types
from slipstream.envs.env import Env
from slipstream.envs.registry import INTERACTIVE, env_name
from slipstream.runs.checkpoint import checkpoint_names, load_checkpoint
from slipstream.runs.directory import RunDirectory, new_run_name
from slipstream.runs.metrics import MetricsFile, TensorBoard, forget_after
from slipstream.runs.trackers import Tracker, check_trackers
from slipstream.training.choices import AnyEnv, check_config, default_config, with_changes
from slipstream.training.config import FusedConfig, PipelineConfig, TrainConfig
from slipstream.training.config_json import changed, from_json, to_json
from slipstream.training.display import Display
from slipstream.training.evaluate import Judge
from slipstream.training.fused import FusedTrainer
from slipstream.training.fused_tuning import tuned
from slipstream.training.health import Health
from slipstream.training.launch import train_in_processes
from slipstream.training.loop import Loop, Result, Row, Sink
from slipstream.training.parallel import ParallelTrainer, follow
from slipstream.training.pipeline.trainer import PipelineTrainer
from slipstream.training.source import from_anywhere, keep_source, world_of
from slipstream.training.starting import with_opponents
from slipstream.training.team import PROCESSES, Seat, Team, assemble
from slipstream.training.threads import one_thread_is_enough, start_jax

RUNS = "runs"
"""Where runs go when no directory is named."""

RESUMABLE = ("total_steps", "total_seconds", "stop_at_return", "checkpoint_every", "log")
"""What may change when a run goes on."""

AnyTrainer = FusedTrainer | PipelineTrainer | ParallelTrainer

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
    seat = Seat.from_environment()
    team = None if seat is None else assemble(seat)
    request = {"run": run, "resume": resume, "checkpoint": checkpoint, "quiet": quiet, "saved_source": saved_source}
    if team is None:
        return _train(None, env, callback=callback, options=options, **request)
    return train_in_team(team, env, callback=callback, options=options, **request)


def train_in_team(team: Team, env: AnyEnv | TrainConfig | Mapping[str, Any] | None = None, **request: Any) -> Result:
    """What `train` does, as one of several processes: all return what process 0 does.

    Args:
        team: the processes.
        env: as for `train`, or a configuration as plain data; of process 0 alone, like what follows.
        **request: the other arguments of `train`, with those of the configuration as `options`.
    """
    with team.working():
        if team.seat.number:
            return follow(team)
        team.on_stop = lambda: os.kill(os.getpid(), signal.SIGTERM)
        known = from_json(env) if isinstance(env, Mapping) else env
        return _train(team, known, **request)


def _train(
    team: Team | None,
    env: AnyEnv | TrainConfig | None,
    *,
    run: str | Path | None,
    resume: str | Path | None,
    checkpoint: str,
    quiet: bool,
    callback: Callback | None,
    saved_source: bool,
    options: Mapping[str, Any],
) -> Result:
    if resume is not None:
        if isinstance(env, TrainConfig) or run is not None:
            raise ValueError("A resumed run has its own configuration and directory: give none beside it.")
        return _resume(team, Path(resume), env, checkpoint, saved_source, quiet, callback, options)
    if env is None:
        raise ValueError("Name a world to train in, or a run to resume.")
    if checkpoint != "latest" or saved_source:
        raise ValueError("checkpoint and saved_source say how to resume: they need a run to resume.")
    config = with_changes(env, options) if isinstance(env, TrainConfig) else default_config(env, **options)
    config = _for_team(team, with_opponents(from_anywhere(config)))
    check_trackers(config.log)
    world = config.env if isinstance(env, str | TrainConfig) or isinstance(config.driver, PipelineConfig) else env
    algo = next(iter(config.policies.values())).algo
    path = Path(run) if run is not None else Path(RUNS) / new_run_name(config.env, algo, config.seed)
    if team is None and (count := _processes(config)) > 1:
        _require_name(world)
        check_config(world, config)
        job = {"env": to_json(config), "run": str(path), "resume": None, "checkpoint": "latest", "saved_source": False}
        return train_in_processes({**job, "quiet": quiet, "options": {}}, path, count, config.backend, callback)
    _start_backend(config)  # what keeps a backend from starting is said before anything else
    check_config(world, config)
    with Display(config, quiet) as display:
        if isinstance(config.driver, FusedConfig) and config.driver.tune:
            config = tuned(config, world, display.say)
        trainer = _trainer(team, config, world)
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
    team: Team | None,
    path: Path,
    env: AnyEnv | None,
    checkpoint: str,
    saved_source: bool,
    quiet: bool,
    callback: Callback | None,
    options: Mapping[str, Any],
) -> Result:
    if unknown := [name for name in options if name not in (*RESUMABLE, "processes")]:
        known = ", ".join((*RESUMABLE, "processes"))
        raise ValueError(f"A resumed run keeps its settings; only {known} can change, not {unknown[0]}.")
    directory = RunDirectory.open(path)
    before = from_json(directory.config())
    config = changed(before, {name: value for name, value in options.items() if name != "processes"})
    config = _for_team(team, _with_processes(config, options.get("processes")))
    check_trackers(config.log)
    if team is None and (count := _processes(config)) > 1:
        _require_name(config.env if env is None else env)
        job = {"env": env, "resume": str(path), "run": None, "checkpoint": checkpoint, "saved_source": saved_source}
        return train_in_processes(
            {**job, "quiet": quiet, "options": dict(options)}, path, count, config.backend, callback
        )
    directory.claim()
    try:
        _start_backend(config)
        found = (
            load_checkpoint(directory, checkpoint) if checkpoint != "latest" or checkpoint_names(directory) else None
        )
        with Display(config, quiet) as display:
            world = world_of(directory, config, saved_source, display.warn) if env is None else env
            trainer = _trainer(team, config, world)
            seconds = 0.0
            if found is None:
                trainer.load_starting_points()
            else:
                trainer.restore(found, f"Checkpoint {found.name} of {path}")
                seconds = float(found.facts["seconds"])
            if config != before:
                directory.write_config(to_json(config))
            forget_after(directory, trainer.iteration)
            directory.log(f"resumed at step {trainer.step}")
            return _run(trainer, directory, display, callback, world, trainer.step, seconds)
    finally:
        directory.release()


# Processes.


def _processes(config: TrainConfig) -> int:
    return config.driver.processes if isinstance(config.driver, FusedConfig) else 1


def _with_processes(config: TrainConfig, processes: int | None) -> TrainConfig:
    if processes is None:
        return config
    if not isinstance(config.driver, FusedConfig):
        raise ValueError(f"{config.env} runs in the pipeline, which has processes of its own: leave --processes out.")
    return dataclasses.replace(config, driver=config.driver.dealt_to(processes))


def _for_team(team: Team | None, config: TrainConfig) -> TrainConfig:
    """The configuration for the processes that there are."""
    if team is None or _processes(config) == team.seat.count:
        return config
    if _processes(config) > 1:
        raise ValueError(f"{_processes(config)} processes are wanted, and {PROCESSES} says {team.seat.count}.")
    return _with_processes(config, team.seat.count)


def _require_name(world: AnyEnv) -> None:
    """Refuse worlds that other processes cannot find."""
    if not isinstance(world, str) and (isinstance(world, Env) or env_name(world).startswith(INTERACTIVE)):
        raise ValueError(f"Several processes make their worlds themselves: {world!r} must be a class in a file.")


def _start_backend(config: TrainConfig) -> None:
    """Start what steps compiled worlds, and JAX with the threads that suit what is learned."""
    if isinstance(config.driver, FusedConfig):
        start_jax(one_thread=one_thread_is_enough(config.policies.values()))
        array_types(config.backend)


def _trainer(team: Team | None, config: TrainConfig, world: AnyEnv) -> AnyTrainer:
    if team is not None:
        return ParallelTrainer(team, config, world if isinstance(world, str) else env_name(world))
    if isinstance(config.driver, FusedConfig):
        return FusedTrainer(config, world)
    return PipelineTrainer(config, str(world))


def _run(
    trainer: AnyTrainer,
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
    sinks += [Tracker(name, directory, to_json(trainer.config), warn) for name in trainer.config.log]
    if callback is not None:
        sinks.append(CallbackSink(callback))
    try:
        if not isinstance(trainer, PipelineTrainer):
            judge = Judge(trainer.config, trainer.policies, env)
            result = Loop(trainer, judge, directory, sinks, Health(warn), seconds)()
            if isinstance(trainer, ParallelTrainer):
                trainer.end(result)
            return result
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
