"""`slipstream video`: a film of a robot."""

from __future__ import annotations

import json as json_module
from dataclasses import dataclass
from pathlib import Path

import tyro


@dataclass(frozen=True)
class Video:
    """Play an episode with the policy of a run and film it, with MuJoCo's renderer and without a screen."""

    run: tyro.conf.Positional[str]
    """Directory of the run."""
    out: str | None = None
    """The file to write, .gif or .mp4; by default video.gif in the run's directory."""
    steps: int | None = None
    """Stop after so many steps; by default at the end of the episode."""
    seed: int = 1_000_003
    """Randomness of the world."""
    option: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An option of the world other than in training, as name=value; may be repeated."""
    saved_source: bool = False
    """Take a world of your own as the run has kept it, not as its file is now."""
    checkpoint: str = "best"
    """Which weights: best, latest, or a checkpoint's name."""
    width: int = 480
    """Of the film, in pixels."""
    height: int = 320
    """Of the film, in pixels."""
    json: bool = False
    """Print which file was written as JSON."""


def run(options: Video) -> int:
    from slipstream.training.video import choose_renderer, record_episode, render, write_film

    choose_renderer()
    from slipstream.cli.values import parse_assignments, warn
    from slipstream.envs.registry import make
    from slipstream.runs.directory import RunDirectory
    from slipstream.training.config_json import from_json
    from slipstream.training.loading import load_policies
    from slipstream.training.source import world_of

    if options.width < 16 or options.height < 16:
        raise ValueError(f"A film must be at least 16 x 16 pixels, got {options.width} x {options.height}.")
    directory = RunDirectory.open(options.run)
    config = from_json(directory.config())
    policies, actors = load_policies(directory, options.checkpoint)
    world = world_of(directory, config, options.saved_source, warn)
    env_options = {**config.env_options, **parse_assignments("--option", options.option)}
    worlds = make(world, 1, options.seed, **env_options)
    episode = record_episode(policies, actors, worlds, options.steps)
    file = Path(options.out) if options.out else Path(options.run) / "video.gif"
    write_film(render(worlds.env, episode, options.width, options.height), file)
    steps = len(episode.qpos) - 1
    result = {"file": str(file), "steps": steps}
    print(json_module.dumps(result) if options.json else f"Wrote {file} ({steps} steps)")
    return 0
