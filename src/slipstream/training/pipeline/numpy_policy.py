"""Policies in plain NumPy: what acts in a sampler process, where JAX would cost a second and 200 MB.

The weights are the arrays of a JAX actor under the names that `named_arrays` gives them; they may be views of shared
memory that somebody else writes between two calls. `recipe_of` says how they are put to use, as plain JSON data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstream.spaces import Box, Space, from_json, to_json

if TYPE_CHECKING:
    from slipstream.training.config import PolicyConfig

ACTOR_CRITICS = ("ppo", "a2c")
"""Algorithms whose policies are distributions: learning needs to know how likely an action was."""

NORMALIZED_LIMIT = 10.0
"""As in nets/normalizer.py."""
INITIAL_LOG_STD, LOWEST_LOG_STD, HIGHEST_LOG_STD = np.float32(-1.0), np.float32(-5.0), np.float32(1.0)
"""As in nets/squashed.py."""
NEVER = -1e9
"""Logit of a choice that is not allowed."""

Array = np.ndarray
Head = Callable[[Array, Array | None, bool, np.random.Generator], tuple[Array, dict[str, Array]]]
"""From the network's outputs and a mask to an action in the policy's own units, and what is kept for learning."""


def recipe_of(config: PolicyConfig, observation: Box, action: Space) -> dict[str, Any]:
    """How a policy acts, as plain data.

    Args:
        config: of the policy.
        observation: what it sees.
        action: what it does.
    """
    if config.network is not None:
        raise ValueError(
            f"The network {config.network} cannot act here: environments of Gymnasium are sampled by processes without "
            "JAX. Leave --network out, and choose the sizes with --set hidden=[...]."
        )
    if getattr(config.settings, "memory", "none") != "none":
        raise ValueError(
            "Policies with a memory cannot act in environments of Gymnasium: leave --set memory out, and stack frames "
            "(gymnasium.wrappers.FrameStackObservation) where the past matters."
        )
    if config.algo == "dqn" and getattr(config.settings, "atoms", 0):
        raise ValueError("A DQN with --set atoms needs JAX to act: leave atoms out in environments of Gymnasium.")
    return {
        "algo": config.algo,
        "activation": config.settings.activation,
        "observation": to_json(observation),
        "action": to_json(action),
    }


class NumpyPolicy:
    """Acts as the JAX actor does whose recipe and arrays it is given."""

    def __init__(self, recipe: Mapping[str, Any], arrays: Mapping[str, Array]):
        """Args:
        recipe: made by `recipe_of`.
        arrays: by name; they are looked at anew in every call.
        """
        observation, action = from_json(recipe["observation"]), from_json(recipe["action"])
        assert isinstance(observation, Box)
        self._normalizer = Normalizer(arrays) if "normalizer/mean" in arrays else None
        root = "policy/body" if recipe["algo"] in ACTOR_CRITICS else "network"
        self._network = Network(arrays, root, recipe["activation"])
        self._to_env = to_env(action)
        self._head = _head(recipe["algo"], action, arrays)

    def act(
        self, observation: Array, explore: bool, rng: np.random.Generator, mask: Array | None = None
    ) -> tuple[Array, Array, dict[str, Array]]:
        """Choose.

        Args:
            observation: `[features, lanes]`.
            explore: as in training, or as well as can be.
            rng: randomness of exploring.
            mask: which choices are allowed, `[choices, lanes]`.

        Returns:
            The action in the policy's own units and in those of the environment, `[components, lanes]` each, and what
            learning wants to know of it: `log_prob`, `[lanes]`, for PPO and A2C. The arrays are the caller's to keep.
        """
        x = observation if self._normalizer is None else self._normalizer(observation)
        action, kept = self._head(self._network(x), mask, explore, rng)
        return action, self._to_env(action), kept


class Normalizer:
    """What `nets.normalizer.Normalizer` does when it is called."""

    def __init__(self, arrays: Mapping[str, Array]):
        names = ("mean", "variance", "count", "varied")
        self._mean, self._variance, self._count, self._varied = (arrays[f"normalizer/{n}"] for n in names)
        self._seen: tuple[bytes, ...] = ()
        self._precision = self._middle = np.zeros(0, np.float32)

    def __call__(self, x: Array) -> Array:
        seen = (self._mean.tobytes(), self._variance.tobytes(), self._varied.tobytes())
        if seen != self._seen:  # there are new weights
            share = self._varied / np.maximum(self._count, np.float32(1.0))
            root = np.sqrt(self._variance / np.maximum(share, np.float32(1e-30)) + np.float32(1e-8))
            self._precision = np.where(share > 0, np.float32(1.0) / root, np.float32(1.0))[:, None]
            self._middle = self._mean.copy()[:, None]
            self._seen = seen
        scaled = np.subtract(x, self._middle)
        scaled *= self._precision
        np.maximum(scaled, -NORMALIZED_LIMIT, out=scaled)
        return np.minimum(scaled, NORMALIZED_LIMIT, out=scaled)


class Network:
    """What `nets.mlp.MLP` does when it is called."""

    def __init__(self, arrays: Mapping[str, Array], root: str, activation: str):
        self._layers: list[tuple[Array, Array]] = []
        while f"{root}/layers/{len(self._layers)}/weight" in arrays:
            layer = f"{root}/layers/{len(self._layers)}"
            self._layers.append((arrays[f"{layer}/weight"], arrays[f"{layer}/bias"][:, None]))
        if not self._layers:
            raise ValueError(f"There are no layers {root}/layers/... among the arrays {', '.join(sorted(arrays))}.")
        self._activation = ACTIVATIONS[activation]
        self._room: list[Array] = []

    def __call__(self, x: Array) -> Array:
        """`[inputs, lanes]` to `[outputs, lanes]`: room that the next call uses again."""
        lanes = x.shape[1]
        if not self._room or self._room[0].shape[1] != lanes:
            self._room = [np.empty((w.shape[0], lanes), np.float32) for w, _ in self._layers]
        last = len(self._layers) - 1
        for i, ((weight, bias), out) in enumerate(zip(self._layers, self._room)):
            np.dot(weight, x, out)
            out += bias
            if i < last:
                self._activation(out)
            x = out
        return x


def _tanh(x: Array) -> None:
    np.tanh(x, x)


def _relu(x: Array) -> None:
    np.maximum(x, 0.0, out=x)


def _swish(x: Array) -> None:
    x *= _sigmoid(x)


def _elu(x: Array) -> None:
    np.copyto(x, np.expm1(np.minimum(x, 0.0)), where=x < 0)


def _sigmoid(x: Array) -> Array:
    return 0.5 * (np.tanh(0.5 * x) + 1.0)


ACTIVATIONS: dict[str, Callable[[Array], None]] = {"tanh": _tanh, "relu": _relu, "swish": _swish, "elu": _elu}
"""Each works in place."""


def to_env(space: Space) -> Callable[[Array], Array]:
    """From a policy's own units, in which bounded components span [-1, 1], to those of the space, within its bounds."""
    if not isinstance(space, Box):
        return lambda action: action
    low, high = space.lows[:, None].copy(), space.highs[:, None].copy()
    bounded = np.isfinite(low) & np.isfinite(high)
    half = np.where(bounded, np.subtract(high, low, where=bounded, out=np.full_like(low, 2.0)) / 2.0, 1.0)
    middle = np.where(bounded, np.add(high, low, where=bounded, out=np.zeros_like(low)) / 2.0, 0.0)
    half, middle = half.astype(np.float32), middle.astype(np.float32)

    def translate(action: Array) -> Array:
        out = action * half
        out += middle
        np.maximum(out, low, out=out)
        return np.minimum(out, high, out=out)

    return translate


