"""Critics on one device, the policy on another: both learn at the same time, and exchange what they have learned."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax

from slipstream.algos.algo import Algorithm, Update


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
        self, algorithm: Algorithm, learning_by: Callable[[Callable[[Algorithm], Update]], Any], state: Any, *given: Any
    ):
        """Compiles both halves, at the same time.

        Args:
            algorithm: one with halves.
            learning_by: makes a jitted function, `(state, *given) -> (state, metrics)`, from what picks an update
                out of an algorithm.
            state, given: something like what it will be called with.
        """
        self._devices = two_devices(algorithm)
        assert algorithm.halves is not None
        self._halves = algorithm.halves
        self._policy_state: Any = None
        """The state on the second device, from the first update on."""

        def compiled(half: str, device: Any) -> Callable[..., tuple[Any, Any]]:
            learn = learning_by(lambda algorithm: getattr(algorithm.halves, half).update)
            return learn.lower(*jax.device_put((state, *given), device)).compile()

        with ThreadPoolExecutor() as pool:
            self._update_critics, self._update_policy = pool.map(compiled, ("critics", "policy"), self._devices)

    def forget(self) -> None:
        """Begin with another state."""
        self._policy_state = None

    def __call__(self, state: Any, *given: Any) -> tuple[Any, Any]:
        """The state after an update, on the first device, and metrics. The state that is given is used up."""
        first, second = self._devices
        if self._policy_state is None:
            self._policy_state = jax.device_put(state, second)
        critics, by_critics = self._update_critics(state, *jax.device_put(given, first))
        policy, by_policy = self._update_policy(self._policy_state, *jax.device_put(given, second))
        # Copies: the next update of each device uses up its own state.
        to_policy = jax.device_put(self._halves.critics.own(critics), second, may_alias=False)
        to_critics = jax.device_put(self._halves.policy.own(policy), first, may_alias=False)
        self._policy_state = self._halves.critics.taken(to_policy, policy)
        return self._halves.policy.taken(to_critics, critics), by_policy | by_critics
