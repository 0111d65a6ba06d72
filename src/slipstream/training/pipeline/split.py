"""Critics on one device, the policy on another: both learn at the same time, and exchange what they have learned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from slipstream.algos.algo import SURPRISE, Algorithm, Half


def two_devices(algorithm: Algorithm) -> tuple[Any, Any]:
    """Where the critics and the policy learn, or an error that says why they cannot be apart."""
    if algorithm.halves is None:
        raise ValueError("--split-devices divides critics from the policy: take sac, td3 or ddpg.")
    devices = jax.devices()
    if len(devices) < 2:
        raise ValueError(
            f"--split-devices needs two devices, and JAX has one ({devices[0].device_kind}). To try it all the same, "
            "set XLA_FLAGS=--xla_force_host_platform_device_count=2."
        )
    return devices[0], devices[1]


class SplitUpdate:
    """An update by two devices.

    For each stack of batches both start at once, the critics with the policy as it was after the last stack and the
    policy with the critics as they were then; nobody waits within a stack.
    """

    def __init__(self, algorithm: Algorithm, learnable: Callable[[Any], Any]):
        """Args:
        algorithm: one with halves.
        learnable: what an update takes, from a batch.
        """
        self._devices = two_devices(algorithm)
        assert algorithm.halves is not None
        self._halves = algorithm.halves
        self._policy_state: Any = None
        """The state on the second device, from the first update on."""

        def compiled(half: Half) -> Callable[..., Any]:
            def update(state: Any, batch: Any, elapsed: Any, key: jax.Array, iteration: Any) -> tuple[Any, Any]:
                key = jax.random.fold_in(key, iteration)
                state, metrics = half.update(state, learnable(batch), elapsed=elapsed, key=key)
                return state, {name: value for name, value in metrics.items() if name != SURPRISE}

            return jax.jit(update, donate_argnums=0)

        self._update_critics, self._update_policy = compiled(self._halves.critics), compiled(self._halves.policy)

    def forget(self) -> None:
        """Begin with another state."""
        self._policy_state = None

    def __call__(self, state: Any, batch: Any, elapsed: Any, key: jax.Array, iteration: Any) -> tuple[Any, Any]:
        """The state after an update, on the first device, and metrics. The state that is given is used up."""
        first, second = self._devices
        if self._policy_state is None:
            self._policy_state = jax.device_put(state, second)
        critics, by_critics = self._update_critics(state, jax.device_put(batch, first), elapsed, key, iteration)
        policy, by_policy = self._update_policy(
            self._policy_state, jax.device_put(batch, second), elapsed, jax.device_put(key, second), iteration
        )
        # Copies: the next update of each device uses up its own state.
        to_policy = jax.device_put(self._halves.critics.own(critics), second, may_alias=False)
        to_critics = jax.device_put(self._halves.policy.own(policy), first, may_alias=False)
        self._policy_state = self._halves.critics.taken(to_policy, policy)
        return self._halves.policy.taken(to_critics, critics), by_policy | by_critics
