"""How a model is told what of it is not simulated: by element, attribute and a way out, alike things on one line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

EXAMPLES = 3
"""How many names a line gives."""


class ModelError(ValueError):
    """A model that is broken or asks for something this engine does not simulate."""


@dataclass(frozen=True)
class Refusal:
    """One thing in a model that is not simulated.

    Attributes:
        element: what it is in MJCF, with a `{}` for each name: `<joint{} springyield>`.
        why: what is wrong with it, and the way out; a sentence.
        names: of these elements.
    """

    element: str
    why: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.element.format(*(f' name={name!r}' for name in self.names))}: {self.why}"


def refuse(refusals: Iterable[Refusal]) -> None:
    """Raise a `ModelError` that tells all of them, if there are any."""
    lines = grouped(refusals)
    if lines:
        raise ModelError("This model cannot be simulated:\n  " + "\n  ".join(lines))


def grouped(refusals: Iterable[Refusal]) -> list[str]:
    """A line for every reason, with how often it is met and a few examples."""
    groups: dict[tuple[str, str], list[Refusal]] = {}
    for refusal in refusals:
        groups.setdefault((refusal.element, refusal.why), []).append(refusal)
    return [_line(group) for group in groups.values()]


def _line(group: list[Refusal]) -> str:
    if len(group) == 1:
        return str(group[0])
    first = group[0]
    examples = ", ".join(" and ".join(map(repr, refusal.names)) for refusal in group[:EXAMPLES])
    more = ", ..." if len(group) > EXAMPLES else ""
    return f"{first.element.replace('{}', '')}: {first.why} There are {len(group):,}: {examples}{more}"
