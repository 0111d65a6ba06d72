"""The network that fits what is seen: convolutions for pictures, hidden layers alone for anything else."""

from __future__ import annotations

import jax

from slipstream.nets.image import ImageNetwork
from slipstream.nets.mlp import MLP
from slipstream.spaces import Box


def make_body(
    observation: Box, outputs: int, hidden: tuple[int, ...], activation: str, output_scale: float, *, key: jax.Array
) -> MLP | ImageNetwork:
    """A network from observations `[features, lanes]` to `[outputs, lanes]`.

    Args:
        observation: what is seen. Pictures come as bytes, and need no normaliser.
        outputs: number of outputs.
        hidden: sizes of the hidden layers (of a picture: after the convolutions).
        activation: name of their activation.
        output_scale: gain of the last layer's weights (small: outputs begin near 0).
        key: randomness of the weights.
    """
    if observation.image is not None:
        return ImageNetwork(observation.image, hidden, outputs, activation, output_scale, key=key)
    return MLP(observation.size, hidden, outputs, activation, output_scale, key=key)
