"""The networks of `slipstream.nets` in plain NumPy, forwards only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Protocol

import numpy as np

from slipstream.spaces import Box

STRIDES = (4, 2, 1)
"""Of the convolutions, as in nets/image.py."""


class Network(Protocol):
    """What is between observations and a head."""

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """`[inputs, lanes]` to `[outputs, lanes]`: room that the next call uses again."""
        ...

    def renew(self) -> None:
        """Weights are not what they were."""


def network_of(
    observation: Box, arrays: Mapping[str, np.ndarray], root: str, activation: str, layer_norm: bool
) -> Network:
    """The network whose arrays have names that begin with `root/`."""
    if observation.image is None:
        return Layers(arrays, root, activation, layer_norm)
    return ImageLayers(arrays, root, activation, layer_norm, observation.image)


class Layers:
    """What `nets.mlp.MLP` does when it is called.

    Between two arrays of one shape NumPy needs a third of the time that it takes where one is a column or a number: so
    biases are repeated for all lanes.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], root: str, activation: str, layer_norm: bool):
        self._layers: list[tuple[np.ndarray, np.ndarray]] = []
        while f"{root}/layers/{len(self._layers)}/weight" in arrays:
            layer = f"{root}/layers/{len(self._layers)}"
            self._layers.append((arrays[f"{layer}/weight"], arrays[f"{layer}/bias"][:, None]))
        if not self._layers:
            raise ValueError(f"There are no layers {root}/layers/... among the arrays {', '.join(sorted(arrays))}.")
        self._activation, self._layer_norm = ACTIVATIONS[activation], layer_norm
        self._lanes = 0
        self._room: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        """For the lanes of the last call: weights, biases for all of them, and where outputs go."""

    def renew(self) -> None:
        self._lanes = 0

    def _make_room(self, lanes: int) -> None:
        repeated = [np.repeat(bias, lanes, axis=1) for _, bias in self._layers]
        self._room = [(w, b, np.empty_like(b)) for (w, _), b in zip(self._layers, repeated)]
        self._lanes = lanes

    def __call__(self, x: np.ndarray) -> np.ndarray:
        if x.shape[1] != self._lanes:
            self._make_room(x.shape[1])
        last = len(self._room) - 1
        for i, (weight, bias, out) in enumerate(self._room):
            np.dot(weight, x, out)
            out += bias
            if i < last:
                if self._layer_norm:
                    _standardize(out)
                self._activation(out)
            x = out
        return x


class ImageLayers:
    """What `nets.image.ImageNetwork` does when it is called with pictures."""

    def __init__(
        self,
        arrays: Mapping[str, np.ndarray],
        root: str,
        activation: str,
        layer_norm: bool,
        image: tuple[int, int, int],
    ):
        names = [f"{root}/convolutions/{i}" for i in range(len(STRIDES))]
        self._convolutions = [(arrays[f"{n}/weight"], arrays[f"{n}/bias"], s) for n, s in zip(names, STRIDES)]
        self._layers = Layers(arrays, f"{root}/mlp", activation, layer_norm)
        self._image = image

    def renew(self) -> None:
        self._layers.renew()

    def __call__(self, x: np.ndarray) -> np.ndarray:
        lanes = x.shape[1]
        pictures = np.ascontiguousarray(x.T).reshape(lanes, *self._image) * np.float32(1.0 / 255.0)
        for weight, bias, stride in self._convolutions:
            pictures = _convolve(pictures, weight, bias, stride)
        return self._layers(np.ascontiguousarray(pictures.reshape(lanes, -1).T))


def _convolve(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, stride: int) -> np.ndarray:
    """`[lanes, height, width, inputs]` to `[lanes, height', width', outputs]`, with a ReLU."""
    kernel, _, inputs, outputs = weight.shape
    windows = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(1, 2))[:, ::stride, ::stride]
    lanes, height, width = windows.shape[:3]
    patches = np.ascontiguousarray(windows.transpose(0, 1, 2, 4, 5, 3)).reshape(-1, kernel * kernel * inputs)
    out = patches @ weight.reshape(-1, outputs)
    out += bias
    np.maximum(out, 0.0, out=out)
    return out.reshape(lanes, height, width, outputs)


def _standardize(x: np.ndarray) -> None:
    x -= x.mean(axis=0)
    x *= np.float32(1.0) / np.sqrt(np.square(x).mean(axis=0) + np.float32(1e-5))


def _tanh(x: np.ndarray) -> None:
    np.tanh(x, x)


def _relu(x: np.ndarray) -> None:
    np.maximum(x, _zeros(x.shape), out=x)


@lru_cache(maxsize=8)
def _zeros(shape: tuple[int, ...]) -> np.ndarray:
    zeros = np.zeros(shape, np.float32)
    zeros.flags.writeable = False
    return zeros


def _swish(x: np.ndarray) -> None:
    x *= 0.5 * (np.tanh(0.5 * x) + 1.0)


def _elu(x: np.ndarray) -> None:
    np.copyto(x, np.expm1(np.minimum(x, 0.0)), where=x < 0)


ACTIVATIONS: dict[str, Callable[[np.ndarray], None]] = {"tanh": _tanh, "relu": _relu, "swish": _swish, "elu": _elu}
"""Each works in place."""
