"""Spaces of Gymnasium and spaces of ours: how observations become features, and components become actions.

Sampler processes import this: neither JAX nor Dr.Jit. Gymnasium is imported where it is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from slipstream.spaces import Box, Discrete, MultiDiscrete, Space

Observe = Callable[[Any], np.ndarray]
"""An observation of Gymnasium's to `[features]`: float32, or bytes of an image."""
Act = Callable[[np.ndarray], Any]
"""`[components]` of ours to an action of Gymnasium's, which may be the same memory: some environments keep it."""

SMALLEST_IMAGE = 36
"""Pixels in height and width below which pictures are taken for numbers: convolutions need some room."""

WAY_OUT = "Wrap the environment in a class of your own that translates, and name it path/to/file.py:Class."


def observation_of(space: Any, name: str) -> tuple[Box, Observe]:
    """What a policy sees of an observation space of Gymnasium's.

    Pictures of bytes stay pictures (height, width, channels; a stack of frames becomes channels), other boxes are
    flattened, choices become ones among zeros, and dictionaries and tuples are all of that in a row.

    Args:
        space: the space.
        name: of the environment, for errors.
    """
    from gymnasium import spaces

    if isinstance(space, spaces.Box):
        if (order := _image_order(space)) is not None:
            return _image(space, order)
        return _flat_box(space)
    if not _is_flat(space):
        raise ValueError(
            f"Observations of {name} are {_shown(space)}, which Slipstream cannot flatten; it takes Box, Discrete, "
            f"MultiDiscrete, MultiBinary, and Dict and Tuple of them. {WAY_OUT}"
        )
    flat: Any = spaces.flatten_space(space)
    return _flat_box(flat)[0], lambda observation: np.asarray(spaces.flatten(space, observation), np.float32)


def action_of(space: Any, name: str) -> tuple[Space, Act]:
    """What a policy chooses in an action space of Gymnasium's.

    Args:
        space: the space.
        name: of the environment, for errors.
    """
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return Discrete(int(space.n)), lambda action: int(action[0]) + start
    if isinstance(space, spaces.MultiDiscrete):
        shape, begins, dtype = space.shape, np.asarray(space.start).ravel(), space.dtype
        choices = tuple(int(n) for n in np.asarray(space.nvec).ravel())
        return MultiDiscrete(choices), lambda action: (action.astype(np.int64) + begins).astype(dtype).reshape(shape)
    if isinstance(space, spaces.MultiBinary):
        shape = space.shape
        return MultiDiscrete((2,) * math.prod(shape)), lambda action: action.astype(np.int8).reshape(shape)
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return _box_action(space, name)
    raise ValueError(
        f"Actions of {name} are {_shown(space)}; Slipstream chooses in Box (of floats), Discrete, MultiDiscrete and "
        f"MultiBinary. {WAY_OUT}"
    )


def gymnasium_space(space: Space) -> Any:
    """A space of ours as Gymnasium would have written it: of one agent, without the lane axis."""
    from gymnasium import spaces

    if isinstance(space, Box):
        return spaces.Box(space.lows.copy(), space.highs.copy(), dtype=np.float32)
    if isinstance(space, Discrete):
        return spaces.Discrete(space.n)
    return spaces.MultiDiscrete(np.asarray(space.choices))


def _box_action(space: Any, name: str) -> tuple[Box, Act]:
    low, high, shape, dtype = space.low.ravel(), space.high.ravel(), space.shape, space.dtype
    size = math.prod(shape)
    if not size or np.any(low >= high):
        raise ValueError(f"Actions of {name} are {_shown(space)}, where nothing can be chosen. {WAY_OUT}")
    box = Box(size, _bounds(low), _bounds(high))
    if len(shape) == 1 and dtype == np.float32:
        return box, lambda action: action
    return box, lambda action: action.astype(dtype).reshape(shape)


def _flat_box(space: Any) -> tuple[Box, Observe]:
    low, high = (b.astype(np.float32).ravel() for b in (space.low, space.high))
    never = low >= high  # some environments have features that never change
    box = Box(low.size, _bounds(np.where(never, -np.inf, low)), _bounds(np.where(never, np.inf, high)))
    return box, lambda observation: np.array(observation, np.float32).ravel()


def _bounds(values: np.ndarray) -> float | tuple[float, ...]:
    """One number if all are the same."""
    return float(values[0]) if np.all(values == values[0]) else tuple(values.astype(np.float32).tolist())


def _image_order(space: Any) -> tuple[int, ...] | None:
    """The axes of a picture in the order height, width, channels; None if it is not one."""
    if space.dtype != np.uint8 or len(space.shape) not in (2, 3, 4):
        return None
    if len(space.shape) == 2:
        order: tuple[int, ...] = (0, 1)
    elif len(space.shape) == 4:
        order = (1, 2, 0, 3)  # a stack of frames
    else:  # frames first (as a stack of grey ones) or channels last
        order = (1, 2, 0) if space.shape[0] < space.shape[2] else (0, 1, 2)
    height, width = (space.shape[axis] for axis in order[:2])
    return order if min(height, width) >= SMALLEST_IMAGE else None


def _image(space: Any, order: tuple[int, ...]) -> tuple[Box, Observe]:
    height, width, *rest = (space.shape[axis] for axis in order)
    box = Box(math.prod(space.shape), 0.0, 255.0, image=(height, width, math.prod(rest)))

    def observe(observation: Any) -> np.ndarray:
        pixels = np.asarray(observation)
        if pixels.dtype != np.uint8:
            raise ValueError(f"a picture must be of bytes (uint8), not {pixels.dtype}")
        return np.array(pixels.transpose(order), order="C").reshape(-1)

    return box, observe


def _is_flat(space: Any) -> bool:
    from gymnasium import spaces

    if isinstance(space, spaces.Dict | spaces.Tuple):
        members = list(space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces)
        return bool(members) and all(_is_flat(member) for member in members)
    return isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary)


def _shown(space: Any) -> str:
    """A space in one line that is not too long."""
    text = " ".join(str(space).split())
    return text if len(text) <= 80 else f"{text[:77]}..."
