"""`slipstream train`: train policies in a world."""

from __future__ import annotations

import dataclasses
import json as json_module
import shlex
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from slipstream.algos.settings import ALGORITHMS

if TYPE_CHECKING:
    from slipstream.training.config import TrainConfig


def _help_of_set() -> str:
    names = {algo: [f.name for f in dataclasses.fields(e.settings)] for algo, e in ALGORITHMS.items()}
    shared = [n for n in next(iter(names.values())) if all(n in others for others in names.values())]
    own = [f"{algo}: {', '.join(n for n in known if n not in shared)}" for algo, known in names.items()]
    return (
        "A setting of the algorithm, as name=value, or policy.name=value for one policy; may be repeated. "
        f"The settings are {', '.join(shared)}; {'; '.join(own)}."
    )


@dataclass(frozen=True)
class Configured:
    """What to train; the options that `train` and `sweep` share."""

    env: tyro.conf.Positional[str | None] = None
    """Name of a world (see `slipstream envs`), path/to/file.py:Class or module:Class, or gym:ID for an environment that
    is registered with Gymnasium."""
    steps: int | None = None
    """Steps of all worlds together, rounded up to whole iterations."""
    seconds: float | None = None
    """Train for so long; without --steps there is no other limit."""
    worlds: int | None = None
    """How many copies of the world run at once."""
    rollout: int | None = None
    """Steps of every world between two updates."""
    processes: int | None = None
    """Share the worlds out between so many processes, each with a GPU or an equal part of the cores, that average their
    gradients (PPO and A2C in compiled worlds). On several hosts: see docs/parallel.md."""
    samplers: int | None = None
    """Processes that step environments of Gymnasium; by default as many as are measured to be best."""
    envs_per_sampler: int | None = None
    """Environments of Gymnasium that each of them steps; likewise."""
    tune: tyro.conf.FlagCreatePairsOff[bool] = False
    """Before training in compiled worlds, measure how many of them, and how large batches, are fastest here. In
    environments of Gymnasium, measure how large batches cost little, beside what is measured anyway."""
    no_tune: tyro.conf.FlagCreatePairsOff[bool] = False
    """Do not measure how many samplers and environments of Gymnasium are best, which is done by default: guess."""
    split_devices: tyro.conf.FlagCreatePairsOff[bool] = False
    """In environments of Gymnasium: let the critics learn on one device and the policy on another, at the same time. By
    default that is done on two cores of a CPU, with networks of 256 x 256 and more."""
    no_split_devices: tyro.conf.FlagCreatePairsOff[bool] = False
    """Never do that."""
    seed: int | None = None
    """The same seed on the same machine gives the same bits; 0 if none is given."""
    algo: Annotated[str | None, tyro.conf.arg(metavar=f"{{{','.join(ALGORITHMS)}}}")] = None
    """How policies learn; by default as the world's preset says."""
    option: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An option of the world, as name=value; may be repeated. `slipstream envs NAME` lists them."""
    schedule: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Coarse physics first: options of a robot task that hold until a step, as STEPS:name=value,name=value, such as
    8M:integrator=euler,self_contacts=0; then come the next --schedule, and in the end the task's own. Evaluations
    are always of the task itself. By default as the world's preset says; `none`: the task's own from the beginning."""
    set: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(help=_help_of_set())] = ()
    policy: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Who shares a policy, as name=group,group; by default every group has its own."""
    freeze: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A policy that acts but does not learn; may be repeated."""
    load: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Begin a policy from an earlier run, as policy=RUN or policy=RUN:POLICY; may be repeated. With --freeze it plays
    as it did there, whatever its algorithm."""
    network: str | None = None
    """An Equinox module instead of the usual network, as path/to/file.py:Class or module:Class."""
    stagger: bool = False
    """Begin the worlds at different points of their time limit, so that the first returns show early."""
    config: str | None = None
    """A JSON file with a whole configuration, such as a run's config.json; other options change it."""
    stop_at_return: float | None = None
    """End when the mean return of an evaluation reaches this."""
    evaluate_every: int | None = None
    """Iterations between two evaluations without exploration."""
    checkpoint_every: float | None = None
    """Seconds between two checkpoints (30); the first one comes with the first good evaluation, if that is sooner."""
    backend: Literal["auto", "llvm", "cuda"] | None = None
    """What compiles the worlds."""
    log: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Send the metrics to wandb or mlflow too (each says in its own documentation where to); may be repeated."""


@dataclass(frozen=True)
class Train(Configured):
    """Train policies in a world, and leave a run directory behind.

    For example `slipstream train cartpole`, or with more say in it
    `slipstream train tag-continuous --option num_runners=100 --worlds 256 --set learning_rate=0.001`,
    or with a world of your own `slipstream train my_world.py:MyWorld`.

    Ctrl-C saves the run and says how to go on. Values that are not given come from the world's preset.

    With --seeds there are several runs in one folder. The same command with the same --run goes on where it stopped:
    runs that are finished are kept, others are resumed, missing ones are started.
    """

    run: str | None = None
    """Directory of the run, or with --seeds the folder of the runs; by default a new one under runs/."""
    seeds: int | None = None
    """Train so many runs, with --seed and those that follow it."""
    at_once: int | None = None
    """How many of the --seeds share the machine, each on its own cores (1)."""
    resume: str | None = None
    """An earlier run to go on with; --steps, --seconds, --stop-at-return, --checkpoint-every and --processes may be
    given anew."""
    checkpoint: str | None = None
    """Where to resume from: latest (the default), best, or a checkpoint's name."""
    saved_source: bool = False
    """With --resume, take a world of your own as the run has kept it, not as its file is now."""
    quiet: bool = False
    """Show nothing while training."""
    watch: tyro.conf.FlagCreatePairsOff[bool] = False
    """Open a page beside it, in a process of its own, that shows the newest policy at play and the curves; its address
    is printed. See `slipstream watch`."""
    watch_port: int | None = None
    """Where that page is; by default 8080, or any other port that is free."""
    keep_watching: tyro.conf.FlagCreatePairsOff[bool] = False
    """With --watch, leave the page open when training has ended."""
    json: bool = False
    """Print the result as JSON."""


