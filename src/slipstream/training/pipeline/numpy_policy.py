"""Policies in plain NumPy: what acts in a sampler process, where JAX would cost a second and 200 MB.

The weights are the arrays of a JAX actor under the names that `named_arrays` gives them; who writes new ones into them
says so by `renew`. `recipe_of` says how they are put to use, as plain JSON data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstream.spaces import Box, Space, from_json, to_json
from slipstream.training.pipeline.numpy_heads import head_of, to_env
from slipstream.training.pipeline.numpy_nets import network_of

if TYPE_CHECKING:
    from slipstream.training.config import PolicyConfig

ACTOR_CRITICS = ("ppo", "a2c")
"""Algorithms whose policies are distributions: learning needs to know how likely an action was."""

NORMALIZED_LIMIT = 10.0
"""As in nets/normalizer.py."""


def recipe_of(config: PolicyConfig, observation: Box, action: Space) -> dict[str, Any]:
    """How a policy acts, as plain data.

    Args:
        config: of the policy.
        observation: what it sees.
        action: what it does.
    """
    if config.members:
        raise ValueError("An ensemble of policies can only be evaluated in environments of Gymnasium.")
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
    names = ("activation", "layer_norm", "dueling", "atoms", "value_range")
    settings = {name: getattr(config.settings, name) for name in names if hasattr(config.settings, name)}
    return {"algo": config.algo, "observation": to_json(observation), "action": to_json(action), **settings}


class NumpyPolicy:
    """Acts as the JAX actor does whose recipe and arrays it is given."""

    def __init__(self, recipe: Mapping[str, Any], arrays: Mapping[str, np.ndarray]):
        """Args:
        recipe: made by `recipe_of`.
        arrays: by name; when they change, call `renew`.
        """
        observation, action = from_json(recipe["observation"]), from_json(recipe["action"])
        assert isinstance(observation, Box)
        self._normalizer = Normalizer(arrays) if "normalizer/mean" in arrays else None
        root = "policy/body" if recipe["algo"] in ACTOR_CRITICS else "network"
        # Only critics normalise their layers, and only DQN acts by its critic.
        layer_norm = recipe["algo"] == "dqn" and recipe["layer_norm"]
        self._network = network_of(observation, arrays, root, recipe["activation"], layer_norm)
        self._to_env = to_env(action)
        self._head = head_of(recipe, action, arrays)

    def renew(self) -> None:
        """There are new weights in the arrays."""
        self._network.renew()
        if self._normalizer is not None:
            self._normalizer.renew()

    def act(
        self, observation: np.ndarray, explore: bool, rng: np.random.Generator, mask: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
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

    def __init__(self, arrays: Mapping[str, np.ndarray]):
        names = ("mean", "variance", "count", "varied")
        self._mean, self._variance, self._count, self._varied = (arrays[f"normalizer/{n}"] for n in names)
        self._lanes = 0

    def renew(self) -> None:
        self._lanes = 0

    def _spread(self, lanes: int) -> None:
        """Make ready what the next calls with so many lanes need: arrays in the shape of observations."""
        share = self._varied / np.maximum(self._count, np.float32(1.0))
        root = np.sqrt(self._variance / np.maximum(share, np.float32(1e-30)) + np.float32(1e-8))
        precision = np.where(share > 0, np.float32(1.0) / root, np.float32(1.0))
        limit = np.full(len(precision), NORMALIZED_LIMIT, np.float32)
        rows = (np.repeat(row[None], lanes, axis=0) for row in (self._mean, precision, limit, -limit))
        self._middle, self._precision, self._most, self._least = (row.T for row in rows)
        self._lanes = lanes

    def __call__(self, x: np.ndarray) -> np.ndarray:
        if x.shape[1] != self._lanes:
            self._spread(x.shape[1])
        scaled = np.subtract(x, self._middle)
        scaled *= self._precision
        np.maximum(scaled, self._least, out=scaled)
        return np.minimum(scaled, self._most, out=scaled)
