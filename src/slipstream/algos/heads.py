"""What a critic puts out: an expected return, or a distribution of returns (Bellemare et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from slipstream.algos.settings import OffPolicyConfig


@dataclass(frozen=True)
class Expectation:
    """One number: the expected return. Its "distribution" is that number."""

    outputs: int = 1

    def distribution(self, out: jax.Array) -> jax.Array:
        """Of outputs `[..., outputs, lanes]`."""
        return out

    def mean(self, distribution: jax.Array) -> jax.Array:
        """`[..., lanes]` of `[..., outputs, lanes]`."""
        return distribution[..., 0, :]

    def target(self, distribution: jax.Array, shift: jax.Array, scale: jax.Array) -> jax.Array:
        """The distribution `[outputs, lanes]` of `shift + scale * return`; shift and scale are `[lanes]`."""
        return shift + scale * distribution

    def error(self, out: jax.Array, target: jax.Array) -> jax.Array:
        """How wrong outputs `[..., outputs, lanes]` are, `[..., lanes]`."""
        return 0.5 * jnp.square(out - target)[..., 0, :]


@dataclass(frozen=True)
class Histogram:
    """How likely each of some returns is; outputs are the logits."""

    low: float
    high: float
    outputs: int

    @property
    def returns(self) -> np.ndarray:
        """`[outputs]`"""
        return np.linspace(self.low, self.high, self.outputs, dtype=np.float32)

    def distribution(self, out: jax.Array) -> jax.Array:
        return jax.nn.softmax(out, axis=-2)

    def mean(self, distribution: jax.Array) -> jax.Array:
        return (distribution * self.returns[:, None]).sum(axis=-2)

    def target(self, distribution: jax.Array, shift: jax.Array, scale: jax.Array) -> jax.Array:
        moved = jnp.clip(shift + scale * self.returns[:, None], self.low, self.high)
        width = (self.high - self.low) / (self.outputs - 1)
        # Each moved value is shared between its two neighbours: [to, from, lanes].
        share = jnp.maximum(1.0 - jnp.abs(moved - self.returns[:, None, None]) / width, 0.0)
        return (share * distribution).sum(axis=1)

    def error(self, out: jax.Array, target: jax.Array) -> jax.Array:
        return -(target * jax.nn.log_softmax(out, axis=-2)).sum(axis=-2)


Head = Expectation | Histogram


def head_for(config: OffPolicyConfig) -> Head:
    return Histogram(*config.value_range, config.atoms) if config.atoms else Expectation()


def combined(head: Head, distributions: jax.Array, how: str) -> jax.Array:
    """One distribution `[outputs, lanes]` of those of several critics, `[critics, outputs, lanes]`.

    Args:
        head: what the critics put out.
        distributions: theirs.
        how: `mean`, or `min`: of the one that expects least.
    """
    if how == "mean" or len(distributions) == 1:
        return distributions.mean(axis=0)
    least = jax.nn.one_hot(jnp.argmin(head.mean(distributions), axis=0), len(distributions), axis=0)
    return (distributions * least[:, None]).sum(axis=0)
