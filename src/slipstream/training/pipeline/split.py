"""Critics on one device, the policy on another: both learn at the same time, and exchange what they have learned."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
            f"--split-devices needs two devices, and JAX has one ({devices[0].device_kind}). A CPU is two if XLA_FLAGS "
            "do not say how many it is and nothing has used JAX before in this process."
        )
    return devices[0], devices[1]


class SplitUpdate:
    """An update by two devices.

    For each stack of batches both start at once, the critics with the policy as it was after the last stack and the
    policy with the critics as they were then; nobody waits within a stack.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        learnable: Callable[[Any], Any],
        state: Any,
        batch: Any,
        elapsed: Any,
        key: jax.Array,
        iteration: Any,
    ):
        """Compiles both halves, at the same time.

        Args:
            algorithm: one with halves.
            learnable: what an update takes, from a batch.
            state, batch, elapsed, key, iteration: something like what it will be called with.
        """
        self._devices = two_devices(algorithm)
        assert algorithm.halves is not None
        self._halves = algorithm.halves
        self._policy_state: Any = None
        """The state on the second device, from the first update on."""

        def compiled(half: Half, device: Any) -> Callable[..., Any]:
            def update(state: Any, batch: Any, elapsed: Any, key: jax.Array, iteration: Any) -> tuple[Any, Any]:
                key = jax.random.fold_in(key, iteration)
                state, metrics = half.update(state, learnable(batch), elapsed=elapsed, key=key)
                return state, {name: value for name, value in metrics.items() if name != SURPRISE}

            given = jax.device_put((state, batch, elapsed, key, iteration), device)
            return jax.jit(update, donate_argnums=0).lower(*given).compile()

        with ThreadPoolExecutor() as pool:
            halves = (self._halves.critics, self._halves.policy)
            self._update_critics, self._update_policy = pool.map(compiled, halves, self._devices)

    def __call__(self, state: Any, batch: Any, elapsed: Any, key: jax.Array, iteration: Any) -> tuple[Any, Any]:
        """The state after an update, on the first device, and metrics. The state that is given is used up."""
        first, second = self._devices
        if self._policy_state is None:
            self._policy_state = jax.device_put(state, second)
        given = (batch, elapsed, key, iteration)
        critics, by_critics = self._update_critics(state, *jax.device_put(given, first))
        policy, by_policy = self._update_policy(self._policy_state, *jax.device_put(given, second))
        # Copies: the next update of each device uses up its own state.
        to_policy = jax.device_put(self._halves.critics.own(critics), second, may_alias=False)
        to_critics = jax.device_put(self._halves.policy.own(policy), first, may_alias=False)
        self._policy_state = self._halves.critics.taken(to_policy, policy)
        return self._halves.policy.taken(to_critics, critics), by_policy | by_critics
