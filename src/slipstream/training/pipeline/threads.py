"""How the learner uses the cores of a CPU.

Threads that share a product wait for one another, so that whoever holds one up, and a sampler on the same core does,
holds up all. A small product gains little from a second thread to begin with: one thread leaves the other cores to the
samplers, and is faster beside them. What is gained from a second core is gained by letting critics and policy learn at
the same time, each with one thread: with 256 x 256 networks and batches of 256 one core learns from 40,000 samples in a
second, two threads in every product from as many, and two halves on a core each from 57,000.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from itertools import pairwise

import jax

SMALL = 1 << 27
"""Multiplications in a product that one thread is enough for: some milliseconds."""

WORTH_A_CORE = 1 << 24
"""Multiplications in a product from which on critics and policy are worth a core each. (With 128 x 128 networks the
second core gains a tenth where the policy learns in every other step, and the samplers miss it.)"""

THREADS = "NPROC"
"""What XLA asks for the size of its pool of threads, once, when it starts."""


def largest_product(networks: Sequence[Sequence[int]], batch: int) -> int:
    """Multiplications in the largest product of networks without pictures.

    Args:
        networks: sizes of the hidden layers of each.
        batch: samples of a gradient step.
    """
    return batch * max((a * b for hidden in networks for a, b in pairwise(hidden)), default=0)


def worth_two_cores(multiplications: int, cores: int) -> bool:
    """Whether critics and policy learn faster on a core each, beside samplers, than together on one or both."""
    return cores > 1 and WORTH_A_CORE <= multiplications <= SMALL


def start_jax(*, one_thread: bool, two_devices: bool) -> None:
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
        jax.devices()
    finally:
        if one_thread:
            del os.environ[THREADS]
            if before is not None:
                os.environ[THREADS] = before
