"""`slipstream eval`: how good the policies of a run are."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import tyro

EPISODES, EPISODES_ELSEWHERE = 100, 20


@dataclass(frozen=True)
class Eval:
    """Play whole episodes with the policies of a run and report their returns.

    Every world plays exactly one episode, so that short ones do not count more often than long ones. With
    `--in gymnasium` the policy is also played in Gymnasium's own environment, with `--in mujoco` (any robot) under the
    same rules, but moved by MuJoCo's own engine with all contacts of the file. A run that was trained in an environment
    of Gymnasium is played there, and nowhere else.
    """

    run: tyro.conf.Positional[str]
    """Directory of the run."""
    in_: Annotated[Literal["slipstream", "gymnasium", "mujoco"], tyro.conf.arg(name="in")] = "slipstream"
    """Where to play: only here, or in unmodified Gymnasium or in MuJoCo's engine too."""
    episodes: int | None = None
    """How many episodes to play; by default 100, and 20 wherever Gymnasium or MuJoCo has a part in it."""
    seed: int = 1_000_003
    """Randomness of the worlds."""
    explore: bool = False
    """Sample actions instead of taking the best one."""
    with_: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(name="with")] = ()
    """Somebody else plays for a group, as group=RUN or group=RUN:POLICY; may be repeated."""
    option: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An option of the world other than in training, as name=value; may be repeated."""
    saved_source: bool = False
    """Take a world of your own as the run has kept it, not as its file is now."""
    checkpoint: str = "best"
    """Which weights: best, latest, or a checkpoint's name."""
    backend: str = "auto"
    """What compiles the worlds."""
    json: bool = False
    """Print JSON instead of a table."""


def run(options: Eval) -> int:
    from slipstream.cli.values import parse_assignments, parse_pairs, progress_bar, strict_json, warn
    from slipstream.envs.extras import robots_extra
    from slipstream.runs.directory import RunDirectory
    from slipstream.training.config import PipelineConfig
    from slipstream.training.config_json import from_json
    from slipstream.training.evaluate import evaluate, evaluation_worlds
    from slipstream.training.health import left_out
    from slipstream.training.in_gymnasium import evaluate_in_gymnasium, match
    from slipstream.training.loading import load_policies
    from slipstream.training.play import WorldsArena
    from slipstream.training.source import world_of

    if options.episodes is not None and options.episodes < 1:
        raise ValueError(f"--episodes must be at least 1, got {options.episodes}.")
    directory = RunDirectory.open(options.run)
    config = from_json(directory.config())
    at_home = isinstance(config.driver, PipelineConfig)  # in Gymnasium
    if at_home and options.in_ == "mujoco":
        raise ValueError("This run was trained in an environment of Gymnasium, where alone it can be played.")
    usual = EPISODES_ELSEWHERE if at_home or options.in_ != "slipstream" else EPISODES
    episodes = usual if options.episodes is None else options.episodes
    opponents = parse_pairs("--with", options.with_)
    policies, actors = load_policies(directory, options.checkpoint, opponents)
    world = world_of(directory, config, options.saved_source, warn)
    env_options = {**config.env_options, **parse_assignments("--option", options.option)}
    how: Any = {"explore": options.explore, "seed": options.seed}
    there = chosen = None
    if at_home:
        here = evaluate_in_gymnasium(policies, actors, world, env_options, episodes, warn=warn, **how)
    else:
        worlds = evaluation_worlds(world, episodes, options.seed, options.backend, **env_options)
        if options.in_ == "gymnasium":
            chosen = match(worlds.env, env_options)
            there = evaluate_in_gymnasium(policies, actors, chosen.name, chosen.kwargs, episodes, **how)
        elif options.in_ == "mujoco":
            with robots_extra():
                from slipstream.training.in_mujoco import evaluate_in_mujoco

            progress, shown = progress_bar()
            task = progress.add_task("in MuJoCo", total=None)
            with shown:
                there = evaluate_in_mujoco(
                    policies,
                    actors,
                    world,
                    env_options,
                    episodes,
                    tell=lambda step, most: progress.update(task, completed=step, total=most),
                    **how,
                )
        here = evaluate(policies, actors, WorldsArena(worlds), **how)
    for _, text in left_out(here.report):
        warn(f"{text}.")
    if options.json:
        result = {"run": options.run, "env": config.env, **here.to_json()}
        result |= {"with": opponents} if opponents else {}
        if there is not None:
            env = {} if chosen is None else {"env": dataclasses.asdict(chosen)}
            result[options.in_] = {**env, **there.to_json()}
        print(strict_json(result))
    elif there is None:
        _show(config.env, here, opponents)
    else:
        _show_side_by_side(config.env, None if chosen is None else chosen.id, options.in_, here, there)
        if chosen is not None and chosen.ignored:
            print(f"Gymnasium has no option {', '.join(chosen.ignored)}: it was played as it is.")
    return 0


def _show(env: str, result: Any, opponents: dict[str, str]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("group", "return", "standard error", "lowest", "highest", title=f"{env}, {result.episodes} episodes")
    for name, score in result.groups.items():
        table.add_row(name, *_numbers(score))
    console = Console()
    console.print(table)
    for group, source in opponents.items():
        console.print(f"{group} is played by {source}", highlight=False, soft_wrap=True)
    console.print(f"Episode length {result.length:.1f} +- {result.length_standard_error:.1f} steps")
    for name, value in result.report.items():
        console.print(f"{_words(name)} {value:.3f}")


def _show_side_by_side(env: str, chosen_id: str | None, elsewhere: str, here: Any, there: Any) -> None:
    from rich.console import Console
    from rich.table import Table

    place = {"gymnasium": "Gymnasium", "mujoco": "MuJoCo"}[elsewhere]
    also = f"in {place}" if chosen_id is None else f"as {chosen_id} in {place}"
    reports = [name for name in here.report if name in there.report and not name.startswith("reward_")]
    columns = ("in", "return", "lowest", "highest", "steps", *map(_words, reports))
    table = Table(*columns, title=f"{env} here and {also}, {here.episodes} episodes each")
    (score,), (other,) = here.groups.values(), there.groups.values()
    for where, result, found in (("slipstream", here, score), (elsewhere, there, other)):
        mean, error, lowest, highest = _numbers(found)
        reported = (f"{result.report[name]:.2f}" for name in reports)
        table.add_row(where, f"{mean} +- {error}", lowest, highest, f"{result.length:.1f}", *reported)
    console = Console()
    console.print(table)
    if score.mean > 0:
        console.print(f"In {place} it gets {other.mean / score.mean:.1%} of its return here.")


def _numbers(score: Any) -> tuple[str, ...]:
    return tuple(f"{x:.2f}" for x in (score.mean, score.standard_error, score.minimum, score.maximum))


def _words(name: str) -> str:
    return name.replace("_", " ").capitalize()
