"""How many threads compute the learner's matrix products on a CPU.

Threads that share a product wait for one another, so that whoever holds one up, and a sampler on the same core does,
holds up all. A small product gains little from a second thread to begin with: one thread leaves the other cores to the
samplers, and is faster beside them (256 x 256 networks, batches of 256, two cores: 30,000 samples learned from in a
second against 15,000 to 22,000).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise

import jax

SMALL = 1 << 27
"""Multiplications in a product that one thread is enough for: some milliseconds."""

THREADS = "NPROC"
"""What XLA asks for the size of its pool of threads, once, when it starts."""


def one_thread_is_enough(hidden: Sequence[int], batch: int) -> bool:
    """Whether the products of networks without pictures are small.

    Args:
        hidden: sizes of their hidden layers.
        batch: samples of a gradient step.
    """
    return batch * max((a * b for a, b in pairwise(hidden)), default=0) <= SMALL


def start_with_one_thread() -> None:
    """Start JAX so that products on the CPU are computed by one thread. Too late if JAX has been at work before."""
    before = os.environ.get(THREADS)
    os.environ[THREADS] = "1"
    try:
        jax.devices()
    finally:
        del os.environ[THREADS]
        if before is not None:
            os.environ[THREADS] = before
