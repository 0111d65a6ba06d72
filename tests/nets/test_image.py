"""Convolutions as matrix products are convolutions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from slipstream.nets.body import body_maker
from slipstream.nets.image import Convolution, ImageNetwork
from slipstream.nets.mlp import MLP
from slipstream.spaces import Box


@pytest.mark.parametrize(("size", "kernel", "stride"), [((21, 18), 8, 4), ((11, 12), 4, 2), ((7, 9), 3, 1)])
def test_a_product_of_patches_is_a_convolution(size, kernel, stride):
    layer = Convolution(3, 5, kernel, stride, key=jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (2, *size, 3))
    expected = jax.lax.conv_general_dilated(
        x, layer.weight, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    np.testing.assert_allclose(layer(x), jax.nn.relu(expected), atol=1e-5)


def picture_box(height: int, width: int, channels: int) -> Box:
    return Box(height * width * channels, 0.0, 255.0, image=(height, width, channels))


def test_pixels_are_bytes_row_by_row_with_channels_together():
    box = picture_box(40, 48, 2)
    network = body_maker(box, (8,), "relu")(box.size, 3, 1.0, key=jax.random.key(0))
    assert isinstance(network, ImageNetwork)
    pictures = jax.random.randint(jax.random.key(1), (4, 40, 48, 2), 0, 256).astype(jnp.uint8)
    x = pictures / 255.0
    for layer in network.convolutions:
        x = layer(x)
    expected = network.mlp(x.reshape(4, -1).T)
    np.testing.assert_allclose(network(pictures.reshape(4, -1).T), expected, atol=1e-5)


def test_numbers_beside_a_picture_go_to_the_hidden_layers():
    box = picture_box(36, 36, 1)
    network = body_maker(box, (8,), "relu")(box.size + 2, 3, 1.0, key=jax.random.key(0))
    picture = jnp.zeros((box.size, 1), jnp.uint8)
    one, other = (network(jnp.concatenate([picture, jnp.full((2, 1), v)])) for v in (0.0, 1.0))
    assert one.shape == (3, 1) and not np.allclose(one, other)


def test_what_is_not_a_picture_gets_hidden_layers_alone():
    assert isinstance(body_maker(Box(4), (8,), "tanh")(4, 2, 1.0, key=jax.random.key(0)), MLP)
