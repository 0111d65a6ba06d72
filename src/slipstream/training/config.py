"""What a training run is made of, as frozen data that survives a round trip through JSON (`config_json`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from slipstream.algos.settings import ALGORITHMS, OffPolicyConfig, PPOConfig, Settings
from slipstream.arrays import BACKEND_CHOICES
from slipstream.envs.registry import nearest_names
from slipstream.training.networks import network_name
from slipstream.training.schedule import parse_schedule


@dataclass(frozen=True)
class PolicyConfig:
    """A policy: who acts by it, and how it learns."""

    groups: tuple[str, ...]
    """The groups of agents that share this policy; their spaces must be the same."""
    algo: str = "ppo"
    settings: Settings = field(default_factory=PPOConfig)
    frozen: bool = False
    """Acts, but does not learn."""
    load: str | None = None
    """An earlier run to begin from: `RUN`, or `RUN:POLICY` if that has several. With `frozen` it may be of any
    algorithm and size: it acts as it did there."""
    network: Any = None
    """An Equinox module instead of the usual network, as a class or by its name, `path/to/file.py:Class` or
    `module:Class` (it is kept by name). It is made by `Class(inputs, outputs, key=...)`, once for the policy and once
    for its values, and maps `[inputs]` to `[outputs]`."""
    members: tuple[PolicyConfig, ...] = ()
    """An ensemble: these act together as this policy, by the mean of their actions or by a vote. It does not learn."""

    def __post_init__(self) -> None:
        if self.members and not self.frozen:
            raise ValueError("An ensemble of policies acts, but does not learn: it must be frozen.")
        if self.algo not in ALGORITHMS:
            raise ValueError(f"Unknown algorithm {self.algo!r}: {nearest_names(self.algo, list(ALGORITHMS))}")
        if self.network is not None:
            object.__setattr__(self, "network", network_name(self.network))
        wanted = ALGORITHMS[self.algo].settings
        if type(self.settings) is not wanted:
            raise ValueError(
                f"Algorithm {self.algo!r} needs settings of type {wanted.__name__}, got {type(self.settings).__name__}."
            )


@dataclass(frozen=True)
class FusedConfig:
    """The fused driver: worlds, policies and learning on one device."""

    kind: Literal["fused"] = "fused"
    num_worlds: int = 1024
    rollout_length: int = 32
    """Steps of every world between two updates."""
    stagger: bool = False
    """Begin the worlds at different points of their time limit, so that the first returns show early."""
    tune: bool = False
    """Measure before the run how many worlds, and how large batches, make most steps in a second, and take those."""
    processes: int = 1
    """How many processes train together, each on a device of its own and with an equal part of the worlds."""
    shares: int = 1
    """In how many equal shares worlds draw their actions and shuffle their samples; raised to `processes`, each of
    which has as many of them. What is learned depends on it, and not on the number of processes."""

    def __post_init__(self) -> None:
        for name in ("num_worlds", "rollout_length", "processes", "shares"):
            _require_count(name, getattr(self, name))
        if self.shares == 1:
            object.__setattr__(self, "shares", self.processes)
        if self.shares % self.processes:
            raise ValueError(
                f"{self.shares} shares cannot be dealt to {self.processes} processes: take a number of processes that "
                f"divides them."
            )
        if left := self.num_worlds % self.shares:
            who = f"{self.processes} processes" if self.shares == self.processes else f"{self.shares} shares"
            fewer, more = self.num_worlds - left, self.num_worlds - left + self.shares
            fit = f"{fewer:,} or {more:,}" if fewer else f"{more:,}"
            raise ValueError(f"{self.num_worlds:,} worlds cannot be shared out between {who} evenly: take {fit}.")
        if self.tune and self.processes > 1:
            raise ValueError("Measuring which numbers are fastest is for a single process: leave --tune out.")

    def dealt_to(self, processes: int) -> FusedConfig:
        """The same for another number of processes: with the shares that it has, if those can be dealt to them."""
        shares = processes if self.shares % processes else self.shares
        return dataclasses.replace(self, processes=processes, shares=shares)

    @property
    def steps_per_iteration(self) -> int:
        return self.num_worlds * self.rollout_length

    def whole(self, steps: int) -> int:
        """So many steps, rounded up to whole iterations."""
        return -(-steps // self.steps_per_iteration) * self.steps_per_iteration


@dataclass(frozen=True)
class PipelineConfig:
    """The pipeline: sampling, learning and evaluating in processes of their own, for environments of Gymnasium."""

    kind: Literal["pipeline"] = "pipeline"
    samplers: int | None = None
    """Processes that step environments; None: as many as tuning finds best, or there are cores but one."""
    envs_per_sampler: int | None = None
    """Environments that each of them steps; None: as tuning finds best, or 16 (8 for rollouts)."""
    rollout_length: int = 128
    """Steps of every environment between two updates, for algorithms that learn from rollouts."""
    updates_per_iteration: int | None = None
    """Gradient steps from replay between two publications of the weights; None: as many as take about 100 ms."""
    samples_per_update: float | None = None
    """At most so many samples for each gradient step: samplers that are ahead wait. None: a sixteenth of a batch, so
    that a sample is learned from 16 times in the mean. (How many gradient steps there are at most for each sample is
    the algorithm's `updates_per_step`.)"""
    evaluator_share: float = 0.2
    """How much of its time the process that evaluates works; it rests for the remainder. 0: there is none."""
    film_share: float = 0.05
    """How much of its time the process works that keeps a film of an episode in the run's directory. 0: none."""
    tune: bool | None = None
    """Measure in the first seconds how many samplers and environments are best, where it is not said (None), and how
    large batches (True), or nothing (False)."""
    split_devices: bool | None = None
    """Let the critics learn on one device and the policy on another, at the same time (SAC, TD3, DDPG). None: on two
    cores of a CPU, where networks are so large that it pays."""
    strict: bool = False
    """Whether observations and rewards that are not finite, and observations outside their space, are errors; else they
    are counted."""
    patience: float = 60.0
    """Seconds without a step after which a process counts as hung, and is replaced."""

    def __post_init__(self) -> None:
        for name in ("samplers", "envs_per_sampler", "rollout_length", "updates_per_iteration"):
            if getattr(self, name) is not None:
                _require_count(name, getattr(self, name))
        if self.samples_per_update is not None and self.samples_per_update <= 0:
            raise ValueError(f"samples_per_update must be positive, got {self.samples_per_update}.")
        for name in ("evaluator_share", "film_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be within 0 .. 1, got {getattr(self, name)}.")
        if self.patience <= 0:
            raise ValueError(f"patience must be positive, got {self.patience}.")

    def whole(self, steps: int) -> int:
        """So many steps: there are no iterations to round them to."""
        return steps


Driver = FusedConfig | PipelineConfig
DRIVERS: dict[str, type[Driver]] = {"fused": FusedConfig, "pipeline": PipelineConfig}
"""By their `kind`: what runs the worlds and the learning."""


@dataclass(frozen=True)
class TrainConfig:
    """A training run."""

    env: str
    policies: Mapping[str, PolicyConfig]
    env_options: Mapping[str, Any] = field(default_factory=dict)
    schedule: tuple[str, ...] = ()
    """Options of a robot task that hold until a step of the run, before its own do, such as
    `8M:integrator=euler,self_contacts=0`; several with increasing steps (see `schedule.py`)."""
    driver: Driver = field(default_factory=FusedConfig)
    total_steps: int | None = 2_000_000
    """Steps of all worlds together; None: only `total_seconds` count."""
    total_seconds: float | None = None
    """End after so many seconds of training."""
    seed: int = 0
    backend: str = "auto"
    report_every: float = 1.0
    """Seconds between two rows of metrics."""
    checkpoint_every: float = 30.0
    """Seconds between two checkpoints; 0: after every iteration."""
    keep_checkpoints: int = 3
    """How many of the newest checkpoints to keep, beside the best."""
    save_replay: bool = True
    """Whether checkpoints keep what policies learn from again and again (the newest one does): without it a run that
    goes on has to collect it anew."""
    evaluate_every: int | None = None
    """Iterations between two evaluations without exploration; None: never, or every 4 with `stop_at_return` (in the
    pipeline, where they take nobody's time but their own: as often as `evaluator_share` allows). The best checkpoint is
    the one that evaluated best; without evaluations it is the latest."""
    evaluate_episodes: int = 100
    stop_at_return: float | None = None
    """End when an evaluation's mean return of the first policy that learns reaches this."""
    log: tuple[str, ...] = ()
    """Who else is told the metrics, beside files and TensorBoard: `wandb`, `mlflow`."""

    def __post_init__(self) -> None:
        for name in ("keep_checkpoints", "evaluate_episodes"):
            _require_count(name, getattr(self, name))
        for name in ("total_steps", "evaluate_every"):
            if getattr(self, name) is not None:
                _require_count(name, getattr(self, name))
        if type(self.seed) is not int:
            raise ValueError(f"seed must be a whole number, got {self.seed!r}.")
        for name in ("report_every", "checkpoint_every", "total_seconds"):
            if (getattr(self, name) or 0.0) < 0:
                raise ValueError(f"{name} must be 0 or more seconds, got {getattr(self, name)}.")
        if self.total_steps is None and self.total_seconds is None:
            raise ValueError("A training run needs a budget: total_steps or total_seconds.")
        if self.backend not in BACKEND_CHOICES or self.backend == "scalar":
            raise ValueError(f"Training needs a compiled backend (auto, llvm, cuda), got {self.backend!r}.")
        if isinstance(self.schedule, str):
            object.__setattr__(self, "schedule", (self.schedule,))
        if parse_schedule(self.schedule) and not isinstance(self.driver, FusedConfig):
            raise ValueError(f"A schedule changes the physics of a robot, and that of {self.env} is Gymnasium's.")
        if not self.policies:
            raise ValueError("A training run needs at least one policy.")
        for name, policy in self.policies.items():
            replays = isinstance(policy.settings, OffPolicyConfig) and not policy.frozen
            if replays and isinstance(self.driver, FusedConfig) and self.driver.shares > 1:
                raise ValueError(
                    f"Algorithm {policy.algo!r} learns from a replay, which only a single process keeps: take ppo or "
                    "a2c, or leave --processes out."
                )
            for setting in ("learning_rate_final", "entropy_cost_final"):
                if self.total_steps is None and getattr(policy.settings, setting, None) is not None:
                    raise ValueError(f"{setting} of policy {name!r} is reached after total_steps: give those too.")

    @property
    def budget(self) -> int | None:
        """How many steps will be taken: `total_steps`, rounded up to whole iterations where there are such."""
        return None if self.total_steps is None else self.driver.whole(self.total_steps)


def _require_count(name: str, value: Any) -> None:
    if type(value) is not int or value < 1:
        raise ValueError(f"{name} must be a positive whole number, got {value!r}.")
