"""State fields of 64 bits keep their width wherever a state goes."""

from dataclasses import dataclass

import drjit as dr
import numpy as np
import pytest

from slipstream.envs import Env, Float, Group, Int, Worlds
from slipstream.envs.check import check
from slipstream.spaces import Box, Discrete

every_backend = pytest.mark.parametrize("backend", ["llvm", "scalar"])
LARGE = 2**63 + 2**40 + 1
"""Neither a float64 nor any 32-bit number can hold it."""


@dataclass
class Wide:
    time: Float
    seen: Int
    debt: Int
    own: dict[str, Float]


def float64(x):
    return dr.float64_array_t(x)(x)


class Ledger(Env):
    """Counts in 64 bits."""

    max_steps = 50
    groups = (Group("clerk", Box(2), Discrete(2), size=2),)

    def reset(self, rng):
        start = rng.uniform()
        seen = dr.uint64_array_t(start)(start)
        return Wide(float64(start), seen, dr.int64_array_t(seen)(seen), {"clerk": float64(rng.of("clerk").uniform())})

    def step(self, state, action, rng):
        own = {"clerk": state.own["clerk"] + 1e-12}
        return Wide(state.time + 1e-12, state.seen + 1, state.debt - 1, own), 0.0, False

    def observe(self, state):
        late = self.groups[0].spread(state.time)
        return late, state.own["clerk"]


FIELDS = {
    "time": np.array([1.0 + 1e-12, 3e-300, -1.0 / 3.0]),
    "seen": np.array([LARGE, 2, 2**64 - 9], np.uint64),
    "debt": np.array([-(2**62) - 1, 2**53 + 1, 0], np.int64),
    "own": np.array([1.0 + 1e-15, 2.0, 1.0 / 3.0, 1e-40, 5.0, 6.0]),
}


def assert_exactly(state, expected):
    for name, values in expected.items():
        np.testing.assert_array_equal(state[name], values, err_msg=name)


@every_backend
def test_every_bit_goes_in_and_out(backend):
    worlds = Worlds(Ledger(), 3, backend=backend)
    worlds.set_state(**FIELDS)
    assert_exactly(worlds.get_state(), FIELDS)
    other = Worlds(Ledger(), 3, backend=backend)
    other.restore(worlds.save())
    assert_exactly(other.get_state(), FIELDS)
    if backend == "llvm":
        kinds = {name: array.dtype.name for name, array in worlds.get_state().items()}
        assert kinds == {"time": "float64", "seen": "uint64", "debt": "int64", "own": "float64", "step": "int32"}


@pytest.mark.parametrize(("source", "target"), [("llvm", "scalar"), ("scalar", "llvm")])
def test_every_bit_goes_from_one_backend_to_the_other(source, target):
    worlds, other = (Worlds(Ledger(), 3, backend=backend) for backend in (source, target))
    worlds.set_state(**FIELDS)
    other.restore(worlds.save())
    assert_exactly(other.get_state(), FIELDS)


@every_backend
def test_steps_are_taken_in_64_bits(backend):
    worlds = Worlds(Ledger(), 3, backend=backend)
    worlds.set_state(**FIELDS)
    for _ in range(2):
        worlds.step(np.zeros(6, int))
    after = {"time": FIELDS["time"] + 1e-12 + 1e-12, "own": FIELDS["own"] + 1e-12 + 1e-12}
    after |= {"seen": FIELDS["seen"] + np.uint64(2), "debt": FIELDS["debt"] - 2}
    assert_exactly(worlds.get_state(), after)
    assert worlds.engine.recordings <= 1


def test_such_a_world_passes_every_check():
    assert [p for r in check(Ledger, num_worlds=4, num_steps=10) for p in r.problems] == []
