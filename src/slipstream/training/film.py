"""Films: the states of an episode, drawn by the world itself (`Env.draw`) or by MuJoCo (`robot_film.py`)."""

from __future__ import annotations

import importlib.util
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.envs.env import Env
from slipstream.training.painting import Painter

State = Mapping[str, np.ndarray]
"""Of a single world, as `Worlds.get_state` returns it."""

FRAME_TIME = 40
"""Milliseconds between the frames of a film, unless the world is slower. GIF counts hundredths of a second: 30 frames
in a second cannot be written, 25 can."""

COLOURS = 128
"""Of a GIF: one palette for all frames, so that nothing flickers and what stays the same is stored once."""


class FilmError(ValueError):
    """A film cannot be made; the message says what is missing."""


def refuse_impossible(env: Env, file: Path) -> None:
    """Raise a `FilmError` for a film that could not be made, before anything is played for it."""
    if file.suffix not in (".gif", ".mp4"):
        raise FilmError(f"A film is a .gif or an .mp4 file, not {file.name!r}.")
    if file.suffix == ".mp4" and importlib.util.find_spec("imageio_ffmpeg") is None:
        raise FilmError("MP4 needs an encoder: pip install slipstream-rl[video] (or write a .gif).")
    with _naming(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    if _draws_itself(env):
        return
    if not hasattr(env, "model"):
        raise FilmError(f"There is nothing to see of {type(env).__name__}: it has no robot, and no method draw(state).")
    from slipstream.training.robot_film import start_renderer

    start_renderer()


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Say which file could not be written."""
    try:
        yield
    except OSError as error:
        raise FilmError(f"Could not write {file}: {error.strerror or error}.") from error


def _draws_itself(env: Env) -> bool:
    return type(env).draw is not Env.draw


class Film(ABC):
    """Frames that are made when they are asked for.

    Attributes:
        frame_time: milliseconds between them, a multiple of 10.
        moments: for each frame how many steps the episode is old, whole or not, at even distances.
    """

    def __init__(self, frame_time: int, moments: np.ndarray):
        self.frame_time, self.moments = frame_time, moments

    def __len__(self) -> int:
        return len(self.moments)

    @abstractmethod
    def frame(self, number: int) -> np.ndarray:
        """A picture `[height, width, 3]`, bytes."""

    def close(self) -> None:  # noqa: B027 (most have nothing to let go of)
        """Let go of what drew the frames."""


def make_film(env: Env, states: Sequence[State], width: int, height: int) -> Film:
    """A film of an episode.

    Args:
        env: the world.
        states: of one world: at the start of the episode and after every step.
        width: of the frames, in pixels.
        height: likewise.
    """
    if _draws_itself(env):
        return DrawnFilm(env, states, width, height)
    from slipstream.training.robot_film import RobotFilm

    return RobotFilm(env, states, width, height)


class DrawnFilm(Film):
    """A film of a world that draws itself: every state, or every n-th where they follow one another fast."""

    def __init__(self, env: Env, states: Sequence[State], width: int, height: int):
        every = max(round(FRAME_TIME / (1000.0 * env.playback_step)), 1)
        super().__init__(max(round(100.0 * every * env.playback_step), 2) * 10, np.arange(0, len(states), every))
        self.env, self.states, self.painter = env, states, Painter(width, height)

    def frame(self, number: int) -> np.ndarray:
        picture = self.env.draw(self.states[self.moments[number]])
        if picture is None:
            raise FilmError(f"{type(self.env).__name__}.draw returned no picture.")
        return self.painter.paint(picture)


def write_film(film: Film, file: Path, show: Callable[[range], Iterable[int]] = iter) -> None:
    """Write a film as a GIF or an MP4, by the suffix of the file.

    Args:
        film: what to write.
        file: where to.
        show: is given the numbers of the frames and returns them one by one, such as a progress bar.
    """
    unfinished = file.with_name(f".{file.stem}-unfinished{file.suffix}")
    write = _write_gif if file.suffix == ".gif" else _write_mp4
    with _naming(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            write(film, unfinished, show)
            os.replace(unfinished, file)
        finally:
            unfinished.unlink(missing_ok=True)


def _write_gif(film: Film, file: Path, show: Callable[[range], Iterable[int]]) -> None:
    from PIL import Image

    some = [film.frame(int(i)) for i in np.linspace(0, len(film) - 1, min(len(film), 4))]
    palette = Image.fromarray(np.concatenate(some)).quantize(COLOURS, Image.Quantize.FASTOCTREE)

    def quantised(number: int) -> Any:
        return Image.fromarray(film.frame(number)).quantize(palette=palette, dither=Image.Dither.NONE)

    pictures = (quantised(number) for number in show(range(len(film))))
    next(pictures).save(file, save_all=True, append_images=pictures, duration=film.frame_time, loop=0)


def _write_mp4(film: Film, file: Path, show: Callable[[range], Iterable[int]]) -> None:
    import imageio.v2 as imageio

    with warnings.catch_warnings():
        # JAX warns of every new process. The encoder is one that shares nothing with it.
        warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
        encoder: Any = imageio.get_writer(str(file), fps=1000.0 / film.frame_time, macro_block_size=2)
        with encoder as writer:
            for number in show(range(len(film))):
                frame = film.frame(number)
                height, width = (2 * (size // 2) for size in frame.shape[:2])  # the format has no odd ones
                writer.append_data(frame[:height, :width])
