"""What learns in the pipeline: the state of an algorithm, on one device or, in two halves, on two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from slipstream.algos.algo import SURPRISE, Algorithm, Replay, Update
from slipstream.algos.settings import OffPolicyConfig
from slipstream.capacity import usable_cores
from slipstream.envs.env import Group
from slipstream.training.config import PipelineConfig, TrainConfig
from slipstream.training.pipeline.feeds import Feed
from slipstream.training.pipeline.split import SplitUpdate, two_devices
from slipstream.training.policies import Policies, committed
from slipstream.training.saving import from_named_arrays, named_arrays
from slipstream.training.starting import starting_state
from slipstream.training.threads import SMALL, largest_product, start_jax, worth_two_cores

SECONDS_PER_ITERATION = 0.1
"""What the gradient steps between two publications of the weights should take."""

OPERATIONS = 8e10
"""Floating-point operations of a device in a second that are reckoned with for that."""

OPERATIONS_PER_WEIGHT = 40
"""Operations of a gradient step for each sample and each weight of the actor: two critics and an actor, both ways."""


class Learner:
    """The only policy of a run, and how it learns."""

    def __init__(self, config: TrainConfig, group: Group):
        """Args:
        config: of the run, whose driver is the pipeline.
        group: who acts by the policy.
        """
        assert isinstance(config.driver, PipelineConfig)
        self._asked = config.driver.split_devices
        worth_splitting = self._start_jax(config, group)
        self.policies = Policies([group], config.policies)
        if not self.policies.learning:
            raise ValueError("The only policy does not learn: leave --freeze out.")
        (self.name,) = self.policies.learning
        self.algorithm = self.policies.algorithms[self.name]
        self.split = worth_splitting and self.algorithm.halves is not None if self._asked is None else self._asked
        """Whether critics and policy learn apart."""
        if self.split:
            two_devices(self.algorithm)
        self._keys = jax.jit(lambda s: jax.random.split(jax.random.key(s, impl="rbg")))
        self._init = jax.jit(lambda k: self.policies.init(key=k))
        self._compiled: Callable[..., Any] | None = None
        self._load = config.policies[self.name].load
        self.dials: dict[str, Any] = {}
        """Settings that differ from the configured ones, and can be turned without compiling anew."""
        self.begin_anew(config.seed)

    def _start_jax(self, config: TrainConfig, group: Group) -> bool:
        """Leave cores to the samplers where products are small.

        Returns:
            Whether critics and policy would learn faster apart, on devices that a CPU was divided into.
        """
        settings = next(iter(config.policies.values())).settings
        if not isinstance(settings, OffPolicyConfig) or group.observation.image is not None:
            start_jax(one_thread=False, two_devices=bool(self._asked))
            return False
        product = largest_product(settings)
        worth = worth_two_cores(product, usable_cores())
        start_jax(one_thread=product <= SMALL, two_devices=worth if self._asked is None else self._asked)
        return worth and jax.default_backend() == "cpu" and len(jax.devices()) > 1

    def begin_anew(self, seed: int) -> None:
        """Know nothing, without compiling anything again."""
        init_key, self._key = self._keys(seed & 0xFFFFFFFF)
        self.state: Any = committed(self._init(init_key))[self.name]
        if isinstance(self._compiled, SplitUpdate):
            self._compiled.forget()

    def load_starting_point(self) -> None:
        """Begin from an earlier run if the policy is configured so."""
        if self._load is not None:
            self.state = committed(starting_state(self._load, self.state))

    def adopt(self, arrays: Mapping[str, np.ndarray], source: str) -> None:
        """Go on with somebody's state, by its named arrays; `source` is where they come from, for errors."""
        self.state = committed(from_named_arrays({self.name: self.state}, arrays, source))[self.name]

    @property
    def actor(self) -> Any:
        """What acts; good until the next `update`, which may reuse its memory."""
        return self.algorithm.actor(self.state)

    def actor_arrays(self) -> dict[str, np.ndarray]:
        return named_arrays(self.actor)

    def affordable_updates(self, batch: int) -> int:
        """Gradient steps between two publications of the weights, where nobody says how many."""
        weights = sum(a.size for a in self.actor_arrays().values())
        seconds = OPERATIONS_PER_WEIGHT * weights * batch / (OPERATIONS * (2 if self.split else 1))
        return max(1, min(64, round(SECONDS_PER_ITERATION / seconds)))

    @property
    def compiled(self) -> bool:
        return self._compiled is not None

    def forget_compiled(self) -> None:
        """Batches are about to change."""
        self._compiled = None

    def compile_for(self, feed: Feed) -> None:
        """Get ready for batches such as a feed has now."""
        given = (self.state, feed.example(), np.float32(0.0), self._dials(), self._key, np.uint32(0))
        experience = self.algorithm.experience
        prioritised = isinstance(experience, Replay) and experience.priority > 0

        def learning_by(part: Callable[[Algorithm], Update]) -> Any:
            def learn(
                state: Any, batch: Any, elapsed: Any, dials: Mapping[str, Any], key: jax.Array, iteration: Any
            ) -> tuple[Any, Any]:
                key = jax.random.fold_in(key, iteration)
                update = part(self.policies.with_dials(self.name, dials))
                state, metrics = update(state, feed.learnable(batch), elapsed=elapsed, key=key)
                return state, {name: value for name, value in metrics.items() if prioritised or name != SURPRISE}

            return jax.jit(learn, donate_argnums=0)

        if self.split:
            self._compiled = SplitUpdate(self.algorithm, learning_by, *given)
        else:
            self._compiled = learning_by(lambda algorithm: algorithm.update).lower(*given).compile()

    def update(self, batch: Any, elapsed: np.float32, iteration: int) -> dict[str, Any]:
        """Start to learn from a batch. The metrics, and the state, are there when it is done.

        Among the metrics is `SURPRISE` if the replay has priorities.

        Args:
            batch: of the feed that it was compiled for.
            elapsed: how much of its schedules the policy has behind it.
            iteration: decides what is random.
        """
        assert self._compiled is not None
        given = (batch, elapsed, self._dials(), self._key, np.uint32(iteration))
        self.state, metrics = self._compiled(self.state, *given)
        return metrics

    def _dials(self) -> dict[str, np.float32]:
        return {name: np.float32(value) for name, value in self.dials.items()}
