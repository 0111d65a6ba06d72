"""A film of an episode in an environment of Gymnasium, which draws itself. Neither JAX nor Dr.Jit is needed."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.training.film import Film, FilmError, refuse_file, timing, write_film
from slipstream.training.pipeline.numpy_policy import NumpyPolicy
from slipstream.training.pipeline.simulators import Simulator

USUAL_FPS = 30.0
"""Steps in a second, of environments that do not say (`metadata["render_fps"]`)."""
LIMIT = 10_000
"""Steps after which an episode of an environment without a time limit is cut off."""


@dataclass(frozen=True)
class Filmed:
    """What an episode that was filmed came to."""

    steps: int
    reward: float
    """The sum of all."""


class RecordedFilm(Film):
    """Frames that were taken while the episode was played. They are kept compressed: a long episode has many."""

    def __init__(self, step_time: float, width: int, height: int):
        """Args:
        step_time: seconds between two steps.
        width: of the frames at most, in pixels; they keep their proportions.
        height: likewise.
        """
        self.every, frame_time = timing(step_time)
        super().__init__(frame_time, np.zeros(0))
        self._most, self._shape = (width, height), (0, 0, 3)
        self._frames: list[bytes] = []

    def take(self, step: int, picture: Callable[[], np.ndarray]) -> None:
        """Take a picture of a step, if it is its turn."""
        if step % self.every:
            return
        frame = _fitted(picture(), *self._most)
        self._shape = frame.shape
        self._frames.append(zlib.compress(frame.tobytes(), 1))
        self.moments = np.append(self.moments, step)

    def frame(self, number: int) -> np.ndarray:
        return np.frombuffer(zlib.decompress(self._frames[number]), np.uint8).reshape(self._shape)


def film_episode(
    simulator: Simulator,
    policy: NumpyPolicy,
    file: Path,
    *,
    seed: int | None = None,
    limit: int | None = None,
    width: int = 480,
    height: int = 320,
    alive: Callable[[int], bool] = lambda steps: True,
    show: Callable[[range], Iterable[int]] = iter,
) -> Filmed | None:
    """Play an episode without exploring, and write a film of it: the file is there whole, or as it was before.

    Args:
        simulator: where; made by `filmed_simulator`.
        policy: who acts.
        file: where the film goes, .gif or .mp4.
        seed: of the episode; by default it follows from the simulator's own.
        limit: steps after which to stop, if the episode is longer.
        width: of the film at most, in pixels; the picture keeps its proportions.
        height: likewise.
        alive: is told of every step; False stops it, and there is no film.
        show: is given the numbers of the frames that are written, and returns them one by one.

    Returns:
        What the episode came to; None if it was stopped.
    """
    recorded = record_episode(simulator, policy, seed, limit, width, height, alive)
    if recorded is None:
        return None
    film, filmed = recorded
    write_film(film, file, show)
    return filmed


def record_episode(
    simulator: Simulator,
    policy: NumpyPolicy,
    seed: int | None,
    limit: int | None,
    width: int,
    height: int,
    alive: Callable[[int], bool] = lambda steps: True,
) -> tuple[RecordedFilm, Filmed] | None:
    """Play an episode without exploring: a film of it, and what it came to. For the arguments, see `film_episode`."""
    rng = np.random.default_rng(0)  # acting without exploring draws nothing
    film = RecordedFilm(1.0 / _fps(simulator), width, height)
    observation = simulator.reset(seed)
    film.take(0, simulator.render)
    steps, total, over = 0, 0.0, False
    while not over and steps < (LIMIT if limit is None else limit):
        if not alive(1):
            return None
        _, action, _ = policy.act(observation[:, None], False, rng)
        observation, reward, terminated, truncated = simulator.step(action[:, 0])
        steps, total, over = steps + 1, total + reward, terminated or truncated
        film.take(steps, simulator.render)
    return film, Filmed(steps, total)


def filmed_simulator(name: str, options: Mapping[str, Any], seed: int, file: Path) -> Simulator:
    """An environment that draws itself, or a `FilmError` that says why there is no film, before anything is played.

    Args:
        name: of the environment.
        options: its keyword arguments.
        seed: of its first episode.
        file: where the film will go.
    """
    refuse_file(file)
    try:
        simulator = Simulator(name, options, seed, render=True)
    except ValueError as error:
        if isinstance(error.__cause__, TypeError) and "render_mode" in str(error.__cause__):
            raise FilmError(
                f"There is nothing to see of {name}: it takes no render_mode. Let it take one, and let its render() "
                'return pictures [height, width, 3] with render_mode="rgb_array".'
            ) from error
        raise
    try:
        simulator.reset(seed)
        simulator.render()
    except Exception as error:  # it is someone else's code, or a renderer that does not start
        simulator.close()
        raise FilmError(f"There is nothing to see of {name}: {type(error).__name__}: {error}") from error
    return simulator


def _fps(simulator: Simulator) -> float:
    return float(simulator.env.metadata.get("render_fps") or USUAL_FPS)


def _fitted(frame: np.ndarray, width: int, height: int) -> np.ndarray:
    """A picture as large as fits, with its proportions."""
    from PIL import Image

    scale = min(width / frame.shape[1], height / frame.shape[0])
    size = (max(round(scale * frame.shape[1]), 1), max(round(scale * frame.shape[0]), 1))
    picture = Image.fromarray(np.ascontiguousarray(frame[..., :3].astype(np.uint8)))
    return np.asarray(picture if size == picture.size else picture.resize(size, Image.Resampling.LANCZOS))
