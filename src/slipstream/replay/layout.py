"""How a transition lies in memory: one packed row each, so that drawing a sample touches one place.

This is the one exception to "lanes last": samples are drawn from all over a replay, and a row that lies together is
fetched at a stroke. Nothing here imports JAX: samplers write rows with NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate

from slipstream.spaces import Box, Space


@dataclass(frozen=True)
class RowLayout:
    """Where the fields of a transition lie in a row of 32-bit floats (whole numbers are exact up to 2**24)."""

    slices: dict[str, slice] = field(hash=False)
    """Where each field lies."""
    width: int
    """How many numbers make a row."""
    pixels: int = 0
    """Bytes of a row's pixels, which are kept beside the numbers: those of the observation, then those of the next one;
    0 unless observations are images."""
    discrete: bool = False
    """Whether actions are choices."""

    @staticmethod
    def of(observation: Box, action: Space, *, masked: bool) -> RowLayout:
        """The layout for an agent.

        Args:
            observation: what it sees.
            action: what it does.
            masked: whether what it may do differs from step to step.
        """
        image = observation.image is not None
        seen = 0 if image else observation.size
        discrete = not isinstance(action, Box)
        sizes = {
            "observation": seen,
            "next_observation": seen,
            "action": action.size,
            "reward": 1,
            "discount": 1,
            "next_mask": 0 if isinstance(action, Box) or not masked else sum(action.choices),
        }
        ends = list(accumulate(sizes.values()))
        slices = {name: slice(end - size, end) for (name, size), end in zip(sizes.items(), ends)}
        return RowLayout(slices, ends[-1], 2 * observation.size if image else 0, discrete)
