"""Environments of Gymnasium, made from their names and stepped one at a time.

A name is `gym:ID` for what is registered with Gymnasium (also `gym:module:ID`: the module is imported first), or
`module:Class` or `path/to/file.py:Class` for a `gymnasium.Env`, or a function that makes one. Sampler processes import
this: neither JAX nor Dr.Jit.
"""

from __future__ import annotations

import inspect
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from slipstream.gymnasium_spaces import action_of, observation_of
from slipstream.names import GYM, UnknownEnvironment, module_of, named_object, nearest_names
from slipstream.spaces import Box, Space
from slipstream.training.film import choose_renderer

ATARI = "ALE/"
"""Begins the ids of Atari games. They are seen as is usual: every fourth frame, grey, 84 x 84, the last four."""
FRAMES = 4
"""How many frames of an Atari game are seen at once, and how many pass between two actions."""

TIME_LIMIT, PREPROCESS = "max_episode_steps", "preprocess"
"""Options that environments have beside their own: a time limit, and whether an Atari game is seen as is usual."""

NOT_FINITE, BAD_REWARD, OUTSIDE = "observations not finite", "rewards not finite", "observations outside the space"
ODDITIES = (NOT_FINITE, BAD_REWARD, OUTSIDE)


class Oddity(ValueError):
    """An environment did what it says it never does."""


class Simulator:
    """One environment, in our spaces.

    An observation that is not finite ends the episode (as truncated, with the last good one in its place), and a reward
    that is not finite counts as 0: neither is learned from. Both are counted, and so are observations outside the
    space, which are taken as they are.

    Attributes:
        observation: what is seen.
        action: what is done.
        oddities: what should not have happened, and how often.
        info: of the last step, as the environment gave it.
    """

    def __init__(self, name: str, options: Mapping[str, Any], seed: int, *, strict: bool = False, render: bool = False):
        """Args:
        name: of the environment.
        options: keyword arguments of the environment.
        seed: of its first episode; the next ones follow from it.
        strict: raise an `Oddity` instead of counting it.
        render: make it draw pictures (`render()`).
        """
        self.name, self.strict = name, strict
        self.env = make_environment(name, options, render=render)
        self.observation, self._observe = observation_of(self.env.observation_space, name)
        self.action, self.act_as = action_of(self.env.action_space, name)
        self.oddities: dict[str, int] = {}
        self.info: dict[str, Any] = {}
        self._seed: int | None = seed
        self._last = np.zeros(self.observation.size, np.float32)
        self._is_usual = check_of(self.observation, (self.observation.size,))

    @property
    def sees_numbers(self) -> bool:
        """Whether observations are lists of numbers as they are, which need no translation."""
        from gymnasium.spaces import Box as GymnasiumBox

        space = self.env.observation_space
        return self.observation.image is None and isinstance(space, GymnasiumBox) and len(space.shape) == 1

    @property
    def limit(self) -> int | None:
        """How many steps an episode may take, if the environment says so."""
        spec = self.env.spec
        return None if spec is None else spec.max_episode_steps

    def reset(self, seed: int | None = None) -> np.ndarray:
        """Begin an episode: its first observation, `[features]`.

        Args:
            seed: of this episode; by default it follows from the environment's own.
        """
        seed = self._seed if seed is None else seed
        self._seed = None
        given, self.info = self.env.reset(seed=seed)
        observation = self.features(given)
        self._last = observation if self.is_usable(observation) else np.zeros_like(observation)
        return self._last

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool]:
        """Act.

        Args:
            action: `[components]`, in the units of the space.

        Returns:
            The observation `[features]`, the reward, and whether the episode was terminated or truncated.
        """
        given, reward, terminated, truncated, self.info = self.env.step(self.act_as(action.copy()))
        observation, reward = self.features(given), self.usable_reward(float(reward))
        if self.is_usable(observation):
            self._last = observation
            return observation, reward, bool(terminated), bool(truncated)
        return self._last, reward, bool(terminated), True

    def render(self) -> np.ndarray:
        """A picture of how things are, `[height, width, 3]`."""
        frame: Any = self.env.render()
        if not isinstance(frame, np.ndarray) or frame.ndim != 3:
            raise ValueError(f"{self.name} draws no pictures: its render() returned {type(frame).__name__}.")
        return frame

    def close(self) -> None:
        self.env.close()

    def features(self, given: Any) -> np.ndarray:
        """An observation of the environment's as `[features]`; whether it can be used is another question."""
        try:
            features = self._observe(given)
        except Exception as error:
            raise Oddity(f"{self.name} returned an observation that is not of its space: {error}.") from error
        if features.size != self.observation.size:
            raise Oddity(
                f"{self.name} returned an observation of {features.size} numbers (shape {list(np.shape(given))}), but "
                f"its space has {self.observation.size}."
            )
        return features

    def usable_reward(self, reward: float) -> float:
        """The reward, or 0 in the place of one that is not finite, which is counted."""
        if math.isfinite(reward):
            return reward
        self._count(BAD_REWARD, f"a reward of {reward}")
        return 0.0

    def is_usable(self, observation: np.ndarray) -> bool:
        """Whether an observation is finite; what is wrong with it is counted."""
        if self._is_usual(observation):
            return True
        if not np.isfinite(observation).all():
            where = int(np.flatnonzero(~np.isfinite(observation))[0])
            self._count(NOT_FINITE, f"an observation whose feature {where} is {observation[where]}")
            return False
        box = self.observation
        outside = np.flatnonzero((observation < box.lows) | (observation > box.highs))
        if outside.size:
            where = int(outside[0])
            bounds = f"{box.lows[where]:g} .. {box.highs[where]:g}"
            self._count(OUTSIDE, f"an observation whose feature {where} is {observation[where]:g}, outside {bounds}")
        return True

    def _count(self, what: str, found: str) -> None:
        if self.strict:
            raise Oddity(f"{self.name} returned {found}.")
        self.oddities[what] = self.oddities.get(what, 0) + 1


