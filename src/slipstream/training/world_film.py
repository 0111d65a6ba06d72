"""Films of worlds: the states of an episode, drawn by the world itself (`Env.draw`) or by MuJoCo (`robot_film.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from slipstream.envs.env import Env
from slipstream.envs.rules import picture_of
from slipstream.training.film import Film, FilmError, refuse_file, timing
from slipstream.training.painting import Painter

State = Mapping[str, np.ndarray]
"""Of a single world, as `Worlds.get_state` returns it."""


def refuse_impossible(env: Env, file: Path) -> None:
    """Raise a `FilmError` for a film that could not be made, before anything is played for it."""
    refuse_file(file)
    if _draws_itself(env):
        return
    if not hasattr(env, "model"):
        raise FilmError(f"There is nothing to see of {type(env).__name__}: it has no robot, and no method draw(state).")
    from slipstream.training.robot_film import start_renderer

    start_renderer()


def _draws_itself(env: Env) -> bool:
    return type(env).draw is not Env.draw


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
        every, frame_time = timing(env.playback_step)
        super().__init__(frame_time, np.arange(0, len(states), every))
        self.env, self.states, self.painter = env, states, Painter(width, height)

    def frame(self, number: int) -> np.ndarray:
        return self.painter.paint(picture_of(self.env, self.states[self.moments[number]]))
