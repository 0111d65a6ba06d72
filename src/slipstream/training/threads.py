"""How learning from replay uses the cores of a CPU.

Threads that share a product wait for one another, so that whoever holds one up, and a sampler on the same core does,
holds up all. A small product gains nothing from a second thread to begin with: 64 x 64 and 128 x 128 networks learn a
fifth faster with one thread than with two. It leaves the other cores to the samplers of the pipeline, and what is
learned does not depend on how many cores there are.

What a second core is good for is to let critics and policy learn at the same time, each with one thread: with 256 x 256
networks and batches of 256 one core learns from 40,000 samples in a second, two threads in every product learn from as
many, and two halves on a core each from 57,000.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from itertools import pairwise

import jax

from slipstream.algos.settings import OffPolicyConfig
from slipstream.arrays import jax_devices
from slipstream.training.config import PolicyConfig

SMALL = 1 << 27
"""Multiplications in a product that one thread is enough for: some milliseconds."""

WORTH_A_CORE = 1 << 24
"""Multiplications in a product from which on critics and policy are worth a core each. (With 128 x 128 networks the
second core gains a tenth where the policy learns in every other step, and the samplers miss it.)"""

THREADS = "NPROC"
"""What XLA asks for the size of its pool of threads, once, when it starts."""


def largest_product(settings: OffPolicyConfig) -> int:
    """Multiplications in the largest product of networks without pictures."""
    critics = getattr(settings, "critic_hidden", None) or settings.hidden
    return settings.batch_size * max(
        (a * b for hidden in (settings.hidden, critics) for a, b in pairwise(hidden)), default=0
    )


def one_thread_is_enough(policies: Iterable[PolicyConfig]) -> bool:
    """Whether all that policies learn by is small products.

    Rollouts are learned from in large batches, and of networks of the user's own nothing is known.
    """
    return all(
        isinstance(p.settings, OffPolicyConfig) and p.network is None and largest_product(p.settings) <= SMALL
        for p in policies
        if not p.frozen
    )


def worth_two_cores(multiplications: int, cores: int) -> bool:
    """Whether critics and policy learn faster on a core each, beside samplers, than together on one or both."""
    return cores > 1 and WORTH_A_CORE <= multiplications <= SMALL


def start_jax(*, one_thread: bool, two_devices: bool = False) -> None:
    """Start JAX. Too late if it has been at work before: then nothing happens.

    Args:
        one_thread: products on the CPU are computed by one thread each.
        two_devices: the CPU is two devices, unless XLA_FLAGS say how many it is.
    """
    if two_devices and "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        with contextlib.suppress(RuntimeError):
            jax.config.update("jax_num_cpu_devices", 2)
    before = os.environ.get(THREADS)
    if one_thread:
        os.environ[THREADS] = "1"
    try:
        jax_devices()
    finally:
        if one_thread:
            del os.environ[THREADS]
            if before is not None:
                os.environ[THREADS] = before