def check_of(box: Box, shape: tuple[int, ...]) -> Callable[[np.ndarray], Any]:
    """A quick test that is only passed by observations that are finite and within the space.

    Args:
        box: the space.
        shape: of one observation or several, `[features]` or `[lanes, features]`, one after the other in memory.
    """
    if box.image is not None:
        return lambda observation: True
    if not np.isfinite(box.lows).any() and not np.isfinite(box.highs).any():
        # The square of what is not finite is not finite either. (Nor is that of 1e20: such are looked at again.)
        def is_finite(observation: np.ndarray) -> bool:
            numbers = observation.reshape(-1)
            return math.isfinite(np.dot(numbers, numbers))

        return is_finite
    most = np.finfo(np.float32).max
    lows, highs = np.maximum(box.lows, -most), np.minimum(box.highs, most)
    fits = np.empty((2, *shape), bool)
    above, below = fits

    def within(observation: np.ndarray) -> bool:
        np.greater_equal(observation, lows, above)
        np.less_equal(observation, highs, below)
        return b"\0" not in fits.tobytes()  # a third of the time that fits.all() takes

    return within


def simulator_spaces(name: str, options: Mapping[str, Any]) -> tuple[Box, Space]:
    """What is seen and done in an environment."""
    env = make_environment(name, options)
    try:
        return observation_of(env.observation_space, name)[0], action_of(env.action_space, name)[0]
    finally:
        env.close()


def simulator_options(name: str) -> dict[str, inspect.Parameter]:
    """The keyword arguments that an environment says it takes (it may take others: `**kwargs`)."""
    parameters = inspect.signature(_maker(name)).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    options = {p.name: p for p in parameters if p.kind in kinds and p.name != "render_mode"}
    extra = {TIME_LIMIT: None, PREPROCESS: True} if _is_atari(name) else {TIME_LIMIT: None}
    keyword = inspect.Parameter.KEYWORD_ONLY
    return options | {n: inspect.Parameter(n, keyword, default=d) for n, d in extra.items() if n not in options}


