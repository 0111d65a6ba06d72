"""`slipstream video`: a film of an episode."""

from __future__ import annotations

import json as json_module
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro


@dataclass(frozen=True)
class Video:
    """Play an episode with the policies of a run and film it, without a screen.

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
    width: int = 480
    """Of the film, in pixels; an environment of Gymnasium keeps its proportions."""
    height: int = 320
    """Of the film, in pixels."""
    json: bool = False
    """Print which file was written as JSON."""


def run(options: Video) -> int:
    from slipstream.training.film import choose_renderer

    choose_renderer()
    from slipstream.cli.values import parse_assignments, warn
    from slipstream.runs.directory import RunDirectory
    from slipstream.training.config import PipelineConfig
    from slipstream.training.config_json import from_json
    from slipstream.training.source import world_of

    if options.width < 16 or options.height < 16:
        raise ValueError(f"A film must be at least 16 x 16 pixels, got {options.width} x {options.height}.")
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


def _film_world(directory: Any, world: str, env_options: dict[str, Any], file: Path, options: Video) -> int:
    """Film an episode of a world of ours: how many steps it took."""
    from slipstream.training.evaluate import evaluation_worlds
    from slipstream.training.film import write_film
    from slipstream.training.loading import load_policies
    from slipstream.training.world_film import make_film, refuse_impossible

    worlds = evaluation_worlds(world, 1, options.seed, **env_options)
    refuse_impossible(worlds.env, file)
    policies, actors = load_policies(directory, options.checkpoint)
    progress, shown = _progress_bar()
    with shown:
        states = _record(policies, actors, worlds, options.steps, progress)
        with closing(make_film(worlds.env, states, options.width, options.height)) as film:
            write_film(film, file, lambda numbers: progress.track(numbers, description="rendering"))
    return len(states) - 1


def _film_gymnasium(directory: Any, world: str, env_options: dict[str, Any], file: Path, options: Video) -> int:
    """Film an episode of an environment of Gymnasium: how many steps it took."""
    from slipstream.training.loading import load_policies
    from slipstream.training.pipeline.filming import film_episode, filmed_simulator
    from slipstream.training.pipeline.numpy_policy import NumpyPolicy, recipe_of
    from slipstream.training.saving import named_arrays

    with closing(filmed_simulator(world, env_options, options.seed, file)) as simulator:
        policies, actors = load_policies(directory, options.checkpoint)
        ((name, (group,)),) = policies.groups.items()
        recipe = recipe_of(policies.configs[name], group.observation, group.action)
        policy = NumpyPolicy(recipe, named_arrays(actors[name]))
        progress, shown = _progress_bar()
        with shown:
            task = progress.add_task("recording", total=options.steps or simulator.limit)

            def alive(steps: int) -> bool:
                progress.advance(task, steps)
                return True

            filmed = film_episode(
                simulator,
                policy,
                file,
                seed=options.seed,
                limit=options.steps,
                width=options.width,
                height=options.height,
                alive=alive,
                show=lambda numbers: progress.track(numbers, description="writing"),
            )
    assert filmed is not None
    return filmed.steps


def _progress_bar() -> tuple[Any, AbstractContextManager]:
    """A bar for each part of the work, and the context that shows it: on a terminal only, and gone when all is done."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    progress = Progress(console=console, transient=True, disable=not console.is_terminal)
    return progress, progress if console.is_terminal else nullcontext()


def _record(policies: Any, actors: Any, worlds: Any, max_steps: int | None, progress: Any) -> list[dict[str, Any]]:
    """The states of an episode of the world."""
    from slipstream.training.play import episode_limit, episode_states

    task = progress.add_task("compiling", total=None)
    states = []
    for number, state in enumerate(episode_states(policies, actors, worlds, max_steps)):
        states.append(state)
        if number:
            total = episode_limit(worlds, max_steps)
            progress.update(task, description="recording", total=total, completed=number)
    progress.update(task, description="recording", total=len(states), completed=len(states))
    return states
