"""Counter-based random numbers inside kernels.

A number is a pure function of (seed, world, agent, time, draw): no state to store, the same on every backend. World
and agent enter as the number `world * group_size + agent`, where worlds are numbered over all processes that share a
run: it does not depend on how many worlds run beside it, nor where. The function is `pcg4d` (Jarzynski and Olano, "Hash
Functions for GPU Rendering", JCGT 2020): four 32-bit words in, four well mixed ones out.
"""

from __future__ import annotations

import math
from typing import Any

import drjit as dr

from slipstream.arrays import ArrayTypes

RESET, STEP, ACTION = 0, 1, 2
"""What the numbers are for. Each purpose has its own stream."""

_MULTIPLIER, _INCREMENT = 1664525, 1013904223
_DRAW_STRIDE = 0x9E3779B9


def _wrap(x: Any) -> Any:
    """Arithmetic modulo 2^32: arrays wrap by themselves, Python integers do not."""
    return x & 0xFFFFFFFF if isinstance(x, int) else x


def _as(like: Any, number: int) -> Any:
    """A constant word of the same kind as `like` (Dr.Jit would widen a large Python integer to 64 bits)."""
    return number if isinstance(like, int) else type(like)(number)


def pcg4d(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any, Any, Any]:
    """Mix four unsigned 32-bit words (arrays or Python integers)."""
    a, b, c, d = (_wrap(v * _MULTIPLIER + _INCREMENT) for v in (a, b, c, d))
    for last in (False, True):
        a = _wrap(a + b * d)
        b = _wrap(b + c * a)
        c = _wrap(c + a * b)
        d = _wrap(d + b * c)
        if not last:
            a, b, c, d = (v ^ (v >> 16) for v in (a, b, c, d))
    return a, b, c, d


class Rng:
    """A stream of random numbers for every world, or for every agent of a group (`rng.of("wolf")`).

    Every call draws anew. The order of the calls matters, their values never repeat within a stream.
    """

    def __init__(
        self,
        types: ArrayTypes,
        seed: Any,
        first_world: Any,
        num_worlds: int,
        time: Any,
        purpose: int,
        groups: dict,
    ):
        """Args:
        seed: unsigned word.
        first_world: the number of the first world.
        num_worlds: how many follow each other; always 1 on the scalar backend.
        time: what changes from step to step (or from reset to reset), per world.
        purpose: `RESET`, `STEP` or `ACTION`.
        groups: name -> `Group` whose agents may ask for numbers of their own.
        """
        self._types = types
        self._first, self._count = first_world, num_worlds
        self._seed, self._stream = seed, 0
        self._number = dr.arange(types.UInt, num_worlds) + first_world if types.compiled else first_world
        self._time = _wrap(time * 4 + purpose) if isinstance(time, int) else time * 4 + purpose
        self._groups = groups
        self._draws = 0
        self._spare: list[Any] = []
        self._streams: dict[str, Rng] = {}

    def of(self, group: str) -> Rng:
        """The same moment's numbers for each agent of a group: one stream, however often it is asked for."""
        if group in self._streams:
            return self._streams[group]
        members = self._groups[group]
        stream = Rng.__new__(Rng)
        stream.__dict__.update(self.__dict__, _spare=[], _streams={})
        first_agent = _wrap(self._first * members.size)
        stream._number = dr.arange(self._types.UInt, self._count * members.size) + first_agent
        stream._time, stream._seed = (
            self._types.UInt(v) if isinstance(v, int) else members.spread(v) for v in (self._time, self._seed)
        )
        stream._stream = list(self._groups).index(group) + 1
        self._streams[group] = stream
        return stream

    def bits(self) -> Any:
        """32 random bits."""
        if not self._spare:
            self._draws += 1
            word = _wrap(self._seed + _as(self._seed, self._draws * _DRAW_STRIDE % 2**32))
            self._spare = list(pcg4d(self._number, _as(self._number, self._stream), self._time, word))
        # The first word first: where a kernel draws only once, the mixing of the others is dead code.
        return self._spare.pop(0)

    def _unit(self) -> Any:
        """Uniform in [0, 1) with 24 bits: exact in float32."""
        bits = self.bits() >> 8
        return (float(bits) if isinstance(bits, int) else self._types.Float(bits)) * 2.0**-24

    def uniform(self, low: Any = 0.0, high: Any = 1.0) -> Any:
        """A real number in [low, high)."""
        return low + self._unit() * (high - low)

    def normal(self, mean: Any = 0.0, std: Any = 1.0) -> Any:
        """A Gaussian number (Box and Muller)."""
        radius = dr.sqrt(-2.0 * dr.log(1.0 - self._unit()))
        return mean + std * radius * dr.cos(2.0 * math.pi * self._unit())

    def integer(self, n: int) -> Any:
        """A whole number in 0 .. n - 1."""
        bits = self.bits()
        if n <= 256:  # 24 random bits are plenty, and no 64-bit product is needed
            number = (bits >> 8) * n >> 24
        elif isinstance(bits, int):
            number = bits * n >> 32
        else:
            number = dr.mul_hi(bits, self._types.UInt(n))
        return number if isinstance(number, int) else self._types.Int(number)

    def chance(self, probability: Any) -> Any:
        """True with the given probability."""
        return self._unit() < probability
