"""From a network's outputs to actions in plain NumPy, one way for each algorithm."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from slipstream.spaces import Box, Space

Array = np.ndarray
Head = Callable[[Array, Array | None, bool, np.random.Generator], tuple[Array, dict[str, Array]]]
"""From outputs, a mask, whether to explore, and randomness to an action in the policy's own units, and what is kept for
learning. Nothing that is returned is used again."""

NEVER = np.float32(-1e9)
"""Logit or value of a choice that is not allowed."""
INITIAL_LOG_STD, LOWEST_LOG_STD, HIGHEST_LOG_STD = np.float32(-1.0), np.float32(-5.0), np.float32(1.0)
"""Of SAC, as in nets/squashed.py."""


def head_of(recipe: Mapping[str, Any], action: Space, arrays: Mapping[str, Array]) -> Head:
    """How an algorithm acts.

    Args:
        recipe: of the policy.
        action: what it does.
        arrays: its weights, of which some are used here.
    """
    algo = recipe["algo"]
    if algo in ("ppo", "a2c"):
        return _gaussian(arrays["policy/log_std"]) if isinstance(action, Box) else _categorical(action.choices)
    if algo == "dqn" and not isinstance(action, Box):
        return _greedy(_values(recipe, action.choices), action.choices, arrays["untrained"], arrays["noise"])
    if algo == "sac":
        return _at_random_at_first(arrays["untrained"], action.size, _squashed)
    if algo in ("td3", "ddpg"):
        return _at_random_at_first(arrays["untrained"], action.size, _noisy(arrays["noise"]))
    raise ValueError(f"Algorithm {algo!r} does not act in {action}.")


def to_env(space: Space) -> Callable[[Array], Array]:
    """From a policy's own units, in which bounded components span [-1, 1], to those of the space, within its bounds."""
    if not isinstance(space, Box):
        return lambda action: action
    low, high = space.lows[:, None], space.highs[:, None]
    bounded = np.isfinite(low) & np.isfinite(high)
    half = np.where(bounded, np.subtract(high, low, where=bounded, out=np.full_like(low, 2.0)) / 2.0, 1.0)
    middle = np.where(bounded, np.add(high, low, where=bounded, out=np.zeros_like(low)) / 2.0, 0.0)
    half, middle = half.astype(np.float32), middle.astype(np.float32)

    @lru_cache(maxsize=2)
    def repeated(lanes: int) -> list[Array]:  # arrays of one shape are quicker to work with than columns
        return [np.repeat(column, lanes, axis=1) for column in (low, high, half, middle)]

    def clip(action: Array) -> Array:
        lows, highs, _, _ = repeated(action.shape[1])
        out = np.maximum(action, lows)
        return np.minimum(out, highs, out=out)

    if np.all(half == 1.0) and np.all(middle == 0.0):
        return clip

    def translate(action: Array) -> Array:
        lows, highs, halves, middles = repeated(action.shape[1])
        out = action * halves
        out += middles
        np.maximum(out, lows, out=out)
        return np.minimum(out, highs, out=out)

    return translate


def _gaussian(log_std: Array) -> Head:
    constant = 0.5 * math.log(2.0 * math.pi)

    def head(mean: Array, mask: Array | None, explore: bool, rng: np.random.Generator) -> tuple[Array, dict]:
        std = log_std[:, None]
        if not explore:
            log_prob = np.full(mean.shape[1], -(log_std.sum() + constant * log_std.size), np.float32)
            return mean.copy(), {"log_prob": log_prob}
        z = rng.standard_normal(mean.shape, np.float32)
        action = mean + np.exp(std) * z
        return action, {"log_prob": (-0.5 * z * z - std - constant).sum(axis=0, dtype=np.float32)}

    return head


def _categorical(choices: tuple[int, ...]) -> Head:
    ends = np.cumsum(choices)[:-1]

    def head(logits: Array, mask: Array | None, explore: bool, rng: np.random.Generator) -> tuple[Array, dict]:
        allowed = logits if mask is None else np.where(mask, logits, NEVER)
        lanes = logits.shape[1]
        action, log_prob = np.empty((len(choices), lanes), np.int32), np.zeros(lanes, np.float32)
        uniform = rng.random((len(choices), lanes), np.float32) if explore else None
        everyone = np.arange(lanes)
        for i, part in enumerate(np.split(allowed, ends)):
            weight = np.exp(part - part.max(axis=0))
            action[i] = part.argmax(axis=0) if uniform is None else _inverse_cdf(weight, uniform[i])
            log_prob += np.log(weight[action[i], everyone] / weight.sum(axis=0))
        return action, {"log_prob": log_prob}

    return head