RESUMED = [
    "resume",
    "steps",
    "seconds",
    "stop_at_return",
    "checkpoint_every",
    "processes",
    "log",
    "checkpoint",
    "saved_source",
    "quiet",
    "watch",
    "watch_port",
    "keep_watching",
    "json",
]
"""Options that make sense with --resume."""


def run(options: Train) -> int:
    from slipstream.training.health import TrainingFailed

    _refuse_contradictions(options)
    if options.watch and options.resume is None and options.run is None:
        options = dataclasses.replace(options, run=_new_path(options))
    if options.seeds is not None:
        return _run_seeds(options, options.seeds)
    try:
        with _page_beside(options, options.resume or options.run):
            result = _train(options)
    except TrainingFailed as error:
        print(f"slipstream train: {error}", file=sys.stderr)
        return 1
    _report(result, options)
    return 0 if result.finished else 130


def _new_path(options: Train) -> str:
    """Where a run, or with --seeds several, will be: the page must know before they begin."""
    from slipstream.runs.directory import new_run_name
    from slipstream.training.api import RUNS
    from slipstream.training.several import new_folder

    config = configure(options)
    if options.seeds is not None:
        return str(new_folder(config, f"seeds{options.seeds}"))
    return str(Path(RUNS) / new_run_name(config.env, next(iter(config.policies.values())).algo, config.seed))


def _page_beside(options: Train, path: str | None) -> AbstractContextManager[None]:
    """Inside, there is a page that shows the run, if one is wanted."""
    if not options.watch or path is None:
        return nullcontext()
    from slipstream.cli.watch import page_beside

    return page_beside(path, options.watch_port, stays=options.keep_watching)


def _refuse_contradictions(options: Train) -> None:
    for flag in ("watch_port", "keep_watching"):
        if getattr(options, flag) and not options.watch:
            raise ValueError(f"--{flag.replace('_', '-')} is about the page beside training: it needs --watch.")
    if options.resume is not None:
        for field in dataclasses.fields(options):
            if getattr(options, field.name) != field.default and field.name not in RESUMED:
                flag = "a world" if field.name == "env" else f"--{field.name.replace('_', '-')}"
                raise ValueError(f"--resume goes on with a run as it was: {flag} cannot be given beside it.")
        return
    for flag in ("checkpoint", "saved_source"):
        if getattr(options, flag):
            raise ValueError(f"--{flag.replace('_', '-')} says how to resume a run: it needs --resume.")
    if options.at_once is not None and options.seeds is None:
        raise ValueError("--at-once says how many of several runs share the machine: it needs --seeds.")


def _train(options: Train) -> Any:
    from slipstream.training.api import train

    if options.resume is None:
        return train(configure(options), run=options.run, quiet=options.quiet)
    names = {"total_steps": "steps", "total_seconds": "seconds"}
    changes = {
        n: getattr(options, names.get(n, n)) for n in (*names, "stop_at_return", "checkpoint_every", "processes")
    }
    given = {name: value for name, value in changes.items() if value is not None}
    if options.log:
        given["log"] = options.log
    where = options.checkpoint or "latest"
    given["saved_source"] = options.saved_source
    return train(resume=options.resume, checkpoint=where, quiet=options.quiet, **given)


def _run_seeds(options: Train, seeds: int) -> int:
    from slipstream.cli.outcomes import command_line, exit_code, say_failures, seeds_for_programs, show_end, show_seeds
    from slipstream.training.several import train_seeds

    at_once = 1 if options.at_once is None else options.at_once
    with _page_beside(options, options.run):
        outcomes = train_seeds(configure(options), seeds, run=options.run, at_once=at_once, quiet=options.quiet)
    folder = str(Path(outcomes[0].run).parent)
    if options.quiet:
        say_failures("train", outcomes)
    if options.json:
        print(seeds_for_programs(folder, outcomes))
    elif not options.quiet:
        show_seeds(outcomes)
        show_end(outcomes, folder, command_line("train", dataclasses.replace(options, run=folder)))
    return exit_code(outcomes)


