"""The network that fits what is seen: convolutions for pictures, hidden layers alone for anything else."""

from __future__ import annotations

import jax

from slipstream.nets.agent import NetworkMaker
from slipstream.nets.image import ImageNetwork
from slipstream.nets.mlp import MLP
from slipstream.spaces import Box


def body_maker(observation: Box, hidden: tuple[int, ...], activation: str, *, layer_norm: bool = False) -> NetworkMaker:
    """How networks are made that look at observations. Pictures come as bytes, and need no normaliser.

    Args:
        observation: what is seen; inputs beyond it (an action to be valued) follow it.
        hidden: sizes of the hidden layers (of a picture: after the convolutions).
        activation: name of their activation.
        layer_norm: whether hidden layers are normalised before it.
    """

    def make(inputs: int, outputs: int, output_scale: float, *, key: jax.Array) -> MLP | ImageNetwork:
        if observation.image is None:
            return MLP(inputs, hidden, outputs, activation, output_scale, layer_norm=layer_norm, key=key)
        return ImageNetwork(
            observation.image,
            inputs - observation.size,
            hidden,
            outputs,
            activation,
            output_scale,
            layer_norm=layer_norm,
            key=key,
        )

    return make