def _head(algo: str, action: Space, arrays: Mapping[str, Array]) -> Head:
    if algo in ACTOR_CRITICS:
        return _gaussian(arrays["policy/log_std"]) if isinstance(action, Box) else _categorical(action.choices)
    untrained, noise = arrays["untrained"], arrays["noise"]
    if isinstance(action, Box):
        return _squashed(untrained) if algo == "sac" else _noisy(untrained, noise)
    return _greedy(action.choices, untrained, noise)


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


def _squashed(untrained: Array) -> Head:
    """SAC, as in nets/squashed.py."""

    def head(outputs: Array, mask: Array | None, explore: bool, rng: np.random.Generator) -> tuple[Array, dict]:
        components = len(outputs) // 2
        if not explore:
            return np.tanh(outputs[:components]), {}
        if untrained:
            return _anywhere(components, outputs.shape[1], rng), {}
        std = np.exp(np.minimum(np.maximum(outputs[components:] + INITIAL_LOG_STD, LOWEST_LOG_STD), HIGHEST_LOG_STD))
        std *= rng.standard_normal(std.shape, np.float32)
        std += outputs[:components]
        return np.tanh(std, std), {}

    return head


def _noisy(untrained: Array, noise: Array) -> Head:
    """TD3 and DDPG."""

    def head(outputs: Array, mask: Array | None, explore: bool, rng: np.random.Generator) -> tuple[Array, dict]:
        if explore and untrained:
            return _anywhere(len(outputs), outputs.shape[1], rng), {}
        action = np.tanh(outputs)
        if explore:
            action += noise * rng.standard_normal(action.shape, np.float32)
            np.minimum(np.maximum(action, -1.0, out=action), 1.0, out=action)
        return action, {}

    return head


