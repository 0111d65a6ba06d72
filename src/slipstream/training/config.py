"""What a training run is made of, as frozen data that survives a round trip through JSON."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from slipstream.algos.a2c import A2CConfig, make_a2c
from slipstream.algos.actor_critic import ActorCriticConfig
from slipstream.algos.algo import Algorithm
from slipstream.algos.ppo import PPOConfig, make_ppo
from slipstream.arrays import BACKEND_CHOICES
from slipstream.envs.registry import nearest_names
from slipstream.spaces import Space

AlgoName = Literal["ppo", "a2c"]
SETTINGS: dict[str, type[ActorCriticConfig]] = {"ppo": PPOConfig, "a2c": A2CConfig}


@dataclass(frozen=True)
class PolicyConfig:
    """A policy: who acts by it, and how it learns."""

    groups: tuple[str, ...]
    """The groups of agents that share this policy; their spaces must be the same."""
    algo: AlgoName = "ppo"
    settings: ActorCriticConfig = field(default_factory=PPOConfig)
    frozen: bool = False
    """Acts, but does not learn."""
    load: str | None = None
    """An earlier run to begin from: `RUN`, or `RUN:POLICY` if that has several."""

    def __post_init__(self) -> None:
        if self.algo not in SETTINGS:
            raise ValueError(f"Unknown algorithm {self.algo!r}: {nearest_names(self.algo, list(SETTINGS))}")
        if not isinstance(self.settings, SETTINGS[self.algo]):
            raise ValueError(
                f"Algorithm {self.algo!r} needs settings of type {SETTINGS[self.algo].__name__}, "
                f"got {type(self.settings).__name__}."
            )

    def algorithm(self, action_space: Space) -> Algorithm:
        if isinstance(self.settings, PPOConfig):
            return make_ppo(self.settings, action_space)
        assert isinstance(self.settings, A2CConfig)
        return make_a2c(self.settings, action_space)


@dataclass(frozen=True)
class TrainConfig:
    """A training run."""

    env: str
    policies: Mapping[str, PolicyConfig]
    env_options: Mapping[str, Any] = field(default_factory=dict)
    num_worlds: int = 1024
    rollout_length: int = 32
    """Steps of every world between two updates."""
    total_steps: int = 2_000_000
    """Steps of all worlds together."""
    seed: int = 0
    backend: str = "auto"
    report_every: float = 1.0
    """Seconds between two rows of metrics."""
    checkpoint_every: float = 30.0
    """Seconds between two checkpoints; 0: after every iteration."""
    keep_checkpoints: int = 3
    """How many of the newest checkpoints to keep, beside the best."""
    evaluate_every: int | None = None
    """Iterations between two evaluations without exploration; None: never, or every 4 with `stop_at_return`."""
    evaluate_episodes: int = 100
    stop_at_return: float | None = None
    """End when an evaluation's mean return of the first policy reaches this."""

    def __post_init__(self) -> None:
        for name in ("num_worlds", "rollout_length", "total_steps", "keep_checkpoints", "evaluate_episodes"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a positive whole number, got {value!r}.")
        if self.evaluate_every is not None and self.evaluate_every < 1:
            raise ValueError(f"evaluate_every must be at least 1, got {self.evaluate_every}.")
        for name in ("report_every", "checkpoint_every"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be 0 or more seconds, got {getattr(self, name)}.")
        if self.backend not in BACKEND_CHOICES or self.backend == "scalar":
            raise ValueError(f"Training needs a compiled backend (auto, llvm, cuda), got {self.backend!r}.")
        if not self.policies:
            raise ValueError("A training run needs at least one policy.")

    @property
    def steps_per_iteration(self) -> int:
        return self.num_worlds * self.rollout_length

    @property
    def iterations(self) -> int:
        return -(-self.total_steps // self.steps_per_iteration)

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> TrainConfig:
        if not isinstance(data, Mapping) or not isinstance(data.get("policies", {}), Mapping):
            raise ValueError("A configuration is an object, and so are its policies.")
        data = {k: v for k, v in data.items() if k != "format"}
        policies = {name: _policy_from_json(name, p) for name, p in data.pop("policies", {}).items()}
        _check_names("training setting", data, TrainConfig)
        if "env" not in data:
            raise ValueError("A configuration must name its env.")
        for name, kind in (("env", str), ("seed", int), ("env_options", dict)):
            if name in data and type(data[name]) is not kind:
                raise ValueError(f"{name} must be {kind.__name__}, got {data[name]!r}.")
        for name in ("report_every", "checkpoint_every", "stop_at_return", "evaluate_every"):
            if not isinstance(data.get(name), int | float | None) or isinstance(data.get(name), bool):
                raise ValueError(f"{name} must be a number, got {data[name]!r}.")
        return TrainConfig(policies=policies, **data)


def _policy_from_json(name: str, data: Mapping[str, Any]) -> PolicyConfig:
    if not isinstance(data, Mapping) or not isinstance(data.get("groups"), list | tuple):
        raise ValueError(f"Policy {name!r} must be an object with a list of groups, got {data!r}.")
    _check_names("policy setting", data, PolicyConfig)
    algo = data.get("algo", "ppo")
    settings = make_settings(algo, data.get("settings", {}))
    return PolicyConfig(**{**data, "groups": tuple(data["groups"]), "algo": algo, "settings": settings})


def make_settings(algo: str, values: Mapping[str, Any], base: ActorCriticConfig | None = None) -> ActorCriticConfig:
    """Settings of an algorithm from plain values, checked for their names and types.

    Args:
        algo: name of the algorithm.
        values: what differs from `base`.
        base: where to start from; by default the algorithm's own defaults.
    """
    if algo not in SETTINGS:
        raise ValueError(f"Unknown algorithm {algo!r}: {nearest_names(algo, list(SETTINGS))}")
    _check_names(f"{algo} setting", values, SETTINGS[algo])
    hints = typing.get_type_hints(SETTINGS[algo])
    converted = {name: _convert(name, value, hints[name]) for name, value in values.items()}
    return dataclasses.replace(base if base is not None else SETTINGS[algo](), **converted)


def _convert(name: str, value: Any, hint: Any) -> Any:
    """A JSON value as the type of its field."""
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if value is None and type(None) in options:
        return None
    if typing.get_origin(options[0]) is tuple:
        items = tuple(value) if isinstance(value, list | tuple) else (value,)
        element = typing.get_args(options[0])[0]
        if any(type(item) is not element for item in items):
            raise ValueError(f"{name} must be a list of {element.__name__}, got {value!r}.")
        return items
    kind = options[0]
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    plain = kind if isinstance(kind, type) else str
    if type(value) is not plain:
        raise ValueError(f"{name} must be {getattr(plain, '__name__', plain)}, got {value!r}.")
    return value


def _check_names(what: str, values: Mapping[str, Any], record: type) -> None:
    known = [f.name for f in dataclasses.fields(record)]
    for name in values:
        if name not in known:
            raise ValueError(f"Unknown {what} {name!r}: {nearest_names(name, known)}")
