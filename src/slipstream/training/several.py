"""Several runs in one folder, each in a process of its own: seeds of a configuration, or whole configurations.

A run that fails takes no other one with it, and the same call again goes on where the last one stopped: what is
finished is kept, what is not is resumed, what is missing is started.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from slipstream.envs.env import Env
from slipstream.envs.registry import INTERACTIVE, AnyEnv, make_env
from slipstream.runs.checkpoint import best_score, newest
from slipstream.runs.directory import RunDirectory, RunError, new_run_name, writing
from slipstream.runs.metrics import read_columns
from slipstream.training.api import RESUMABLE, RUNS
from slipstream.training.board import Board
from slipstream.training.choices import default_config, with_changes
from slipstream.training.config import TrainConfig
from slipstream.training.config_json import from_json, to_json
from slipstream.training.cores import share_cores
from slipstream.training.health import Health, TrainingFailed
from slipstream.training.interrupt import Interrupt
from slipstream.training.member import FINISHED, STOPPED, Member, holds_run
from slipstream.training.policies import check_policies
from slipstream.training.schedule import check_schedule
from slipstream.training.source import from_anywhere, world_of
from slipstream.training.starting import with_opponents
from slipstream.training.team import COORDINATOR, Seat

GLANCE = 0.1
"""Seconds between two looks at the runs."""

INSIDE = "SLIPSTREAM_SEVERAL_RUNS"
"""Set in the environment while several runs are trained, and so in that of each of them."""

State = Literal["finished", "stopped", "failed", "not started"]


@dataclass(frozen=True)
class Outcome:
    """How one of several runs ended."""

    name: str
    """Its path within the folder."""
    run: str
    seed: int
    state: State
    step: int
    seconds: float
    returns: dict[str, float]
    """The last mean return in training, by group."""
    evaluation: dict[str, float]
    """The last mean return without exploration, by group."""
    error: str | None = None
    """Why it failed, in one line."""

    @property
    def finished(self) -> bool:
        return self.state == "finished"

    def __str__(self) -> str:
        if self.state == "failed":
            return f"failed: {self.error}"
        known = self.evaluation or self.returns
        returns = ", ".join(f"{group} {value:.1f}" for group, value in known.items()) or "no episode ended"
        return f"{self.state} after {self.step:,} steps and {self.seconds:.1f} s, return: {returns}"


def train_seeds(
    env: AnyEnv | TrainConfig,
    seeds: int = 3,
    *,
    run: str | Path | None = None,
    at_once: int = 1,
    quiet: bool = False,
    **options: Any,
) -> list[Outcome]:
    """Train one configuration with several seeds, as runs `seed0`, `seed1`, ... of one folder.

    Args:
        env: a world: its name or its class, in a file; or a whole `TrainConfig`.
        seeds: how many. The first one is `seed`, the others count on.
        run: the folder; by default a new one under `runs/`. Runs that are in it already are gone on with.
        at_once: how many runs share the machine.
        quiet: show nothing.
        **options: as for `slipstream.train`.
    """
    if isinstance(env, Env):
        raise ValueError(f"Several runs make their worlds themselves: give the class {type(env).__name__} instead.")
    config = with_changes(env, options) if isinstance(env, TrainConfig) else default_config(env, **options)
    folder = Path(run) if run is not None else new_folder(config, f"seeds{seeds}")
    return list(train_all(by_seed(config, seeds), folder, at_once=at_once, quiet=quiet).values())


def by_seed(config: TrainConfig, seeds: int) -> dict[str, TrainConfig]:
    """The same configuration with one seed after another."""
    _require_at_least_one("seeds", seeds)
    numbers = range(config.seed, config.seed + seeds)
    return {f"seed{number}": dataclasses.replace(config, seed=number) for number in numbers}


def new_folder(config: TrainConfig, kind: str) -> Path:
    """Where several runs go when no folder is named, such as `runs/cartpole-ppo-20260101-120000-seeds3`."""
    algo = next(iter(config.policies.values())).algo
    name = new_run_name(config.env, algo, config.seed)
    return Path(RUNS) / f"{name.removesuffix(f'-seed{config.seed}')}-{kind}"


def train_all(
    configs: Mapping[str, TrainConfig], folder: str | Path, *, at_once: int = 1, quiet: bool = False
) -> dict[str, Outcome]:
    """Train configurations, each as a run of one folder and in a process of its own.

    Nothing is started before all of them make sense. Ctrl-C saves those that are under way, and starts no more.

    Args:
        configs: by the name of the run, a path within the folder.
        folder: where to. Runs that are in it already are gone on with; only what a run can go on with may have changed.
        at_once: how many runs share the machine, each on cores of its own.
        quiet: show nothing.
    """
    _require_at_least_one("at_once", at_once)
    if Seat.from_environment() is not None:
        raise ValueError(f"Processes that {COORDINATOR} joins train a single run: leave several out, or unset it.")
    folder = Path(folder)
    if holds_run(folder):
        raise RunError(f"{folder} is itself a run: choose another folder for several.")
    with _not_from_within():
        configs = {name: with_opponents(from_anywhere(config)) for name, config in configs.items()}
        _check_worlds(configs.values())
        for name, config in configs.items():
            _check_same_run(folder / name, config)
        with _claimed(folder), Board(len(configs), quiet) as board, Interrupt() as interrupt:
            return _train_all(configs, folder, at_once, board, interrupt)


def _train_all(
    configs: Mapping[str, TrainConfig], folder: Path, at_once: int, board: Board, interrupt: Interrupt
) -> dict[str, Outcome]:
    outcomes: dict[str, Outcome] = {}
    for name, config in configs.items():
        done = is_finished(folder / name, config)
        outcomes[name] = _outcome(name, config, folder, "finished" if done else "not started")
        if done:
            board.end(name, f"was {outcomes[name]}")
        elif holds_run(folder / name):
            world_of(RunDirectory(folder / name), config, False, partial(_warn_of, board, name))
    waiting = [name for name, outcome in outcomes.items() if not outcome.finished]
    places = share_cores(min(at_once, len(waiting)))
    running: dict[str, tuple[Member, Health]] = {}
    try:
        while running or (waiting and not interrupt.requested):
            while waiting and places and not interrupt.requested:
                name = waiting.pop(0)
                member = Member(configs[name], folder / name, places.pop(0))
                running[name] = member, Health(partial(_warn_of, board, name))
                board.begin(name, configs[name])
            for name, (member, health) in list(running.items()):
                if interrupt.requested:
                    member.stop()
                over = not member.running
                for row in member.new_rows():
                    board.report(name, row)
                    with contextlib.suppress(TrainingFailed):  # the run itself notices too
                        health.examine(row)
                if over:
                    del running[name]
                    places.append(member.cores)
                    outcomes[name] = _how_it_ended(member, name, configs[name], folder)
                    board.end(name, str(outcomes[name]))
            time.sleep(GLANCE)
    finally:
        for member, _ in running.values():
            member.kill()
    return outcomes


def _warn_of(board: Board, name: str, text: str) -> None:
    board.warn(f"{name}: {text}")


def _how_it_ended(member: Member, name: str, config: TrainConfig, folder: Path) -> Outcome:
    code, error = member.end()
    if code == FINISHED or is_finished(folder / name, config):
        return _outcome(name, config, folder, "finished")
    return _outcome(name, config, folder, "stopped" if code == STOPPED else "failed", error)


# What is in the folder.


def is_finished(path: Path, config: TrainConfig) -> bool:
    """Whether a run has reached the goal or the end of the budget that a configuration gives it."""
    if not holds_run(path):
        return False
    run = RunDirectory(path)
    try:
        checkpoint, goal = newest(run), config.stop_at_return
        if checkpoint is None:
            return False
        out_of_steps = config.budget is not None and checkpoint.step >= config.budget
        out_of_time = config.total_seconds is not None and checkpoint.facts["seconds"] >= config.total_seconds
        return out_of_steps or out_of_time or (goal is not None and best_score(run) >= goal)
    except RunError:
        return False  # what is damaged is reported by the run itself as it is resumed


def _outcome(name: str, config: TrainConfig, folder: Path, state: State, error: str | None = None) -> Outcome:
    run = RunDirectory(folder / name)
    step, seconds = 0, 0.0
    with contextlib.suppress(RunError):
        if (checkpoint := newest(run)) is not None:
            step, seconds = checkpoint.step, float(checkpoint.facts["seconds"])
    columns = read_columns(run)

    def last(kind: str) -> dict[str, float]:
        known = {n.removeprefix(kind): c[np.isfinite(c)] for n, c in columns.items() if n.startswith(kind)}
        return {group: float(values[-1]) for group, values in known.items() if values.size}

    returns, evaluation = last("return/"), last("evaluation/")
    return Outcome(name, str(run.path), config.seed, state, step, seconds, returns, evaluation, error)


def _check_same_run(path: Path, config: TrainConfig) -> None:
    """Refuse a run that is there already but is not the one that is wanted."""
    if not holds_run(path):
        return
    both = (from_json(data) for data in (RunDirectory.open(path).config(), to_json(config)))
    fixed = [_flat({n: v for n, v in to_json(c).items() if n not in RESUMABLE}) for c in both]
    for name in dict.fromkeys((*fixed[0], *fixed[1])):
        was, wanted = (settings.get(name) for settings in fixed)
        if was != wanted:
            raise RunError(
                f"{path} already holds another run: its {name} is {was}, not {wanted}. Choose another --run folder."
            )


def _flat(value: Any, path: str = "") -> dict[str, str]:
    """Nested settings by the path to them, as JSON."""
    if not isinstance(value, Mapping) or not value:
        return {path: json.dumps(value)}
    return {p: v for n, inner in value.items() for p, v in _flat(inner, f"{path}.{n}" if path else str(n)).items()}


def _check_worlds(configs: Collection[TrainConfig]) -> None:
    """Refuse worlds that cannot be made, and policies that do not fit them."""
    seen: set[str] = set()
    for config in configs:
        if config.env.startswith(INTERACTIVE):
            world = config.env.partition(":")[2]
            raise ValueError(f"{world} was defined interactively: several runs need a world that is in a file.")
        key = json.dumps(to_json(dataclasses.replace(config, seed=0)), sort_keys=True)
        if key not in seen:
            seen.add(key)
            check_policies(make_env(config.env, **dict(config.env_options)).groups, config.policies)
            check_schedule(config.env, config)


@contextlib.contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    """Inside, nobody else trains in the folder."""
    with writing(folder, "create"):
        folder.mkdir(parents=True, exist_ok=True)
    lock = RunDirectory(folder)
    lock.claim()
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _not_from_within() -> Iterator[None]:
    """A file that defines a world is executed by each of the runs: it must not start several runs of its own."""
    if INSIDE in os.environ:
        raise RuntimeError(
            "Several runs were asked for while several are being trained. In a file that defines its own world, "
            'train under `if __name__ == "__main__":`.'
        )
    os.environ[INSIDE] = "1"
    try:
        yield
    finally:
        del os.environ[INSIDE]


def _require_at_least_one(name: str, value: int) -> None:
    if type(value) is not int or value < 1:
        raise ValueError(f"{name} must be a positive whole number, got {value!r}.")