def _greedy(choices: tuple[int, ...], untrained: Array, noise: Array) -> Head:
    """DQN: the best of each choice, or with probability `noise` any that is allowed."""
    ends = np.cumsum(choices)[:-1]

    def head(outputs: Array, mask: Array | None, explore: bool, rng: np.random.Generator) -> tuple[Array, dict]:
        # A dueling network has values of states after the advantages: they make no difference to what is best.
        values = outputs[: sum(choices)]
        allowed = values if mask is None else np.where(mask, values, np.float32(NEVER))
        lanes = values.shape[1]
        action = np.empty((len(choices), lanes), np.int32)
        for i, part in enumerate(np.split(allowed, ends)):
            action[i] = part.argmax(axis=0)
        if explore:
            at_random = rng.random(lanes) < (1.0 if untrained else noise)
            for i, part in enumerate(np.split(allowed, ends)):
                anything = inverse_cdf((part > NEVER).astype(np.float32), rng.random(lanes, np.float32))
                action[i] = np.where(at_random, anything, action[i])
        return action, {}

    return head


def _anywhere(components: int, lanes: int, rng: np.random.Generator) -> Array:
    return rng.uniform(-1.0, 1.0, (components, lanes)).astype(np.float32)


def _categorical(choices: tuple[int, ...]) -> Head:
    ends = np.cumsum(choices)[:-1]

    def head(logits: Array, mask: Array | None, explore: bool, rng: np.random.Generator) -> tuple[Array, dict]:
        allowed = logits if mask is None else np.where(mask, logits, np.float32(NEVER))
        lanes = logits.shape[1]
        action, log_prob = np.empty((len(choices), lanes), np.int32), np.zeros(lanes, np.float32)
        uniform = rng.random((len(choices), lanes), np.float32) if explore else None
        everyone = np.arange(lanes)
        for i, part in enumerate(np.split(allowed, ends)):
            weight = np.exp(part - part.max(axis=0))
            total = weight.sum(axis=0)
            if uniform is None:
                action[i] = part.argmax(axis=0)
            else:
                action[i] = inverse_cdf(weight, uniform[i])
            log_prob += np.log(weight[action[i], everyone] / total)
        return action, {"log_prob": log_prob}

    return head


def inverse_cdf(weight: Array, uniform: Array) -> Array:
    """The choice whose share of the cumulated weight `uniform` falls into; one without weight is never taken.

    Args:
        weight: `[choices, lanes]`.
        uniform: in 0 .. 1, `[lanes]`.
    """
    cumulated = np.cumsum(weight, axis=0)
    total = cumulated[-1]
    point = np.minimum(uniform * total, total * np.float32(1.0 - 2.0**-22))
    return (cumulated <= point).sum(axis=0)
