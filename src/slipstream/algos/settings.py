"""The settings of every algorithm, and the one table of their names.

Nothing here imports JAX, so that the command line can explain settings at once.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

ActivationName = Literal["tanh", "relu", "swish", "elu"]
MemoryName = Literal["none", "gru", "lstm"]


@dataclass(frozen=True)
class Settings:
    """What every algorithm can be told."""

    learning_rate: float = 3e-4
    discount: float = 0.99
    """How much a reward one step later counts."""
    normalize_observation: bool = True
    reward_scale: float = 1.0
    """Rewards are multiplied by this before learning."""
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the hidden layers."""
    activation: ActivationName = "tanh"

    def __post_init__(self) -> None:
        self._require(self.learning_rate > 0, "learning_rate", "positive")
        self._require(0 <= self.discount <= 1, "discount", "within 0 .. 1")
        self._require(self.reward_scale > 0, "reward_scale", "positive")
        self._require(all(n > 0 for n in self.hidden), "hidden", "a list of positive sizes")
        self._one_of("activation", ActivationName)

    def _require(self, ok: bool, name: str, must: str) -> None:
        if not ok:
            raise ValueError(f"{name} must be {must}, got {getattr(self, name)!r}.")

    def _one_of(self, name: str, choices: Any) -> None:
        self._require(getattr(self, name) in choices.__args__, name, f"one of {', '.join(choices.__args__)}")


@dataclass(frozen=True)
class ActorCriticConfig(Settings):
    """Settings that PPO and A2C share."""

    learning_rate_final: float | None = None
    """If given, the learning rate goes there linearly over the training."""
    trace: float = 0.95
    """Lambda of generalised advantage estimation."""
    entropy_cost: float = 0.0
    """Weight of the entropy bonus."""
    entropy_cost_final: float | None = None
    """If given, the weight goes there linearly over the training."""
    value_cost: float = 0.5
    """Weight of the value error."""
    max_grad_norm: float = 0.5
    """Longer gradients are shortened to this."""
    normalize_advantage: bool = True
    initial_log_std: float = 0.0
    """Of a continuous policy's actions, in units in which a bounded action spans -1 .. 1."""
    memory: MemoryName = "none"
    """What the policy remembers an episode by: nothing, a GRU or an LSTM."""
    memory_size: int = 64
    """How many numbers that memory puts out."""

    def __post_init__(self) -> None:
        super().__post_init__()
        final = self.learning_rate_final
        self._require(final is None or final >= 0, "learning_rate_final", "0 or more")
        self._require(0 <= self.trace <= 1, "trace", "within 0 .. 1")
        self._require(self.max_grad_norm > 0, "max_grad_norm", "positive")
        self._one_of("memory", MemoryName)
        self._require(self.memory_size > 0, "memory_size", "positive")


@dataclass(frozen=True)
class PPOConfig(ActorCriticConfig):
    """Settings of PPO."""

    clip_ratio: float = 0.2
    """How far the probability of an action may move in one update."""
    clip_value: float | None = None
    """How far a value may move from the one before the update; None: as far as it wants."""
    epochs: int = 4
    """How often each rollout is gone through."""
    minibatches: int = 4
    """Gradient steps in each epoch."""
    target_kl: float | None = None
    """If given, the learning rate adapts so that an update moves the policy about this far."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("epochs", "minibatches"):
            self._require(getattr(self, name) >= 1, name, "at least 1")
        self._require(self.clip_ratio > 0, "clip_ratio", "positive")
        if self.target_kl is not None and self.learning_rate_final is not None:
            raise ValueError("target_kl adapts the learning rate, so learning_rate_final must stay unset.")


@dataclass(frozen=True)
class A2CConfig(ActorCriticConfig):
    """Settings of A2C."""

    learning_rate: float = 1e-3
    trace: float = 1.0
    rms_decay: float = 0.99
    """How long the optimiser (RMSProp) remembers squared gradients."""


@dataclass(frozen=True)
class Entry:
    """An algorithm: its settings, and where its maker is (`module:function`, imported when it is needed)."""

    settings: type[Settings]
    maker: str

    def load_maker(self) -> Callable[..., Any]:
        """The function `(settings, observation space, action space, *, network, average) -> Algorithm`."""
        module, _, name = self.maker.partition(":")
        return getattr(importlib.import_module(module), name)


ALGORITHMS: dict[str, Entry] = {
    "ppo": Entry(PPOConfig, "slipstream.algos.ppo:make_ppo"),
    "a2c": Entry(A2CConfig, "slipstream.algos.a2c:make_a2c"),
}
"""The only list of algorithms: the command line, the presets and the configuration all read it."""
