"""Environments with the interfaces of gymnax and of Brax, without either."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class Params:
    max_steps_in_episode: int = 500
    force: float = 10.0


class CartPoleState(NamedTuple):
    x: jax.Array
    x_dot: jax.Array
    theta: jax.Array
    theta_dot: jax.Array
    time: jax.Array | int


class Choices:
    n = 2


class Features:
    low, high, shape = -jnp.finfo(jnp.float32).max, jnp.finfo(jnp.float32).max, (4,)


class GymnaxCartPole:
    """Barto, Sutton and Anderson's cart and pole, in the form that gymnax gives its environments."""

    default_params = Params()

    def action_space(self, params):
        return Choices()

    def observation_space(self, params):
        return Features()

    def reset_env(self, key, params):
        x = jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)
        state = CartPoleState(*x, 0)
        return jnp.stack(state[:4]), state

    def step_env(self, key, state, action, params):
        x, v, angle, spin, time = state
        force = params.force * (2.0 * action - 1.0)
        push = (force + 0.05 * spin**2 * jnp.sin(angle)) / 1.1
        turn = (9.8 * jnp.sin(angle) - jnp.cos(angle) * push) / (0.5 * (4.0 / 3.0 - 0.1 * jnp.cos(angle) ** 2 / 1.1))
        drive = push - 0.05 * turn * jnp.cos(angle) / 1.1
        after = CartPoleState(x + 0.02 * v, v + 0.02 * drive, angle + 0.02 * spin, spin + 0.02 * turn, time + 1)
        fell = (jnp.abs(after.x) > 2.4) | (jnp.abs(after.theta) > 0.2094395)
        done = fell | (after.time >= params.max_steps_in_episode)  # as gymnax did before its version 1
        return jnp.stack(after[:4]), after, jnp.float32(1.0), done, {}


@dataclass(frozen=True)
class BraxState:
    obs: jax.Array
    reward: jax.Array
    done: jax.Array
    info: dict[str, Any]


jax.tree_util.register_dataclass(BraxState, ["obs", "reward", "done", "info"], [])


class BraxSlide:
    """Slide to the middle; over the edge it is over."""

    observation_size, action_size = 2, 1

    def __init__(self, breaks_at: float = jnp.inf):
        self.breaks_at = breaks_at

    def reset(self, rng):
        rng, drawn = jax.random.split(rng)
        obs = jax.random.uniform(drawn, (2,), minval=-0.5, maxval=0.5)
        return BraxState(obs, jnp.zeros(()), jnp.zeros(()), {"rng": rng})

    def step(self, state, action):
        rng, drawn = jax.random.split(state.info["rng"])
        position, speed = state.obs
        speed = 0.9 * speed + 0.1 * action[0] + 0.001 * jax.random.normal(drawn)
        position = position + 0.1 * speed
        position = jnp.where(position > self.breaks_at, jnp.nan, position)
        obs = jnp.stack([position, speed])
        return replace(state, obs=obs, reward=-(position**2), done=1.0 * (abs(position) > 1.0), info={"rng": rng})
