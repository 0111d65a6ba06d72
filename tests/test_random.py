"""Random numbers inside kernels."""

import numpy as np
import pytest

from slipstream.arrays import array_types
from slipstream.envs.env import Group
from slipstream.random import ACTION, RESET, STEP, Rng, pcg4d
from slipstream.spaces import Box, Discrete

GROUPS = {"wolf": Group("wolf", Box(1), Discrete(2), 3), "sheep": Group("sheep", Box(1), Discrete(2), 5)}
DRAWS = {
    "bits": lambda rng: rng.bits(),
    "uniform": lambda rng: rng.uniform(-2.0, 3.0),
    "normal": lambda rng: rng.normal(1.0, 2.0),
    "small integer": lambda rng: rng.integer(6),
    "large integer": lambda rng: rng.integer(1_000_003),
    "chance": lambda rng: rng.chance(0.3),
}


def compiled(num_worlds, seed=5, time=9, purpose=RESET, first_world=0):
    types = array_types("llvm")
    return Rng(types, types.UInt(seed), types.UInt(first_world), num_worlds, types.UInt(time), purpose, GROUPS)


def scalar(world, seed=5, time=9, purpose=RESET):
    return Rng(array_types("scalar"), seed, world, 1, time, purpose, GROUPS)


def chi_square(counts):
    expected = np.sum(counts) / len(counts)
    return float(((np.asarray(counts) - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("kind", DRAWS)
@pytest.mark.parametrize("group", [None, "wolf", "sheep"])
@pytest.mark.parametrize("first", [0, 1000, 2**30])
def test_numbers_are_the_same_in_plain_python(kind, group, first):
    draw = DRAWS[kind]

    def three(rng):
        rng = rng if group is None else rng.of(group)
        return [draw(rng) for _ in range(6)]

    ours = [np.array(v.numpy(), np.float64) for v in three(compiled(20, first_world=first))]
    plain = [three(scalar(first + world)) for world in range(20)]
    for i, values in enumerate(ours):
        expected = np.concatenate([np.atleast_1d(np.asarray(p[i], np.float64)) for p in plain])
        np.testing.assert_allclose(values, expected, rtol=2e-6, atol=2e-6)


def test_numbers_do_not_depend_on_how_many_worlds_there_are():
    few, many = compiled(3), compiled(300)
    np.testing.assert_array_equal(few.uniform().numpy(), many.uniform().numpy()[:3])
    np.testing.assert_array_equal(few.of("sheep").bits().numpy(), many.of("sheep").bits().numpy()[:15])


def test_numbers_depend_on_the_number_of_the_world_not_on_where_it_runs():
    part, whole = compiled(3, first_world=40), compiled(50)
    np.testing.assert_array_equal(part.uniform().numpy(), whole.uniform().numpy()[40:43])
    for group, size in (("wolf", 3), ("sheep", 5)):
        got, expected = part.of(group).bits().numpy(), whole.of(group).bits().numpy()
        np.testing.assert_array_equal(got, expected[40 * size : 43 * size])


@pytest.mark.parametrize("bins", [2, 7, 64])
def test_uniform_numbers_fill_every_bin(bins):
    values = np.concatenate([v.numpy() for rng in [compiled(20_000)] for v in (rng.uniform() for _ in range(5))])
    counts, _ = np.histogram(values, bins=bins, range=(0, 1))
    limit = (bins - 1) + 4 * np.sqrt(2 * (bins - 1))
    assert chi_square(counts) < limit
    assert values.min() >= 0 and values.max() < 1


@pytest.mark.parametrize("n", [1, 2, 5, 256, 257, 1000])
def test_integers_are_uniform_below_their_bound(n):
    values = compiled(100_000).integer(n).numpy()
    counts = np.bincount(values, minlength=n)
    assert len(counts) == n
    assert n == 1 or chi_square(counts) < (n - 1) + 4 * np.sqrt(2 * (n - 1))


def test_normal_numbers_have_their_mean_and_spread():
    values = compiled(200_000).normal(3.0, 2.0).numpy()
    assert abs(values.mean() - 3.0) < 0.02
    assert abs(values.std() - 2.0) < 0.02
    assert abs(((values - 3) ** 4).mean() / 16 - 3.0) < 0.1


def test_chance_has_its_probability():
    assert abs(compiled(100_000).chance(0.3).numpy().mean() - 0.3) < 0.005


def test_draws_times_worlds_seeds_purposes_and_groups_are_uncorrelated():
    n = 20_000
    rng = compiled(n)
    streams = [rng.uniform() for _ in range(9)]
    streams += [compiled(n, seed=6).uniform(), compiled(n, time=10).uniform()]
    streams += [compiled(n, purpose=STEP).uniform(), compiled(n, purpose=ACTION).uniform()]
    values = np.stack([s.numpy() for s in streams])
    neighbours = np.roll(values[:1], 1, axis=1)
    correlation = np.corrcoef(np.concatenate([values, neighbours]))
    np.fill_diagonal(correlation, 0)
    assert np.abs(correlation).max() < 4.5 / np.sqrt(n)
    wolf, sheep = (compiled(n).of(g).uniform().numpy()[: 3 * n] for g in ("wolf", "sheep"))
    assert abs(np.corrcoef(wolf, sheep)[0, 1]) < 4.5 / np.sqrt(3 * n)


def test_asking_twice_for_a_groups_numbers_goes_on_with_its_stream():
    rng, other = compiled(20), compiled(20)
    twice = [rng.of("wolf").uniform().numpy() for _ in range(2)]
    stream = other.of("wolf")
    once = [stream.uniform().numpy() for _ in range(2)]
    np.testing.assert_array_equal(twice, once)
    assert not np.array_equal(*twice)


def test_draws_repeat_no_more_often_than_chance():
    rng = compiled(200_000)
    values = np.concatenate([rng.bits().numpy() for _ in range(8)])
    repeats, expected = values.size - len(np.unique(values)), values.size**2 / 2 / 2**32
    assert abs(repeats - expected) < 4.5 * np.sqrt(expected)


def test_pcg4d_mixes_every_bit_of_every_input_word():
    base = pcg4d(1, 2, 3, 4)
    assert all(0 <= word < 2**32 for word in base)
    flipped = np.zeros((4, 32))
    for position in range(4):
        for bit in range(32):
            words = [1, 2, 3, 4]
            words[position] ^= 1 << bit
            flipped[position, bit] = sum(int(a ^ b).bit_count() for a, b in zip(base, pcg4d(*words)))
    assert flipped.min() > 16  # of 128; the highest input bits reach the fewest
    assert abs(flipped[:, :16].mean() - 64) < 4
