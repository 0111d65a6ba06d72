"""`slipstream eval`: how good the policies of a run are."""

from __future__ import annotations

from dataclasses import dataclass

import tyro


@dataclass(frozen=True)
class Eval:
    """Play whole episodes with the policies of a run and report their returns.

    Every world plays exactly one episode, so that short ones do not count more often than long ones.
    """

    run: tyro.conf.Positional[str]
    """Directory of the run."""
    episodes: int = 100
    """How many episodes to play."""
    seed: int = 1_000_003
    """Randomness of the worlds."""
    explore: bool = False
    """Sample actions instead of taking the best one."""
    checkpoint: str = "best"
    """Which weights: best, latest, or a checkpoint's name."""
    backend: str = "auto"
    """What compiles the worlds."""
    json: bool = False
    """Print JSON instead of a table."""


def run(options: Eval) -> int:
    from slipstream.cli.values import strict_json
    from slipstream.envs.registry import make
    from slipstream.runs.directory import RunDirectory
    from slipstream.training.config import TrainConfig
    from slipstream.training.evaluate import evaluate
    from slipstream.training.loading import load_policies

    if options.episodes < 1:
        raise ValueError(f"--episodes must be at least 1, got {options.episodes}.")
    directory = RunDirectory.open(options.run)
    config = TrainConfig.from_json(directory.config())
    policies, states = load_policies(directory, options.checkpoint)
    worlds = make(config.env, options.episodes, options.seed, options.backend, **dict(config.env_options))
    result = evaluate(policies, states, worlds, explore=options.explore, seed=options.seed)
    if options.json:
        print(strict_json({"run": options.run, "env": config.env, **result.to_json()}))
        return 0
    _show(config.env, result)
    return 0


def _show(env: str, result) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("group", "return", "standard error", "lowest", "highest", title=f"{env}, {result.episodes} episodes")
    for name, score in result.groups.items():
        table.add_row(
            name,
            f"{score.mean:.2f}",
            f"{score.standard_error:.2f}",
            f"{score.minimum:.2f}",
            f"{score.maximum:.2f}",
        )
    console = Console()
    console.print(table)
    console.print(f"Episode length {result.length:.1f} +- {result.length_standard_error:.1f} steps")
