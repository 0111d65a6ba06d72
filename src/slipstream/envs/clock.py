"""What the system keeps of every world beside its state: counters, and sums over finished episodes."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import drjit as dr
import numpy as np

from slipstream.arrays import ArrayTypes

PerGroup = dict[str, Any]

Number = Literal["whole", "real", "wide"]
"""What a quantity is: a whole number, a real one, or a real one that grows for as long as a run lasts. That needs more
than float32: after a hundred thousand episodes its last digit is hardly smaller than one of them."""


@dataclass(frozen=True)
class Kept:
    """Of a field of the clock: whether there is one for every group or every report, and what numbers it holds."""

    per: Literal["world", "group", "report"]
    number: Number
    total: bool = False
    """A sum over all episodes that have ended: it only ever grows."""


@dataclass
class Clock:
    """The one list of these quantities, all of the world."""

    step: Annotated[Any, Kept("world", "whole")]
    """Steps taken in the episode."""
    episode: Annotated[Any, Kept("world", "whole")]
    """Episodes begun so far: what makes every reset different."""
    running_return: Annotated[PerGroup, Kept("group", "real")]
    """Reward so far in the episode, averaged over the agents of a group."""
    episodes: Annotated[Any, Kept("world", "whole", total=True)]
    """Episodes that have ended."""
    length_sum: Annotated[Any, Kept("world", "whole", total=True)]
    return_sum: Annotated[PerGroup, Kept("group", "wide", total=True)]
    return_square_sum: Annotated[PerGroup, Kept("group", "wide", total=True)]
    report_sum: Annotated[PerGroup, Kept("report", "wide", total=True)]
    broken: Annotated[Any, Kept("world", "whole", total=True)]
    """How often the world was reset because its state was not finite."""
    unpaid: Annotated[PerGroup, Kept("group", "whole", total=True)]
    """Steps in which a reward of the group was not finite: it counts as 0."""

    def flat(self) -> dict[str, Any]:
        """By name: `step`, `return_sum/wolf` ..."""
        named: dict[str, Any] = {}
        for field, kept in FIELDS.items():
            value = getattr(self, field)
            named |= {field: value} if kept.per == "world" else {f"{field}/{n}": v for n, v in value.items()}
        return named

    @staticmethod
    def from_flat(named: Mapping[str, Any]) -> Clock:
        """What `flat` came from."""
        values: dict[str, Any] = {}
        for field, kept in FIELDS.items():
            start = field + "/"
            if kept.per == "world":
                values[field] = named[field]
            else:
                values[field] = {n.removeprefix(start): v for n, v in named.items() if n.startswith(start)}
        return Clock(**values)


FIELDS: dict[str, Kept] = {
    name: hint.__metadata__[0] for name, hint in typing.get_type_hints(Clock, include_extras=True).items()
}


def clock_names(groups: Iterable[str], reports: Iterable[str]) -> dict[str, Number]:
    """The names of all quantities of a clock, and what number each is."""
    names: dict[str, Number] = {}
    of = {"group": list(groups), "report": list(reports)}
    for field, kept in FIELDS.items():
        for name in [field] if kept.per == "world" else [f"{field}/{member}" for member in of[kept.per]]:
            names[name] = kept.number
    return names


def clock_type(types: ArrayTypes, number: Number) -> Any:
    """The arrays that hold a quantity of all worlds."""
    return {"whole": types.Int, "real": types.Float, "wide": dr.float64_array_t(types.Float)}[number]


def is_total(name: str) -> bool:
    """Whether a quantity, named as in `Clock.flat`, is a sum over all episodes that have ended."""
    return FIELDS[name.partition("/")[0]].total


GOLDEN = 0x9E3779B9
"""The golden ratio's fraction of 2^32."""


def staggered_steps(first_world: int, num_worlds: int, max_steps: int) -> np.ndarray:
    """Where in its time limit each world begins, `[worlds]`, whole numbers below `max_steps`.

    The multiples of the golden ratio fill an interval evenly, from wherever and however many of them are taken: the
    place of a world depends on its number alone, and those of any part of the worlds are spread as evenly as all.
    """
    numbers = np.arange(first_world, first_world + num_worlds, dtype=np.uint64)
    fraction = (numbers * np.uint64(GOLDEN)) & np.uint64(0xFFFFFFFF)
    return (fraction * np.uint64(max_steps) >> np.uint64(32)).astype(np.int32)
