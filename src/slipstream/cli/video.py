"""`slipstream video`: a film of an episode."""

from __future__ import annotations

import json as json_module
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro


@dataclass(frozen=True)
class Video:
    """Play an episode with the policies of a run and film it, without a screen; with --grid, several side by side.

    Robots are drawn by MuJoCo's renderer, other worlds by their own method `draw` (docs/your-first-world.md), and
    environments of Gymnasium by themselves (render_mode="rgb_array").
    """

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
    grid: int = 1
    """Film so many worlds side by side; one whose episode has ended waits for the others."""
    width: int | None = None
    """Of the film, in pixels (480, or 960 with --grid); an environment of Gymnasium keeps its proportions."""
    height: int | None = None
    """Of the film, in pixels (320, or 640 with --grid)."""
    json: bool = False
    """Print which file was written as JSON."""


def run(options: Video) -> int:
    from slipstream.training.film import choose_renderer, grid_form

    choose_renderer()
    from slipstream.cli.values import parse_assignments, warn
    from slipstream.runs.directory import RunDirectory
    from slipstream.training.config import PipelineConfig
    from slipstream.training.config_json import from_json
    from slipstream.training.source import world_of

    if options.grid < 1:
        raise ValueError(f"--grid must be at least 1, got {options.grid}.")
    width, height = _size(options)
    if width < 16 or height < 16:
        raise ValueError(f"A film must be at least 16 x 16 pixels, got {width} x {height}.")
    columns, rows = grid_form(options.grid, width, height)
    if min(width // columns, height // rows) < 16:
        raise ValueError(
            f"{options.grid} worlds do not fit into {width} x {height} pixels: take fewer, or a larger film."
        )
    if options.steps is not None and options.steps < 1:
        raise ValueError(f"--steps must be at least 1, got {options.steps}.")
    directory = RunDirectory.open(options.run)
    config = from_json(directory.config())
    file = Path(options.out) if options.out else Path(options.run) / "video.gif"
    env_options = {**config.env_options, **parse_assignments("--option", options.option)}
    world = world_of(directory, config, options.saved_source, warn)
    film = _film_gymnasium if isinstance(config.driver, PipelineConfig) else _film_world
    steps = film(directory, world, env_options, file, options)
    result = {"file": str(file), "steps": steps}
    print(json_module.dumps(result) if options.json else f"Wrote {file} ({steps} steps)")
    return 0


def _size(options: Video) -> tuple[int, int]:
    """Of the whole film."""
    usual = (480, 320) if options.grid == 1 else (960, 640)
    width, height = (usual[i] if given is None else given for i, given in enumerate((options.width, options.height)))
    return width, height


def _tile(options: Video) -> tuple[int, int]:
    """Of each of the films that are side by side."""
    from slipstream.training.film import grid_form

    width, height = _size(options)
    columns, rows = grid_form(options.grid, width, height)
    return width // columns, height // rows


def _film_world(directory: Any, world: str, env_options: dict[str, Any], file: Path, options: Video) -> int:
    """Film episodes of a world of ours: how many steps the longest one took."""
    from slipstream.cli.values import progress_bar
    from slipstream.training.evaluate import evaluation_worlds
    from slipstream.training.film import GridFilm, write_film
    from slipstream.training.loading import load_policies
    from slipstream.training.world_film import make_film, refuse_impossible

    worlds = evaluation_worlds(world, options.grid, options.seed, **env_options)
    refuse_impossible(worlds.env, file)
    policies, actors = load_policies(directory, options.checkpoint)
    progress, shown = progress_bar()
    with shown:
        episodes = _record(policies, actors, worlds, options.steps, progress)
        films = [make_film(worlds.env, states, *_tile(options)) for states in episodes]
        with closing(films[0] if len(films) == 1 else GridFilm(films, *_size(options))) as film:
            write_film(film, file, lambda numbers: progress.track(numbers, description="rendering"))
    return max(len(states) for states in episodes) - 1


def _film_gymnasium(directory: Any, world: str, env_options: dict[str, Any], file: Path, options: Video) -> int:
    """Film episodes of an environment of Gymnasium: how many steps the longest one took."""
    from slipstream.cli.values import progress_bar
    from slipstream.training.film import GridFilm, write_film
    from slipstream.training.loading import load_policies
    from slipstream.training.pipeline.filming import filmed_simulator, record_episode
    from slipstream.training.pipeline.numpy_policy import NumpyPolicy, recipe_of
    from slipstream.training.saving import named_arrays

    with closing(filmed_simulator(world, env_options, options.seed, file)) as simulator:
        policies, actors = load_policies(directory, options.checkpoint)
        ((name, (group,)),) = policies.groups.items()
        recipe = recipe_of(policies.configs[name], group.observation, group.action)
        policy = NumpyPolicy(recipe, named_arrays(actors[name]))
        progress, shown = progress_bar()
        with shown:
            limit = options.steps or simulator.limit
            task = progress.add_task("recording", total=None if limit is None else options.grid * limit)

            def alive(steps: int) -> bool:
                progress.advance(task, steps)
                return True

            films, steps = [], 0
            for seed in range(options.seed, options.seed + options.grid):
                recorded = record_episode(simulator, policy, seed, options.steps, *_tile(options), alive)
                assert recorded is not None
                films.append(recorded[0])
                steps = max(steps, recorded[1].steps)
            film = films[0] if len(films) == 1 else GridFilm(films, *_size(options))
            write_film(film, file, lambda numbers: progress.track(numbers, description="writing"))
    return steps


def _record(policies: Any, actors: Any, worlds: Any, max_steps: int | None, progress: Any) -> list[list[dict]]:
    """The states of an episode of every world."""
    from slipstream.training.play import episode_limit, episode_states

    task = progress.add_task("compiling", total=None)
    episodes: list[list[dict]] = [[] for _ in range(worlds.num_worlds)]
    number = 0
    for number, states in enumerate(episode_states(policies, actors, worlds, max_steps)):
        for episode, state in zip(episodes, states):
            if state is not None:
                episode.append(state)
        if number:
            total = episode_limit(worlds, max_steps)
            progress.update(task, description="recording", total=total, completed=number)
    progress.update(task, description="recording", total=number, completed=number)
    return episodes