def _at_random_at_first(
    untrained: Array, components: int, choose: Callable[[Array, bool, np.random.Generator], Array]
) -> Head:
    """While nothing has been learned, exploring is acting at random."""

    def head(outputs: Array, mask: Array | None, explore: bool, rng: np.random.Generator) -> tuple[Array, dict]:
        if explore and untrained:
            return 2.0 * rng.random((components, outputs.shape[1]), np.float32) - np.float32(1.0), {}
        return choose(outputs, explore, rng), {}

    return head


def _squashed(outputs: Array, explore: bool, rng: np.random.Generator) -> Array:
    """SAC: a normal distribution bent by tanh."""
    components = len(outputs) // 2
    mean, raw = outputs[:components], outputs[components:]
    if not explore:
        return np.tanh(mean)
    # Not np.clip: it takes several times as long for so few numbers.
    std = raw + INITIAL_LOG_STD
    np.maximum(std, LOWEST_LOG_STD, out=std)
    np.minimum(std, HIGHEST_LOG_STD, out=std)
    np.exp(std, out=std)
    std *= rng.standard_normal(std.shape, np.float32)
    std += mean
    return np.tanh(std, std)


def _noisy(noise: Array) -> Callable[[Array, bool, np.random.Generator], Array]:
    """TD3 and DDPG: tanh, with noise added."""

    def choose(outputs: Array, explore: bool, rng: np.random.Generator) -> Array:
        action = np.tanh(outputs)
        if explore:
            action += np.float32(noise) * rng.standard_normal(action.shape, np.float32)
            np.minimum(np.maximum(action, -1.0, out=action), 1.0, out=action)
        return action

    return choose


def _values(recipe: Mapping[str, Any], choices: tuple[int, ...]) -> Callable[[Array], Array]:
    """DQN: from outputs to what every choice is worth, `[choices, lanes]`."""
    atoms, dueling = recipe["atoms"], recipe["dueling"]
    low, high = recipe["value_range"]
    returns = np.linspace(low, high, atoms, dtype=np.float32)[:, None] if atoms else None
    ends = np.cumsum(choices)

    def values(outputs: Array) -> Array:
        if returns is None and not dueling:
            return outputs
        out = outputs.reshape(-1, atoms or 1, outputs.shape[-1])
        of_choices = out[: ends[-1]]
        if dueling:
            parts = np.split(of_choices, ends[:-1])
            states = out[ends[-1] :]
            of_choices = np.concatenate([s + p - p.mean(axis=0) for s, p in zip(states, parts)])
        if returns is None:
            return of_choices[:, 0]
        weight = np.exp(of_choices - of_choices.max(axis=1, keepdims=True))
        return (weight * returns).sum(axis=1) / weight.sum(axis=1)

    return values


def _greedy(values: Callable[[Array], Array], choices: tuple[int, ...], untrained: Array, noise: Array) -> Head:
    """DQN: the best that is allowed, and now and then anything that is."""
    ends = np.cumsum(choices)[:-1]

    def head(outputs: Array, mask: Array | None, explore: bool, rng: np.random.Generator) -> tuple[Array, dict]:
        worth = values(outputs)
        lanes = worth.shape[1]
        worth = worth if mask is None else np.where(mask, worth, NEVER)
        action = np.stack([part.argmax(axis=0) for part in np.split(worth, ends)]).astype(np.int32)
        if explore:
            anything = rng.random(lanes) < (1.0 if untrained else float(noise))
            if anything.any():
                weight = np.ones_like(worth) if mask is None else mask.astype(np.float32)
                uniform = rng.random((len(choices), lanes), np.float32)
                drawn = [_inverse_cdf(part, u) for part, u in zip(np.split(weight, ends), uniform)]
                action = np.where(anything, np.stack(drawn), action).astype(np.int32)
        return action, {}

    return head


def _inverse_cdf(weight: Array, uniform: Array) -> Array:
    """The choice whose share of the cumulated weight `uniform` falls into; one without weight is never taken.

    Args:
        weight: `[choices, lanes]`.
        uniform: in 0 .. 1, `[lanes]`.
    """
    cumulated = np.cumsum(weight, axis=0)
    total = cumulated[-1]
    point = np.minimum(uniform * total, total * np.float32(1.0 - 2.0**-22))
    return (cumulated <= point).sum(axis=0)
