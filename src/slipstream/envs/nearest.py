"""The k nearest agents: who is close to whom, without a line of index arithmetic in a world's rules.

Where there are few candidates, every seeker looks at all of its own world: they stand in a compact table, the best k
in registers. Where there are many, it looks at those in the cells around it (`cells.py`). Both find the same: a squared
distance and the candidate's number share one 64-bit key, so that one comparison orders by distance first and by number
on a tie. On a torus everybody is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import drjit as dr

from slipstream.envs.cells import Cells, sort_into_cells, walk
from slipstream.envs.env import Group, once

PerAgent = Mapping[str, Any]

UNROLL = 4
"""Candidates per turn of the loop. Every turn costs a masked copy of all that is kept."""

CELLS_FROM = 200
"""Candidates from which a search through cells is the faster one (for 10 neighbours both cost the same with 150)."""

_only: ContextVar[Mapping[str, Any] | None] = ContextVar("only", default=None)


@contextmanager
def searching_only(where: Mapping[str, Any]) -> Iterator[None]:
    """Within this context a search stops at once in worlds whose agents' flags (by group name) are not set.

    The first observation of an episode is needed only where one begins; a packet of lanes in which none does
    skips the search.
    """
    before = _only.set(where)
    try:
        yield
    finally:
        _only.reset(before)


def nearest(
    seeker: Group,
    among: Sequence[Group],
    position: Sequence[PerAgent],
    k: int = 1,
    active: PerAgent | None = None,
    torus: Sequence[float | None] | None = None,
    seeking: PerAgent | None = None,
) -> Nearest:
    """For each agent of `seeker`, its `k` nearest agents of the groups `among`, never itself.

    Args:
        seeker: who looks.
        among: who may be found. Candidates are numbered in the order of these groups.
        position: one per-agent quantity for each coordinate.
        k: how many to find.
        active: if given, only agents for which it is true can be found.
        torus: if given, the size of the world along each coordinate, which goes on at the other side (None for a
            coordinate that does not). Distances are those of the shortest way around.
        seeking: if given, only agents for which it is true look. What the others find has no meaning.
    """
    if k < 1:
        raise ValueError(f"The number of nearest agents must be at least 1, got k={k}.")
    sizes = tuple(torus) if torus is not None else (None,) * len(position)
    if len(sizes) != len(position) or any(size is not None and not 0 < size < float("inf") for size in sizes):
        raise ValueError(f"torus needs a positive size (or None) for each of {len(position)} axes, got {torus!r}.")
    places = [[axis[g.name] for g in among] for axis in position]
    here = [axis[seeker.name] for axis in position]
    exists = None if active is None else [active[g.name] for g in among]
    if not dr.is_jit_v(here[0]):
        return _search_plain(seeker, among, places, here, k, exists, sizes)
    asked = None if seeking is None else seeking[seeker.name]
    return _search_compiled(seeker, among, places, here, k, exists, sizes, asked)


def shortest(difference: Any, size: float) -> Any:
    """The shortest way that leads as far as `difference` on a circle of the given size: within -size/2 .. size/2."""
    return difference - size * dr.round(difference * (1.0 / size))


class Nearest:
    """What `nearest` found. `found[i]` says whether there is an i-th nearest agent, `distance2[i]` how far."""

    def __init__(self, seeker: Group, among: Sequence[Group], number: list[Any], distance2: list[Any]):
        self.seeker, self.among = seeker, among
        self.number = number
        """Candidate number of the i-th nearest; meaningless where nothing was found."""
        self.distance2 = distance2
        self.found = [d < float("inf") for d in distance2]

    @property
    def _candidates(self) -> int:
        return sum(g.size for g in self.among)

    def _rows(self, number: Any) -> Any:
        """Where a candidate stands in the table of all worlds' candidates."""
        if not dr.is_jit_v(number):
            return number
        world = dr.arange(type(number), len(number)) // self.seeker.size
        return dr.fma(world, self._candidates, number)

    def of(self, quantity: PerAgent) -> list[Any]:
        """A per-agent quantity of the i-th nearest agent, for each i (0 where nothing was found)."""
        table = _table(self.among, [quantity[g.name] for g in self.among])
        return [
            dr.gather(type(table), table, self._rows(number), found) for number, found in zip(self.number, self.found)
        ]

    def tally(self, group: Group, which: Any) -> Any:
        """How many seekers, of those with the flag `which` set, have each agent of `group` as their nearest."""
        if [g.name for g in self.among] != [group.name]:
            raise ValueError(f"tally({group.name!r}) needs a search among that group alone.")
        which = which & self.found[0]
        number = self.number[0]
        if not dr.is_jit_v(number):
            hits = [sum(w and n == agent for n, w in zip(number, which)) for agent in range(group.size)]
            return type(self.distance2[0])(hits)
        float_type = type(self.distance2[0])
        counts = dr.zeros(float_type, len(number) // self.seeker.size * group.size)
        dr.scatter_reduce(dr.ReduceOp.Add, counts, float_type(1), self._rows(number), which)
        return counts


def _table(groups: Sequence[Group], parts: Sequence[Any]) -> Any:
    """The parts of several groups side by side: candidate number is the fast axis, the world the slow one."""
    if len(parts) == 1:
        return parts[0]
    if not dr.is_jit_v(parts[0]):
        return type(parts[0])([value for part in parts for value in part])
    return once(("table", *groups), parts, lambda: _join(groups, parts))


def _join(groups: Sequence[Group], parts: Sequence[Any]) -> Any:
    total = sum(g.size for g in groups)
    worlds = len(parts[0]) // groups[0].size
    table = dr.empty(type(parts[0]), worlds * total)
    unsigned = dr.uint32_array_t(type(parts[0]))
    start = 0
    for group, part in zip(groups, parts):
        lane = dr.arange(unsigned, worlds * group.size)
        row = dr.fma(lane // group.size, total, lane % group.size + start)
        dr.scatter(table, part, row, mode=dr.ReduceMode.Permute)
        start += group.size
    return table


def _own_number(seeker: Group, among: Sequence[Group]) -> int | None:
    """Where the seekers stand among the candidates (None: they do not)."""
    start = 0
    for group in among:
        if group.name == seeker.name:
            return start
        start += group.size
    return None


def _search_compiled(seeker, among, places, here, k, exists, sizes, asked) -> Nearest:
    float_type = type(here[0])
    unsigned: Any = dr.uint32_array_t(float_type)
    key_type: Any = dr.uint64_array_t(float_type)
    nothing = key_type(0x7F800000_00000000)  # the bits of +inf, so that `found` reads off the distance
    lane = dr.arange(unsigned, len(here[0]))
    start = _own_number(seeker, among)
    myself = unsigned(0xFFFFFFFF) if start is None else lane % seeker.size + start
    if (only := _only.get()) is not None:
        asked = only[seeker.name] if asked is None else asked & only[seeker.name]

    def rank(d2, number, best):
        """Let a candidate take its place among the best so far."""
        d2 = dr.select(myself == number, dr.inf, d2)
        key = (key_type(dr.reinterpret_array(unsigned, d2)) << 32) | key_type(unsigned(number))
        kept = []
        for b in best:
            kept.append(dr.minimum(b, key))
            key = dr.maximum(b, key)
        return kept

    in_cells = sum(g.size for g in among) >= CELLS_FROM and len(places) in (2, 3) and not any(sizes)
    search = _through_cells if in_cells else _through_all
    best = search(seeker, among, places, here, exists, sizes, asked, [nothing] * k, rank)
    number = [unsigned(b & 0xFFFFFFFF) for b in best]
    distance2 = [_distance2(float_type, b) for b in best]
    return Nearest(seeker, among, number, distance2)


def _distance2(float_type: Any, key: Any) -> Any:
    return dr.reinterpret_array(float_type, dr.uint32_array_t(float_type)(key >> 32))


def _through_all(seeker, among, places, here, exists, sizes, asked, best, rank) -> list[Any]:
    """The best of all candidates."""
    float_type = type(here[0])
    unsigned: Any = dr.uint32_array_t(float_type)
    tables = [_table(among, parts) for parts in places]
    if exists is not None:
        # An agent that cannot be found stands infinitely far away: no third gather in the loop.
        present = _table(among, [unsigned(e) for e in exists])
        tables[0] = dr.select(present != 0, tables[0], dr.inf)
    dr.eval(tables)
    total = sum(g.size for g in among)
    first = dr.arange(unsigned, len(here[0])) // seeker.size * total

    def consider(j, best):
        there = [dr.gather(float_type, t, first + j) for t in tables]
        d2 = _squared_distance(there, here, sizes)
        if exists is not None and sizes[0] is not None:
            d2 = dr.select(there[0] == dr.inf, dr.inf, d2)  # on a circle, infinitely far away is nowhere
        return rank(d2, j, best)

    def body(j, *best):
        for i in range(UNROLL):
            best = consider(j + i, best)
        return j + UNROLL, *best

    looped = total - total % UNROLL
    if looped:
        begin = dr.zeros(unsigned, len(here[0]))
        if asked is not None:
            begin = dr.select(asked, begin, looped)
        _, *best = dr.while_loop((begin, *best), lambda j, *best: j < looped, body, label="nearest")
    for j in range(looped, total):
        best = consider(j, best)
    return best


def _through_cells(seeker, among, places, here, exists, sizes, asked, best, rank) -> list[Any]:
    """The best of the candidates in the cells around, as far as needed."""
    float_type = type(here[0])
    unsigned: Any = dr.uint32_array_t(float_type)
    total = sum(g.size for g in among)
    only = _only.get()
    searched = [] if only is None else [only[among[0].name]]

    def sort() -> Cells:
        present: Any = True if exists is None else _table(among, [unsigned(e) for e in exists]) != 0
        for flags in searched:
            # In worlds where nobody looks nobody need be found.
            of_world = among[0].pick(unsigned(flags), 0)
            present = present & ((of_world if len(flags) == 1 else dr.repeat(of_world, total)) != 0)
        return sort_into_cells([_table(among, parts) for parts in places], present, total)

    parts = [part for axis in places for part in axis]
    cells = once(("cells", *among), [*parts, *(exists or ()), *searched], sort)

    def consider(position, there_is, best):
        there, number = cells.agent(position, there_is)
        d2 = dr.select(there_is, _squared_distance(there[: len(here)], here, sizes), dr.inf)
        return rank(d2, number, best)

    world = dr.arange(unsigned, len(here[0])) // seeker.size
    walks = True if asked is None else asked
    return walk(cells, world, here, walks, best, consider, lambda best: _distance2(float_type, best[-1]))


def _search_plain(seeker, among, places, here, k, exists, sizes) -> Nearest:
    import drjit.scalar as scalar

    tables = [_table(among, parts) for parts in places]
    present = None if exists is None else _table(among, exists)
    start = _own_number(seeker, among)
    number, distance2 = ([[] for _ in range(k)] for _ in range(2))
    for agent in range(seeker.size):
        mine = [axis[agent] for axis in here]
        ranked = sorted(
            (_squared_distance([t[j] for t in tables], mine, sizes), j)
            for j in range(len(tables[0]))
            if (start is None or j != start + agent) and (present is None or present[j])
        )
        ranked += [(float("inf"), 0)] * k
        for i in range(k):
            distance2[i].append(ranked[i][0])
            number[i].append(ranked[i][1])
    return Nearest(seeker, among, [scalar.ArrayXu(n) for n in number], [scalar.ArrayXf64(d) for d in distance2])


def _squared_distance(a: Sequence[Any], b: Sequence[Any], sizes: Sequence[float | None]) -> Any:
    total: Any = 0.0
    for p, q, size in zip(a, b, sizes):
        apart = p - q if size is None else shortest(p - q, size)
        total = total + apart * apart
    return total
