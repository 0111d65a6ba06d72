"""All there is to see of many worlds at a moment, as named NumPy arrays, and how two such frames differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.envs.worlds import Worlds

Frame = dict[str, np.ndarray]
"""Name -> `[..., lanes]`; the lanes of a world are next to each other."""


@dataclass(frozen=True)
class Finding:
    """Where a world does not do what it should; a row of the table that `slipstream check` prints."""

    world: int | None
    step: int | None
    field: str
    expected: str
    got: str


def frame_of_state(worlds: Worlds) -> Frame:
    """The state and the counters of all worlds."""
    frame: Frame = {}
    for leaf, array in zip(worlds.engine.leaves, worlds.engine.state_arrays()):
        name = f"state.{leaf.field}" if leaf.group is None else f"state.{leaf.field}/{leaf.group}"
        frame[name if leaf.number is None else f"{name}[{leaf.number}]"] = array
    return frame | {f"clock.{name}": array for name, array in worlds.engine.clock_arrays().items()}


def take_step(worlds: Worlds, actions: Any) -> Frame:
    """Step the worlds and look at everything that came of it."""
    rows = {name: np.array(value) for name, value in worlds.step_rows(actions).items()}
    return rows | frame_of_state(worlds)


def of_worlds(array: np.ndarray, num_worlds: int) -> np.ndarray:
    """The values of each world in a row: `[worlds, values]`."""
    split = array.reshape(-1, num_worlds, array.shape[-1] // num_worlds)
    return np.moveaxis(split, 1, 0).reshape(num_worlds, -1)


def put_worlds(target: np.ndarray, source: np.ndarray, which: np.ndarray) -> np.ndarray:
    """`target` with the lanes of some worlds (`which`: `[worlds]`, flags) from `source`."""
    lanes = np.repeat(which, target.shape[-1] // len(which))
    return np.where(lanes, source, target)


def same_bits(expected: np.ndarray, got: np.ndarray) -> np.ndarray:
    """Whether values are the same, where undefined ones are the same too."""
    return (expected == got) | ((expected != expected) & (got != got))


def describe(value: Any) -> str:
    return str(bool(value)) if isinstance(value, np.bool_) else f"{value:.9g}"


def problems_where(
    wrong: np.ndarray, name: str, step: int | None, expected: np.ndarray | str, got: np.ndarray
) -> Iterator[Finding]:
    """A problem for the first wrong value of each world.

    Args:
        wrong: `[worlds, values]`, flags.
        name: of the field.
        step: when.
        expected: `[worlds, values]`, or a text.
        got: `[worlds, values]`.
    """
    for world in np.flatnonzero(wrong.any(axis=1)):
        first = int(np.argmax(wrong[world]))
        should = expected if isinstance(expected, str) else describe(expected[world, first])
        label = name if wrong.shape[1] == 1 else f"{name}#{first}"
        yield Finding(int(world), step, label, should, describe(got[world, first]))


def different(expected: Frame, got: Frame, which: Sequence[int], step: int | None) -> Iterator[Finding]:
    """Where the worlds `which` of two frames (of any numbers of worlds) do not have the same bits."""
    for name in expected:
        counts = (len(f["truncated" if "truncated" in f else "clock.step"]) for f in (expected, got))
        a, b = (of_worlds(f[name], n)[list(which)] for f, n in zip((expected, got), counts))
        for problem in problems_where(~same_bits(a, b), name, step, a, b):
            yield Finding(which[problem.world or 0], step, problem.field, problem.expected, problem.got)