def make_environment(name: str, options: Mapping[str, Any], *, render: bool = False) -> Any:
    """The environment of a name, as Gymnasium makes it.

    Args:
        name: of the environment.
        options: its keyword arguments; `max_episode_steps` is a time limit, and `preprocess=False` leaves the frames
            of an Atari game as they are.
        render: make it draw pictures.
    """
    _gymnasium()
    known = simulator_options(name)
    takes_others = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(_maker(name)).parameters.values())
    unknown = [option for option in options if option not in known]
    hint = f"Unknown option {unknown[0]!r} of {name}: {nearest_names(unknown[0], list(known))}" if unknown else ""
    if unknown and not takes_others:
        raise ValueError(hint)
    given = {**options, **({"render_mode": "rgb_array"} if render else {})}
    if render:
        choose_renderer()
    try:
        with _hushed():
            env = _make_registered(name, given) if name.startswith(GYM) else _make_own(name, given)
    except Exception as error:  # it may be someone else's code
        if isinstance(error, UnknownEnvironment):
            raise
        if unknown and isinstance(error, TypeError):  # its base class had no use for it either
            raise ValueError(hint) from error
        raise ValueError(f"{name} cannot be made: {type(error).__name__}: {' '.join(str(error).split())}") from error
    if not isinstance(env, _gymnasium().Env):
        raise ValueError(f"{name} is not an environment of Gymnasium: calling it made {type(env).__name__}.")
    return env


def _make_registered(name: str, options: dict[str, Any]) -> Any:
    gymnasium, env_id = _gymnasium(), name.removeprefix(GYM)
    if not _is_atari(name):
        return gymnasium.make(env_id, disable_env_checker=True, **options)
    if not options.pop(PREPROCESS, True):
        return gymnasium.make(env_id, disable_env_checker=True, **options)
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

    options["frameskip"] = 1  # the wrapper skips frames, and takes the brighter of the last two
    env = gymnasium.make(env_id, disable_env_checker=True, **options)
    return FrameStackObservation(AtariPreprocessing(env, frame_skip=FRAMES), FRAMES)


def _make_own(name: str, options: dict[str, Any]) -> Any:
    maker = named_object(name)
    limit = None
    if TIME_LIMIT in options and TIME_LIMIT not in inspect.signature(maker).parameters:
        limit = options.pop(TIME_LIMIT)
    env = maker(**options)
    if limit is None:
        return env
    from gymnasium.wrappers import TimeLimit

    return TimeLimit(env, limit)


def _maker(name: str) -> Callable[..., Any]:
    """What makes an environment: a class or a function."""
    if not name.startswith(GYM):
        maker = named_object(name)
        if not callable(maker) or (inspect.isclass(maker) and not issubclass(maker, _gymnasium().Env)):
            raise ValueError(f"{name} is neither a gymnasium.Env nor a function that makes one.")
        return maker
    creator = _spec(name).entry_point
    from gymnasium.envs.registration import load_env_creator

    return load_env_creator(creator) if isinstance(creator, str) else creator


def _spec(name: str) -> Any:
    gymnasium, env_id = _gymnasium(), name.removeprefix(GYM)
    if _is_atari(name):
        _register_atari(name)
    module, colon, registered = env_id.rpartition(":")
    if colon:
        module_of(module, name)
    try:
        with _hushed():
            return gymnasium.spec(registered)
    except gymnasium.error.Error as error:
        known = list(gymnasium.registry)
        near = nearest_names(registered, known)
        hint = (
            near if near.startswith("did") else "`python -c 'import gymnasium; gymnasium.pprint_registry()'` lists all."
        )
        raise UnknownEnvironment(f"Gymnasium knows no environment {registered!r}: {hint}") from error


def _register_atari(name: str) -> None:
    try:
        import ale_py
        import cv2
    except ModuleNotFoundError as error:
        raise ValueError(f"{name} needs {error.name}: pip install slipstream-rl[atari]") from error
    cv2.setNumThreads(1)  # Gymnasium makes frames smaller with it, and every core has its sampler
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # each game would announce itself
    _gymnasium().register_envs(ale_py)


@contextmanager
def _hushed() -> Iterator[None]:
    """Without what Gymnasium has to say about versions, and MuJoCo about Gymnasium's models."""
    engine: Any = sys.modules.get("mujoco")
    before = None if engine is None else engine.get_mju_user_warning()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if engine is not None:
            engine.set_mju_user_warning(lambda message: None)
        try:
            yield
        finally:
            if engine is not None:
                engine.set_mju_user_warning(before)


def _is_atari(name: str) -> bool:
    return name.removeprefix(GYM).rpartition(":")[2].startswith(ATARI) and name.startswith(GYM)


def _gymnasium() -> Any:
    try:
        import gymnasium
    except ModuleNotFoundError as error:
        raise ValueError("Environments of Gymnasium need gymnasium: pip install slipstream-rl[gymnasium]") from error
    return gymnasium
