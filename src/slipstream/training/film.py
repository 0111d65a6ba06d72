"""Films: frames at even distances, written as a GIF or an MP4. Nothing here imports JAX or Dr.Jit."""

from __future__ import annotations

import importlib.util
import math
import os
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

FRAME_TIME = 40
"""Milliseconds between the frames of a film, unless the world is slower. GIF counts hundredths of a second: 30 frames
in a second cannot be written, 25 can."""

COLOURS = 128
"""Of a GIF: one palette for all frames, so that nothing flickers and what stays the same is stored once."""


BETWEEN = 250
"""How bright the lines between films are that are shown side by side."""


class FilmError(ValueError):
    """A film cannot be made; the message says what is missing."""


def refuse_file(file: Path) -> None:
    """Raise a `FilmError` for a file that a film could not be written to, before anything is played for it."""
    if file.suffix not in (".gif", ".mp4"):
        raise FilmError(f"A film is a .gif or an .mp4 file, not {file.name!r}.")
    if file.suffix == ".mp4" and importlib.util.find_spec("imageio_ffmpeg") is None:
        raise FilmError("MP4 needs an encoder: pip install slipstream-rl[video] (or write a .gif).")
    with _naming(file):
        file.parent.mkdir(parents=True, exist_ok=True)


def choose_renderer() -> None:
    """Render without a screen where there is none. MuJoCo and PyGame decide when they are first imported."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if sys.platform == "linux" and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def timing(step_time: float) -> tuple[int, int]:
    """Every how many steps there is a frame, and how many milliseconds lie between two frames (a multiple of 10).

    Args:
        step_time: seconds between two steps.
    """
    every = max(round(FRAME_TIME / (1000.0 * step_time)), 1)
    return every, max(round(100.0 * every * step_time), 2) * 10


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Say which file could not be written."""
    try:
        yield
    except OSError as error:
        raise FilmError(f"Could not write {file}: {error.strerror or error}.") from error


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


class GridFilm(Film):
    """Several films side by side, row by row; one that is over stays at its last picture."""

    def __init__(self, films: Sequence[Film], width: int, height: int):
        """Args:
        films: at the same pace.
        width: of the whole, in pixels.
        height: likewise.
        """
        longest = max(films, key=len)
        super().__init__(longest.frame_time, longest.moments)
        self.films, self.size = films, (width, height)
        self.columns, self.rows = grid_form(len(films), width, height)
        self._last: dict[int, np.ndarray] = {}

    def frame(self, number: int) -> np.ndarray:
        width, height = self.size
        picture = np.full((height, width, 3), BETWEEN, np.uint8)
        for place, film in enumerate(self.films):
            row, column = divmod(place, self.columns)
            tile = self._tile(place, film, number)
            room_high, room_wide = height // self.rows - 1, width // self.columns - 1
            high, wide = min(tile.shape[0], room_high), min(tile.shape[1], room_wide)
            top = row * height // self.rows + (room_high - high) // 2
            left = column * width // self.columns + (room_wide - wide) // 2
            picture[top : top + high, left : left + wide] = tile[:high, :wide]
        return picture

    def _tile(self, place: int, film: Film, number: int) -> np.ndarray:
        if number < len(film) - 1:
            return film.frame(number)
        if place not in self._last:
            self._last[place] = film.frame(len(film) - 1)
        return self._last[place]

    def close(self) -> None:
        for film in self.films:
            film.close()


def grid_form(count: int, width: int, height: int) -> tuple[int, int]:
    """Columns and rows for so many films, such that each is about as wide as it is high or a little more."""
    forms = [(columns, -(-count // columns)) for columns in range(1, count + 1)]
    wasted = [columns * rows - count for columns, rows in forms]
    squareness = [abs(math.log(width * rows / (height * columns) / 1.3)) for columns, rows in forms]
    return min(zip(forms, wasted, squareness), key=lambda form: form[2] + 0.3 * form[1])[0]


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
