"""Convolutions over pictures, written as matrix products.

XLA's own convolution runs 15 times slower inside a loop on a CPU than outside of one, and updates are loops. So a
picture is first folded into blocks as large as the stride, which makes every convolution one of stride 1 with a small
kernel; the blocks that a kernel covers are laid side by side, and one product does the rest.
"""

from __future__ import annotations

import math
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp

from slipstream.nets.mlp import MLP

LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""Channels, kernel size and stride of the layers (Mnih et al. 2015). Kernels are multiples of their strides."""


class Convolution(eqx.Module):
    """A convolution without padding, and a ReLU."""

    weight: jax.Array
    """`[kernel, kernel, inputs, outputs]`"""
    bias: jax.Array
    """`[outputs]`"""
    stride: int = eqx.field(static=True)

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, *, key: jax.Array):
        scale = (2.0 / (kernel * kernel * inputs)) ** 0.5
        self.weight = jax.random.normal(key, (kernel, kernel, inputs, outputs), jnp.float32) * scale
        self.bias = jnp.zeros(outputs, jnp.float32)
        self.stride = stride

    def __call__(self, x: jax.Array) -> jax.Array:
        """`[lanes, height, width, inputs]` to `[lanes, height', width', outputs]`."""
        (kernel, _, inputs, outputs), s = self.weight.shape, self.stride
        lanes, blocks_down, blocks_across = x.shape[0], x.shape[1] // s, x.shape[2] // s
        x = x[:, : blocks_down * s, : blocks_across * s]
        x = x.reshape(lanes, blocks_down, s, blocks_across, s, inputs).swapaxes(2, 3)
        x = x.reshape(lanes, blocks_down, blocks_across, s * s * inputs)
        n = kernel // s
        weight = self.weight.reshape(n, s, n, s, inputs, outputs).swapaxes(1, 2).reshape(-1, outputs)
        height, width = blocks_down - n + 1, blocks_across - n + 1
        covered = [x[:, i : i + height, j : j + width] for i in range(n) for j in range(n)]
        patches = jnp.concatenate(covered, axis=-1).reshape(-1, weight.shape[0])
        return jax.nn.relu(patches @ weight + self.bias).reshape(lanes, height, width, outputs)


class ImageNetwork(eqx.Module):
    """Convolutions, then hidden layers and a linear output layer."""

    convolutions: tuple[Convolution, ...]
    mlp: MLP
    image: tuple[int, int, int] = eqx.field(static=True)

    def __init__(
        self,
        image: tuple[int, int, int],
        extra: int,
        hidden: tuple[int, ...],
        outputs: int,
        activation: str,
        output_scale: float,
        *,
        layer_norm: bool,
        key: jax.Array,
    ):
        """Args:
        image: height, width and channels of a picture.
        extra: numbers beside the picture, which go straight to the hidden layers.
        hidden: sizes of the hidden layers after the convolutions.
        outputs: number of outputs.
        activation: name of the activation of the hidden layers.
        output_scale: gain of the last layer's weights.
        layer_norm: whether hidden layers are normalised before their activation.
        key: randomness of the weights.
        """
        *keys, last = jax.random.split(key, len(LAYERS) + 1)
        inputs = (image[2], *(channels for channels, _, _ in LAYERS[:-1]))
        self.convolutions = tuple(Convolution(i, *layer, key=k) for i, layer, k in zip(inputs, LAYERS, keys))
        self.image = image
        pixels = jax.ShapeDtypeStruct((math.prod(image), 1), jnp.uint8)
        features = jax.eval_shape(partial(encode, self.convolutions, image), pixels).shape[0] + extra
        self.mlp = MLP(features, hidden, outputs, activation, output_scale, layer_norm=layer_norm, key=last)

    def __call__(self, x: jax.Array) -> jax.Array:
        """`[pixels + extra, lanes]`, of which the pixels are bytes, to `[outputs, lanes]`."""
        pixels = math.prod(self.image)
        seen = encode(self.convolutions, self.image, x[:pixels])
        return self.mlp(seen if x.shape[0] == pixels else jnp.concatenate([seen, x[pixels:]]))


def encode(convolutions: tuple[Convolution, ...], image: tuple[int, int, int], x: jax.Array) -> jax.Array:
    """What convolutions make of pictures: `[pixels, lanes]` to `[features, lanes]`."""
    lanes = x.shape[-1]
    pictures = x.T.reshape(lanes, *image).astype(jnp.float32) * (1.0 / 255.0)
    for convolution in convolutions:
        pictures = convolution(pictures)
    return pictures.reshape(lanes, -1).T
