"""JAX environments of other libraries as worlds: those with the interface of gymnax, and those with that of Brax.

`gymnax:ID` and `brax:NAME` are names of worlds like any other. An environment of your own with one of the interfaces is
wrapped by hand: `slipstream.train(BraxStyle(my_env))`.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from slipstream.envs.adapters.jax_worlds import JaxWorld
from slipstream.envs.env import Group
from slipstream.names import UnknownEnvironment, nearest_names
from slipstream.spaces import Box, Discrete, Space

NEVER = 2**30
"""A time limit that is never reached: time limits are ours, so that a truncation is none of the environment's ends."""


class GymnaxStyle(JaxWorld):
    """An environment with `reset_env(key, params)` and `step_env(key, state, action, params)`, as in gymnax."""

    def __init__(self, env: Any, params: Any = None, max_steps: int | None = None):
        """Args:
        env: the environment.
        params: of it; by default its own.
        max_steps: the time limit; by default `params.max_steps_in_episode`.
        """
        params = env.default_params if params is None else params
        self.max_steps = max_steps or getattr(params, "max_steps_in_episode", None)
        self._env = env
        action, observation = (_ours(space(params)) for space in (env.action_space, env.observation_space))
        if not isinstance(observation, Box):
            raise ValueError(f"Observations of {type(env).__name__} are {observation}, and must be a box.")
        self.groups = (Group("agent", observation, action),)
        if hasattr(params, "max_steps_in_episode"):
            params = _changed(params, max_steps_in_episode=NEVER)
        self._params = params

    def begin(self, key: jax.Array) -> tuple[Any, jax.Array]:
        seen, state = self._env.reset_env(key, self._params)
        return state, jnp.asarray(seen)

    def proceed(self, state: Any, action: Any, key: jax.Array) -> tuple[Any, jax.Array, jax.Array, jax.Array]:
        seen, state, reward, done, _ = self._env.step_env(key, state, action, self._params)
        return jax.tree.map(jnp.asarray, state), jnp.asarray(seen), jnp.asarray(reward), jnp.asarray(done)


class BraxStyle(JaxWorld):
    """An environment with `reset(rng)` and `step(state, action)`, whose states have `obs`, `reward` and `done`, as in
    Brax and MuJoCo Playground."""

    def __init__(self, env: Any, max_steps: int | None = 1000):
        """Args:
        env: the environment, without wrappers that reset it or count its steps.
        max_steps: the time limit.
        """
        if not isinstance(env.observation_size, int):
            raise ValueError(
                f"Observations of {type(env).__name__} are {env.observation_size}, and must be one vector."
            )
        self.max_steps, self._env = max_steps, env
        self.groups = (Group("agent", Box(env.observation_size), Box(env.action_size, -1.0, 1.0)),)

    def begin(self, key: jax.Array) -> tuple[Any, jax.Array]:
        state = self._env.reset(key)
        return state, state.obs

    def proceed(self, state: Any, action: Any, key: jax.Array) -> tuple[Any, jax.Array, jax.Array, jax.Array]:
        state = self._env.step(state, action)
        return state, state.obs, state.reward, state.done > 0


def gymnax_class(env_id: str) -> type[JaxWorld]:
    """The world of `gymnax:ID`."""
    try:
        import gymnax  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        missing = error.name  # six, too, which gymnax forgets to ask for
        raise ValueError(f"gymnax:{env_id} needs gymnax, and there is no {missing}: pip install {missing}") from error
    if env_id not in gymnax.registered_envs:
        raise UnknownEnvironment(f"gymnax knows no {env_id!r}: {nearest_names(env_id, list(gymnax.registered_envs))}")

    class Gymnax(GymnaxStyle):
        __doc__ = f"{env_id} of gymnax, a JAX program."
        known_as = f"gymnax:{env_id}"

        def __init__(self, max_steps: int | None = None):
            env, params = gymnax.make(env_id)
            super().__init__(env, params, max_steps)

    return Gymnax


def brax_class(name: str) -> type[JaxWorld]:
    """The world of `brax:NAME`."""
    try:
        from brax import envs  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        raise ValueError(f"brax:{name} needs brax, and there is no {error.name}: pip install brax") from error
    known = sorted(envs._envs)
    if name not in known:
        raise UnknownEnvironment(f"Brax knows no {name!r}: {nearest_names(name, known)}")

    class Brax(BraxStyle):
        __doc__ = f"{name} of Brax, a JAX program."
        known_as = f"brax:{name}"

        def __init__(self, max_steps: int = 1000, physics: str = "generalized"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Brax has something to say about its future
                super().__init__(envs.get_environment(name, backend=physics), max_steps)

    return Brax


def _changed(params: Any, **values: Any) -> Any:
    return params.replace(**values) if hasattr(params, "replace") else dataclasses.replace(params, **values)


def _ours(space: Any) -> Space:
    """A space of gymnax: `n` choices, or `low`, `high` and a shape."""
    if hasattr(space, "n"):
        return Discrete(int(space.n))
    if not hasattr(space, "low"):
        raise ValueError(f"{type(space).__name__} is neither a box nor a choice: wrap the environment.")
    low, high = (np.broadcast_to(np.asarray(b, np.float32), space.shape).ravel() for b in (space.low, space.high))
    most = np.finfo(np.float32).max
    low, high = np.where(low <= -most, -np.inf, low), np.where(high >= most, np.inf, high)
    never = low >= high  # some features never change
    low, high = np.where(never, -np.inf, low), np.where(never, np.inf, high)
    return Box(low.size, tuple(low.tolist()), tuple(high.tolist()))
