"""Operations that lead from agents to their world and back, against NumPy."""

import drjit as dr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from slipstream.arrays import array_types
from slipstream.envs.env import Group, remembering
from slipstream.spaces import Box, Discrete

LLVM, SCALAR = array_types("llvm"), array_types("scalar")
shapes = st.tuples(st.integers(1, 6), st.integers(1, 40))
whole = hnp.arrays(np.int32, shapes, elements=st.integers(-1000, 1000))
real = hnp.arrays(np.float32, shapes, elements=st.floats(-100, 100, width=32))
flags = hnp.arrays(bool, shapes)


def group(array):
    return Group("pack", Box(1), Discrete(2), array.shape[1])


def opaque(array_type, values):
    array = array_type(np.ascontiguousarray(values.reshape(-1)))
    dr.make_opaque(array)
    return array


def both(array_types_name, values, operation):
    """What an operation gives on all worlds at once, and world by world on the scalar backend."""
    compiled = operation(group(values), opaque(getattr(LLVM, array_types_name), values))
    plain = [operation(group(values), getattr(SCALAR, array_types_name)(row.tolist())) for row in values]
    return np.array(compiled.numpy()), np.array(plain)


@settings(max_examples=40, deadline=None)
@given(whole)
def test_reductions_of_whole_numbers_are_numpys(values):
    for name in ("sum", "min", "max"):
        compiled, plain = both("Int", values, lambda g, a, name=name: getattr(g, name)(a))
        expected = getattr(np, name)(values, axis=1)
        np.testing.assert_array_equal(compiled, expected)
        np.testing.assert_array_equal(plain, expected)


@settings(max_examples=40, deadline=None)
@given(real)
def test_reductions_of_real_numbers_are_numpys(values):
    for name in ("sum", "mean", "min", "max"):
        compiled, plain = both("Float", values, lambda g, a, name=name: getattr(g, name)(a))
        expected = getattr(np, name)(values.astype(np.float64), axis=1)
        np.testing.assert_allclose(compiled, expected, rtol=1e-5, atol=1e-3)
        np.testing.assert_allclose(plain, expected, rtol=1e-6, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(flags)
def test_counts_of_flags_are_numpys(values):
    operations = {
        "count": lambda v: v.sum(axis=1),
        "any": lambda v: v.any(axis=1),
        "all": lambda v: v.all(axis=1),
    }
    for name, expected in operations.items():
        compiled, plain = both("Bool", values, lambda g, a, name=name: getattr(g, name)(a))
        np.testing.assert_array_equal(compiled, expected(values))
        np.testing.assert_array_equal(plain, expected(values))


@settings(max_examples=40, deadline=None)
@given(hnp.arrays(np.int32, shapes, elements=st.integers(0, 5)), st.sampled_from([10, 1_000_003]))
def test_the_lowest_is_the_first_on_a_tie_and_brings_its_load(values, carry_below):
    load = (np.arange(values.size).reshape(values.shape) * 7919) % carry_below
    lowest, carried = group(values).lowest(
        opaque(LLVM.Int, values), 6, opaque(LLVM.Int, load.astype(np.int32)), carry_below
    )
    first = values.argmin(axis=1)
    np.testing.assert_array_equal(lowest.numpy(), values.min(axis=1))
    np.testing.assert_array_equal(carried.numpy(), load[np.arange(len(load)), first])
    for row, loads, i in zip(values, load, first):
        plain = group(values).lowest(SCALAR.Int(row.tolist()), 6, SCALAR.Int(loads.tolist()), carry_below)
        assert plain == (row[i], loads[i])


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 40))
def test_spread_index_and_pick_address_the_right_agents(worlds, size):
    pack = Group("pack", Box(1), Discrete(2), size)
    of_world = opaque(LLVM.Float, np.arange(worlds, dtype=np.float32))
    odd = opaque(LLVM.Bool, np.arange(worlds) % 2 == 1)
    for spread, expected in (
        (pack.spread(of_world), np.arange(worlds)),
        (pack.spread(odd), np.arange(worlds) % 2),
    ):
        lanes = np.broadcast_to(spread.numpy(), worlds * size)  # a single world's value may stay a single one
        np.testing.assert_array_equal(lanes, np.repeat(expected, size))
    np.testing.assert_array_equal(pack.index(of_world).numpy(), np.tile(np.arange(size), worlds))
    agents = opaque(LLVM.Int, np.arange(worlds * size, dtype=np.int32))
    np.testing.assert_array_equal(pack.pick(agents, size - 1).numpy(), np.arange(worlds) * size + size - 1)


@pytest.mark.parametrize("number", [3, 2.5])
def test_reductions_of_constants_know_the_size(number):
    pack = Group("pack", Box(1), Discrete(2), 4)
    for value in (number, (LLVM.Int if isinstance(number, int) else LLVM.Float)(number)):
        one = (lambda x: x) if isinstance(value, int | float) else (lambda x: x.numpy()[0])
        assert one(pack.sum(value)) == 4 * number
        assert one(pack.min(value)) == one(pack.max(value)) == number


def test_a_single_world_reduces_what_was_spread_to_its_agents():
    pack = Group("pack", Box(1), Discrete(2), 4)
    spread = pack.spread(opaque(LLVM.Float, np.array([2.5], np.float32)))
    assert pack.sum(spread).numpy().tolist() == [10.0]
    assert pack.max(spread).numpy().tolist() == [2.5]


def test_the_lowest_of_equal_values_is_the_first_agent():
    pack = Group("pack", Box(1), Discrete(2), 3)
    carried = pack.lowest(LLVM.Int(7), 10, opaque(LLVM.Int, np.array([5, 1, 2], np.int32)), 10)[1]
    assert carried.numpy().tolist() == [5]


def test_what_is_remembered_depends_on_what_is_carried():
    pack = Group("pack", Box(1), Discrete(2), 3)
    values, one, two = (opaque(LLVM.Int, np.array(v, np.int32)) for v in ([3, 1, 2], [4, 5, 6], [7, 8, 9]))
    with remembering():
        carried = [pack.lowest(values, 10, load, 10)[1].numpy()[0] for load in (one, two, one)]
    assert carried == [5, 8, 5]
