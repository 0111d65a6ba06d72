"""A multi-layer perceptron on feature-major batches."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "swish": jax.nn.swish,
    "elu": jax.nn.elu,
}


class Linear(eqx.Module):
    weight: jax.Array
    """`[outputs, inputs]`"""
    bias: jax.Array
    """`[outputs]`"""

    def __init__(self, inputs: int, outputs: int, scale: float, *, key: jax.Array):
        # Not orthogonal weights: XLA takes longer to compile a QR decomposition than to train CartPole.
        self.weight = jax.random.normal(key, (outputs, inputs), jnp.float32) * (scale / inputs**0.5)
        self.bias = jnp.zeros(outputs, jnp.float32)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.weight @ x + self.bias[:, None]


class MLP(eqx.Module):
    """Hidden layers with an activation, and a linear output layer."""

    layers: tuple[Linear, ...]
    activation: str = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        hidden: tuple[int, ...],
        outputs: int,
        activation: str,
        output_scale: float,
        *,
        key: jax.Array,
    ):
        """Args:
        inputs: number of features.
        hidden: sizes of the hidden layers.
        outputs: number of outputs.
        activation: name of the activation.
        output_scale: gain of the last layer's weights (small: outputs begin near 0).
        key: randomness of the weights.
        """
        sizes = [inputs, *hidden, outputs]
        scales = [2.0**0.5] * len(hidden) + [output_scale]
        keys = jax.random.split(key, len(scales))
        self.layers = tuple(Linear(a, b, s, key=k) for a, b, s, k in zip(sizes[:-1], sizes[1:], scales, keys))
        self.activation = activation

    def __call__(self, x: jax.Array) -> jax.Array:
        """`[inputs, lanes]` to `[outputs, lanes]`."""
        activation = ACTIVATIONS[self.activation]
        for layer in self.layers[:-1]:
            x = activation(layer(x))
        return self.layers[-1](x)
