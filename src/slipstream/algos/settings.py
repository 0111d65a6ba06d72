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
CombineName = Literal["min", "mean"]


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
class OffPolicyConfig(Settings):
    """Settings of the algorithms that learn from replay."""

    activation: ActivationName = "relu"
    batch_size: int = 256
    """Transitions for one gradient step."""
    updates_per_step: float = 0.0625
    """Gradient steps for each step of an agent; in the asynchronous pipeline, at most."""
    replay_size: int = 1_000_000
    """How many transitions are remembered."""
    warm_up: int = 5_000
    """Transitions to collect with random actions before the first gradient step."""
    n_step: int = 3
    """Rewards that are summed before the critic's own estimate takes over."""
    target_rate: float = 0.01
    """How far the slow copy of the critics moves towards them with each gradient step."""
    layer_norm: bool = False
    """Whether the critics normalise their layers."""
    atoms: int = 0
    """If positive, critics learn a distribution of returns over so many values within `value_range`."""
    value_range: tuple[float, float] = (-100.0, 100.0)
    """Which (scaled) returns a distribution covers."""
    priority: float = 0.0
    """The power of a transition's surprise by which it is drawn (0.6 is usual); 0: all alike."""
    priority_correction: float = 0.4
    """How far samples are weighted to make up for being drawn more often: 1 is all the way."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("batch_size", "replay_size", "n_step"):
            self._require(getattr(self, name) >= 1, name, "at least 1")
        self._require(self.warm_up >= 0, "warm_up", "0 or more")
        self._require(self.warm_up <= self.replay_size, "warm_up", f"at most replay_size ({self.replay_size:,})")
        self._require(self.updates_per_step > 0, "updates_per_step", "positive")
        self._require(0 < self.target_rate <= 1, "target_rate", "above 0 and at most 1")
        self._require(self.atoms == 0 or self.atoms >= 2, "atoms", "0, or at least 2")
        self._require(self.value_range[0] < self.value_range[1], "value_range", "a lower and a higher value")
        self._require(self.priority >= 0, "priority", "0 or more")
        self._require(0 <= self.priority_correction <= 1, "priority_correction", "within 0 .. 1")


@dataclass(frozen=True)
class ContinuousConfig(OffPolicyConfig):
    """Settings that SAC, TD3 and DDPG share."""

    critic_hidden: tuple[int, ...] | None = None
    """Sizes of the critics' hidden layers; None: as the policy's."""
    critics: int = 2
    combine: CombineName = "min"
    """How the critics' estimates become one."""
    policy_delay: int = 2
    """Gradient steps of the critics for each one of the policy."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("critics", "policy_delay"):
            self._require(getattr(self, name) >= 1, name, "at least 1")
        self._one_of("combine", CombineName)
        self._require(self.critic_hidden is None or all(n > 0 for n in self.critic_hidden), "critic_hidden", "positive")


@dataclass(frozen=True)
class SACConfig(ContinuousConfig):
    """Settings of SAC."""

    initial_temperature: float = 0.1
    """How much the entropy of actions counts at first; it adapts from there."""
    target_entropy: float | None = None
    """Of the actions in units of -1 .. 1; None: minus their number."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(self.initial_temperature > 0, "initial_temperature", "positive")


@dataclass(frozen=True)
class TD3Config(ContinuousConfig):
    """Settings of TD3."""

    exploration_noise: float = 0.1
    """Deviation of what is added to actions while exploring, in units of -1 .. 1."""
    smoothing_noise: float = 0.2
    """Deviation of what is added to the actions whose values the critics learn from."""
    smoothing_limit: float = 0.5
    """That noise is cut off here."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("exploration_noise", "smoothing_noise", "smoothing_limit"):
            self._require(getattr(self, name) >= 0, name, "0 or more")


@dataclass(frozen=True)
class DDPGConfig(TD3Config):
    """Settings of DDPG: TD3 with one critic, without smoothing and without delay."""

    critics: int = 1
    policy_delay: int = 1
    smoothing_noise: float = 0.0


@dataclass(frozen=True)
class DQNConfig(OffPolicyConfig):
    """Settings of DQN."""

    double: bool = True
    """The online network chooses the next action, the slow copy values it."""
    dueling: bool = False
    """Values of states and advantages of actions have outputs of their own."""
    exploration_updates: int = 1_000
    """Gradient steps over which the share of random actions falls from 1."""
    exploration_final: float = 0.05
    """The share of random actions after that."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require(self.exploration_updates >= 1, "exploration_updates", "at least 1")
        self._require(0 <= self.exploration_final <= 1, "exploration_final", "within 0 .. 1")


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
    "sac": Entry(SACConfig, "slipstream.algos.sac:make_sac"),
    "td3": Entry(TD3Config, "slipstream.algos.td3:make_td3"),
    "ddpg": Entry(DDPGConfig, "slipstream.algos.td3:make_td3"),
    "dqn": Entry(DQNConfig, "slipstream.algos.dqn:make_dqn"),
}
"""The only list of algorithms: the command line, the presets and the configuration all read it."""
