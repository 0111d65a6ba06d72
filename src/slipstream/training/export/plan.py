"""A policy as a list of steps and some arrays: what all the forms in which it leaves us are written from.

The steps are plain JSON data that name arrays: `normalize`, `convolve`, `recur` and `dense`, in the order in which they
are taken. The head says how outputs become actions. Every form reads nothing else, so each of them is the whole policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slipstream.nets.image import LAYERS
from slipstream.nets.normalizer import LIMIT
from slipstream.nets.squashed import INITIAL_LOG_STD, LOG_STD_RANGE
from slipstream.spaces import Box, Space, to_json
from slipstream.training.config import PolicyConfig

ACTOR_CRITICS = ("ppo", "a2c")


@dataclass
class Plan:
    """How a policy acts.

    Attributes:
        observation: what it sees.
        action: what it does.
        steps: from features to outputs; the arrays they name are in `arrays`.
        head: from outputs to actions.
        memory: how many numbers it remembers; twice as many for an LSTM, whose cell has its own.
    """

    observation: Box
    action: Space
    head: dict[str, Any]
    steps: list[dict[str, Any]] = field(default_factory=list)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    memory: list[int] = field(default_factory=list)

    @property
    def noises(self) -> int:
        """How many random numbers a sampled action takes; of what distribution is `head["noise"]`."""
        return self.action.size + (1 if self.head["kind"] == "values" else 0)

    @property
    def outputs(self) -> int:
        """How many numbers the network puts out."""
        return len(self.arrays[self.steps[-1]["bias"]])

    def to_json(self) -> dict[str, Any]:
        """All but the arrays."""
        return {
            "observation": to_json(self.observation),
            "action": to_json(self.action),
            "steps": self.steps,
            "head": self.head,
            "memory": self.memory,
        }

    def keep(self, name: str, array: Any) -> str:
        """Put an array among the others; its name."""
        self.arrays[name] = np.ascontiguousarray(array, np.float32)
        return name


def plan_of(config: PolicyConfig, observation: Box, action: Space, arrays: Mapping[str, np.ndarray]) -> Plan:
    """The plan of a policy.

    Args:
        config: of the policy.
        observation: what it sees.
        action: what it does.
        arrays: of its actor, by the names that `named_arrays` gives them.
    """
    if config.network is not None:
        raise ValueError(
            f"The network {config.network} is code of your own, which only JAX runs: leave --onnx, --numpy and --c "
            "out. (The folder has its weights, and slipstream.load takes them where that code is.)"
        )
    plan = Plan(observation, action, head={})
    if "normalizer/mean" in arrays:
        plan.steps.append(_normalize(plan, arrays))
    if "memory/cell/weight_ih" in arrays:
        plan.steps.append(_recur(plan, arrays))
    actor_critic = config.algo in ACTOR_CRITICS
    root = "policy/body" if actor_critic else "network"
    if observation.image is not None:
        plan.steps += _convolve(plan, arrays, root)
        root += "/mlp"
    # Only critics normalise their layers, and only DQN acts by its critic.
    layer_norm = config.algo == "dqn" and bool(getattr(config.settings, "layer_norm", False))
    plan.steps += _dense(plan, arrays, root, config.settings.activation, layer_norm)
    plan.head = _head(plan, config, arrays)
    return plan


def _normalize(plan: Plan, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    mean, variance, varied = (arrays[f"normalizer/{n}"] for n in ("mean", "variance", "varied"))
    share = varied / np.maximum(arrays["normalizer/count"], 1.0)
    root = np.sqrt(variance / np.maximum(share, np.float32(1e-30)) + np.float32(1e-8))
    precision = np.where(share > 0, 1.0 / root, 1.0)
    return {
        "op": "normalize",
        "mean": plan.keep("normalize_mean", mean),
        "precision": plan.keep("normalize_precision", precision),
        "limit": LIMIT,
    }


def _recur(plan: Plan, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    weight = arrays["memory/cell/weight_hh"]
    kind = "gru" if "memory/cell/bias_n" in arrays else "lstm"
    names = ("weight_ih", "weight_hh", "bias", *(("bias_n",) if kind == "gru" else ()))
    plan.memory = [weight.shape[1]] * (1 if kind == "gru" else 2)
    kept = {name: plan.keep(f"memory_{name}", arrays[f"memory/cell/{name}"]) for name in names}
    return {"op": "recur", "kind": kind, "size": weight.shape[1], **kept}


def _convolve(plan: Plan, arrays: Mapping[str, np.ndarray], root: str) -> list[dict[str, Any]]:
    assert plan.observation.image is not None
    height, width, channels = plan.observation.image
    steps: list[dict[str, Any]] = []
    for i, (outputs, kernel, stride) in enumerate(LAYERS):
        shape = {"height": height, "width": width, "channels": channels, "kernel": kernel, "stride": stride}
        height, width, channels = (height - kernel) // stride + 1, (width - kernel) // stride + 1, outputs
        steps.append(
            {
                "op": "convolve",
                **shape,
                "outputs": outputs,
                "scale": 1.0 / 255.0 if i == 0 else 1.0,
                "weight": plan.keep(f"convolution_{i}_weight", arrays[f"{root}/convolutions/{i}/weight"]),
                "bias": plan.keep(f"convolution_{i}_bias", arrays[f"{root}/convolutions/{i}/bias"]),
            }
        )
    return steps


def _dense(
    plan: Plan, arrays: Mapping[str, np.ndarray], root: str, activation: str, layer_norm: bool
) -> list[dict[str, Any]]:
    count = 0
    while f"{root}/layers/{count}/weight" in arrays:
        count += 1
    if not count:
        raise ValueError(f"There are no layers {root}/layers/... among the arrays {', '.join(sorted(arrays))}.")
    steps = []
    for i in range(count):
        last = i == count - 1
        steps.append(
            {
                "op": "dense",
                "weight": plan.keep(f"layer_{i}_weight", arrays[f"{root}/layers/{i}/weight"]),
                "bias": plan.keep(f"layer_{i}_bias", arrays[f"{root}/layers/{i}/bias"]),
                "activation": "none" if last else activation,
                "layer_norm": layer_norm and not last,
            }
        )
    return steps


def _head(plan: Plan, config: PolicyConfig, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    action, settings = plan.action, config.settings
    if isinstance(action, Box):
        return _real_head(plan, config.algo, action, arrays)
    head: dict[str, Any] = {"kind": "categorical", "noise": "uniform", "choices": list(action.choices)}
    if config.algo != "dqn":
        return head
    atoms, (low, high) = int(getattr(settings, "atoms", 0)), getattr(settings, "value_range", (0.0, 0.0))
    if atoms:
        plan.keep("returns", np.linspace(low, high, atoms, dtype=np.float32))
    epsilon = 1.0 if bool(arrays["untrained"]) else float(arrays["noise"])
    return {
        **head,
        "kind": "values",
        "dueling": bool(getattr(settings, "dueling", False)),
        "atoms": atoms,
        "epsilon": epsilon,
    }


def _real_head(plan: Plan, algo: str, action: Box, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    bounded = np.isfinite(action.lows) & np.isfinite(action.highs)
    low, high = np.where(bounded, action.lows, -1.0), np.where(bounded, action.highs, 1.0)
    largest = np.finfo(np.float32).max
    head: dict[str, Any] = {
        "noise": "normal",
        "half": plan.keep("action_half", (high - low) / 2.0),
        "middle": plan.keep("action_middle", np.where(bounded, (high + low) / 2.0, 0.0)),
        "low": plan.keep("action_low", np.maximum(action.lows, -largest)),
        "high": plan.keep("action_high", np.minimum(action.highs, largest)),
    }
    if algo in ACTOR_CRITICS:
        return {"kind": "gaussian", "std": plan.keep("action_std", np.exp(arrays["policy/log_std"])), **head}
    if algo == "sac":
        low_std, high_std = LOG_STD_RANGE
        return {"kind": "squashed", "shift": INITIAL_LOG_STD, "lowest": low_std, "highest": high_std, **head}
    return {"kind": "noisy", "scale": float(arrays["noise"]), **head}