def configure(options: Configured, varied: Mapping[str, Any] | None = None) -> TrainConfig:
    """The configuration that the options describe.

    Args:
        options: what was asked for.
        varied: further values by their plain names (those of a sweep), which the options must not give as well.
    """
    from slipstream.cli.values import parse_assignments
    from slipstream.training.choices import default_config, with_changes
    from slipstream.training.config_json import from_json

    settings = parse_assignments("--set", options.set)
    common = {n: v for n, v in settings.items() if "." not in n}
    env_options = parse_assignments("--option", options.option)
    changes = {
        "num_worlds": options.worlds,
        "rollout_length": options.rollout,
        "processes": options.processes,
        "samplers": options.samplers,
        "envs_per_sampler": options.envs_per_sampler,
        "tune": True if options.tune else False if options.no_tune else None,
        "split_devices": True if options.split_devices else False if options.no_split_devices else None,
        "total_steps": options.steps,
        "total_seconds": options.seconds,
        "seed": options.seed,
        "stagger": options.stagger or None,
        "network": options.network,
        "stop_at_return": options.stop_at_return,
        "evaluate_every": options.evaluate_every,
        "checkpoint_every": options.checkpoint_every,
        "backend": options.backend,
        "schedule": () if options.schedule == ("none",) else options.schedule or None,
        "log": options.log or None,
    }
    given = {name: value for name, value in changes.items() if value is not None}
    for name in varied or {}:
        if name in given | common | env_options:
            raise ValueError(f"{name} is both given and varied: do one or the other.")
    given |= varied or {}
    if options.config is None:
        if options.env is None:
            raise ValueError("Name a world to train in (see `slipstream envs`), or a run to --resume.")
        config = default_config(options.env, algo=options.algo, settings=common, env_options=env_options, **given)
    else:
        for name in ("env", "algo"):
            if getattr(options, name) is not None:
                raise ValueError(f"A --config says its own {name}: give one or the other.")
        file = Path(options.config)
        try:
            config = from_json(json_module.loads(file.read_text()))
        except OSError as error:
            raise ValueError(f"Could not read {file}: {error.strerror}.") from error
        except ValueError as error:
            raise ValueError(f"{file} is not a training configuration: {error}") from error
        config = with_changes(config, {**given, **common})
        config = dataclasses.replace(config, env_options={**config.env_options, **env_options})
    return _with_policies(config, options, {n: v for n, v in settings.items() if "." in n})


def _with_policies(config: TrainConfig, options: Configured, settings: Mapping[str, Any]) -> TrainConfig:
    """The configuration with the policies that the options describe."""
    from slipstream.cli.values import parse_pairs
    from slipstream.training.config_json import make_settings

    policies = dict(config.policies)
    for name, groups in parse_pairs("--policy", options.policy).items():
        members = tuple(groups.split(","))
        template = next(iter(config.policies.values()))
        policies = {n: p for n, p in policies.items() if not set(p.groups) & set(members)}
        policies[name] = dataclasses.replace(template, groups=members)

    def known(name: str) -> str:
        if name not in policies:
            raise ValueError(f"There is no policy {name!r}; the policies are {', '.join(policies)}.")
        return name

    for name, value in settings.items():
        policy, _, setting = name.partition(".")
        old = policies[known(policy)]
        new = make_settings(old.algo, {setting: value}, old.settings)
        policies[policy] = dataclasses.replace(old, settings=new)
    for name in options.freeze:
        policies[name] = dataclasses.replace(policies[known(name)], frozen=True)
    for name, source in parse_pairs("--load", options.load).items():
        policies[name] = dataclasses.replace(policies[known(name)], load=source)
    return dataclasses.replace(config, policies=policies)


def _report(result: Any, options: Train) -> None:
    from slipstream.cli.values import strict_json

    if options.json:
        print(strict_json(dataclasses.asdict(result)))
        return
    if options.quiet:
        return
    returns = ", ".join(f"{group} {value:.1f}" for group, value in result.returns.items())
    say = "Finished" if result.finished else "Stopped and saved"
    print(f"{say} after {result.step:,} steps and {result.seconds:.1f} s. Return: {returns or 'no episode ended'}.")
    if result.evaluation is not None:
        for group, score in result.evaluation.groups.items():
            mean = f"{score.mean:.1f} +- {score.standard_error:.1f}"
            print(f"Evaluated over {result.evaluation.episodes} episodes: {group} {mean}")
    print(f"Run: {result.run}")
    next_step = "eval" if result.finished else "train --resume"
    print(f"Go on with: slipstream {next_step} {shlex.quote(result.run)}")
