"""`slipstream train`: train policies in a world."""

from __future__ import annotations

import dataclasses
import json as json_module
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro


@dataclass(frozen=True)
class Train:
    """Train policies in a world, and leave a run directory behind.

    For example `slipstream train cartpole`, or with more say in it
    `slipstream train tag-continuous --option num_runners=100 --worlds 256 --set learning_rate=0.001`,
    or with a world of your own `slipstream train my_world.py:MyWorld`.

    Ctrl-C saves the run and says how to go on. Values that are not given come from the world's preset.
    """

    env: tyro.conf.Positional[str | None] = None
    """Name of a world (see `slipstream envs`), or path/to/file.py:Class."""
    steps: int | None = None
    """Steps of all worlds together."""
    worlds: int | None = None
    """How many copies of the world run at once."""
    rollout: int | None = None
    """Steps of every world between two updates."""
    seed: int = 0
    """The same seed on the same machine gives the same bits."""
    algo: Literal["ppo", "a2c"] = "ppo"
    """How policies learn."""
    option: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An option of the world, as name=value; may be repeated."""
    set: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A setting of the algorithm, as name=value, or policy.name=value for one policy; may be repeated."""
    policy: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Who shares a policy, as name=group,group; by default every group has its own."""
    freeze: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A policy that acts but does not learn; may be repeated."""
    load: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Begin a policy from an earlier run, as policy=RUN or policy=RUN:POLICY; may be repeated."""
    run: str | None = None
    """Directory of the run; by default a new one under runs/."""
    resume: str | None = None
    """An earlier run to go on with."""
    checkpoint: str = "latest"
    """Where to resume from: latest, best, or a checkpoint's name."""
    config: str | None = None
    """A JSON file with a whole configuration, such as a run's config.json."""
    stop_at_return: float | None = None
    """End when the mean return of an evaluation reaches this."""
    evaluate_every: int | None = None
    """Iterations between two evaluations without exploration."""
    backend: Literal["auto", "llvm", "cuda"] = "auto"
    """What compiles the worlds."""
    quiet: bool = False
    """Show nothing while training."""
    json: bool = False
    """Print the result as JSON."""


def run(options: Train) -> int:
    from slipstream.training.api import train

    if options.resume is not None:
        changes = {"total_steps": options.steps, "stop_at_return": options.stop_at_return}
        given = {name: value for name, value in changes.items() if value is not None}
        if options.env is not None or options.config is not None:
            raise ValueError("--resume goes on with a run as it was: give no world and no --config beside it.")
        result = train(resume=options.resume, checkpoint=options.checkpoint, quiet=options.quiet, **given)
    else:
        result = train(_config(options), run=options.run, quiet=options.quiet)
    _report(result, options)
    return 0 if result.finished else 130


def _config(options: Train) -> Any:
    from slipstream.training.api import default_config
    from slipstream.training.config import TrainConfig

    if options.config is not None:
        if options.env is not None:
            raise ValueError("Give a world or a --config, not both.")
        file = Path(options.config)
        try:
            return TrainConfig.from_json(json_module.loads(file.read_text()))
        except OSError as error:
            raise ValueError(f"Could not read {file}: {error.strerror}.") from error
        except ValueError as error:
            raise ValueError(f"{file} is not a training configuration: {error}") from error
    if options.env is None:
        raise ValueError("Name a world to train in (see `slipstream envs`), or a run to --resume.")
    from slipstream.cli.values import parse_assignments

    settings = parse_assignments("--set", options.set)
    common = {n: v for n, v in settings.items() if "." not in n}
    changes = {
        "num_worlds": options.worlds,
        "rollout_length": options.rollout,
        "total_steps": options.steps,
        "stop_at_return": options.stop_at_return,
        "evaluate_every": options.evaluate_every,
    }
    config = default_config(
        options.env,
        algo=options.algo,
        settings=common,
        env_options=parse_assignments("--option", options.option),
        seed=options.seed,
        backend=options.backend,
        **{name: value for name, value in changes.items() if value is not None},
    )
    return _with_policies(config, options, {n: v for n, v in settings.items() if "." in n})


def _with_policies(config: Any, options: Train, settings: dict[str, Any]) -> Any:
    """The configuration with the policies that the options describe."""
    from slipstream.cli.values import parse_pairs
    from slipstream.training.config import make_settings

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
    print(f"Go on with: slipstream {next_step} {result.run}")
