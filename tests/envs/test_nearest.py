"""The k nearest agents against a search by sorting."""

import itertools
import sys

import drjit as dr
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slipstream.arrays import array_types
from slipstream.envs import make
from slipstream.envs.env import Group
from slipstream.envs.nearest import nearest, searching_only, shortest
from slipstream.spaces import Box, Discrete

LLVM, SCALAR = array_types("llvm"), array_types("scalar")


@st.composite
def scenes(draw):
    """Two groups on a small lattice (so that there are ties), some of them hidden."""
    sizes = draw(st.integers(1, 7)), draw(st.integers(1, 9))
    return (
        sizes,
        draw(st.integers(1, 3)),
        draw(st.integers(1, 6)),
        draw(st.integers(0, 2**31)),
        draw(st.booleans()),
        draw(st.sampled_from([None, (4.0, 4.0), (5.0, None), (None, 3.0)])),
    )


def apart(a, b, torus):
    """The squared distance of two places: the least one to any image of the other."""
    images = [range(-3, 4) if size else [0] for size in torus or (None, None)]
    sizes = [size or 0.0 for size in torus or (None, None)]
    shifts = itertools.product(*images)
    return min(float(((a - b + np.multiply(shift, sizes)) ** 2).sum()) for shift in shifts)


def brute_force(seeker, positions, active, k, torus):
    """Numbers and squared distances of the k nearest candidates, by sorting (distance, number)."""
    found = []
    for i in range(len(positions)):
        ranked = sorted(
            (apart(positions[i], positions[j], torus), j) for j in range(len(positions)) if j != i and active[j]
        )
        found.append((ranked + [(float("inf"), -1)] * k)[:k])
    return [found[i] for i in seeker]


def make_arrays(values, sizes, array_type):
    """`[worlds, agents]` as a dictionary by group."""
    parts = {"a": values[:, : sizes[0]], "b": values[:, sizes[0] :]}
    return {g: array_type(np.ascontiguousarray(v.reshape(-1))) for g, v in parts.items()}


@settings(max_examples=40, deadline=None)
@given(scenes())
def test_the_search_finds_what_sorting_finds(scene):
    sizes, worlds, k, seed, hide, torus = scene
    rng = np.random.default_rng(seed)
    agents = sum(sizes)
    x, y = rng.integers(-1, 5, (2, worlds, agents)).astype(np.float32)
    active = rng.random((worlds, agents)) < 0.7 if hide else np.ones((worlds, agents), bool)
    a, b = Group("a", Box(1), Discrete(2), sizes[0]), Group("b", Box(1), Discrete(2), sizes[1])
    place = [make_arrays(v, sizes, LLVM.Float) for v in (x, y)]
    exists = make_arrays(active, sizes, LLVM.Bool) if hide else None
    dr.make_opaque(place, exists)
    for group, members in ((a, range(sizes[0])), (b, range(sizes[0], agents))):
        result = nearest(group, [a, b], place, k, exists, torus)
        got_x = result.of(place[0])
        for w in range(worlds):
            expected = brute_force(members, np.stack([x[w], y[w]], 1), active[w], k, torus)
            plain_place = [{g: SCALAR.Float(v[w][s].tolist()) for g, s in parts(sizes)} for v in (x, y)]
            plain_active = {g: SCALAR.Bool(active[w][s].tolist()) for g, s in parts(sizes)} if hide else None
            plain = nearest(group, [a, b], plain_place, k, plain_active, torus)
            for i in range(k):
                lanes = slice(w * group.size, (w + 1) * group.size)
                distance = [e[i][0] for e in expected]
                assert result.distance2[i].numpy()[lanes].tolist() == distance
                assert list(plain.distance2[i]) == distance
                for lane, (d, number) in enumerate(e[i] for e in expected):
                    if d < np.inf:
                        assert result.number[i].numpy()[lanes][lane] == plain.number[i][lane] == number
                        assert got_x[i].numpy()[lanes][lane] == x[w, number]
                    else:
                        assert not result.found[i].numpy()[lanes][lane] and not plain.found[i][lane]
                        assert got_x[i].numpy()[lanes][lane] == 0


def parts(sizes):
    return (("a", slice(0, sizes[0])), ("b", slice(sizes[0], sum(sizes))))


def test_more_than_a_thousand_candidates_are_searched():
    rng = np.random.default_rng(0)
    a = Group("a", Box(1), Discrete(2), 1501)
    x = rng.random((2, 1501)).astype(np.float32)
    place = [{"a": LLVM.Float(x.reshape(-1))}]
    dr.make_opaque(place)
    result = nearest(a, [a], place, 1)
    distance2 = (x[:, :, None] - x[:, None, :]) ** 2
    distance2[:, np.arange(1501), np.arange(1501)] = np.inf
    np.testing.assert_array_equal(result.number[0].numpy(), distance2.argmin(axis=2).reshape(-1))


def through(search, monkeypatch):
    """Let every search go through cells, or none."""
    monkeypatch.setattr(sys.modules[nearest.__module__], "CELLS_FROM", {"cells": 1, "all": 10**9}[search])


@st.composite
def crowds(draw):
    """Agents of two groups: how they stand, how many, how many to find, and who has left."""
    return (
        draw(st.sampled_from(sorted(STANDING))),
        *draw(st.sampled_from([((1, 1), 1, 1), ((2, 9), 3, 10), ((30, 120), 2, 3)])),  # few, as each is compiled
        draw(st.sampled_from([1.0, 0.7, 0.1, 0.0])),
        draw(st.integers(0, 2**31)),
    )


def clustered(rng, shape):
    """Crowds as narrow as rounding allows, far away from each other and from the origin."""
    centres = rng.choice([-1e4, 0.0, 3.0, 1e6], shape)
    return centres + rng.normal(0.0, rng.choice([1e-6, 1e-2, 1.0]), shape)


STANDING = {
    "evenly": lambda rng, shape: rng.uniform(0.0, 10.0, shape),
    "at one point": lambda rng, shape: np.full(shape, rng.uniform(-5.0, 5.0)),
    "in clusters": clustered,
    "at the edges": lambda rng, shape: np.clip(rng.uniform(-10.0, 20.0, shape), 0.0, 10.0),
    "on a lattice": lambda rng, shape: rng.integers(0, 6, shape) * 0.1,
    "with one far away": lambda rng, shape: rng.uniform(0.0, 1.0, shape) + 1e7 * (np.arange(shape[-1]) == 0),
    "some nowhere": lambda rng, shape: rng.choice([np.nan, np.inf, -np.inf, 1e30, -3e38, 0.5, 0.7, 1.0], shape),
    "next to nothing apart": lambda rng, shape: rng.choice([0.0, 1e-30, 1e-18, 2e-18], shape),
    "over all magnitudes": lambda rng, shape: 10.0 ** rng.uniform(-15.0, 30.0, shape),
}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(crowds())
def test_a_search_through_cells_finds_what_a_search_through_all_finds(monkeypatch, crowd):
    standing, sizes, worlds, k, share, seed = crowd
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        positions = STANDING[standing](rng, (2, worlds, sum(sizes))).astype(np.float32)
    if rng.random() < 0.3:
        positions[1] = positions[0]  # on a line
    groups = [Group(name, Box(1), Discrete(2), size) for name, size in zip("ab", sizes)]
    place = [make_arrays(v, sizes, LLVM.Float) for v in positions]
    exists = make_arrays(rng.random((worlds, sum(sizes))) < share, sizes, LLVM.Bool)
    dr.make_opaque(place, exists)
    for seeker in groups:
        for among in (groups, groups[:1]):
            found = {}
            for search in ("cells", "all"):
                through(search, monkeypatch)
                found[search] = nearest(seeker, among, place, k, exists)
            for i in range(k):
                distance2, expected = (found[s].distance2[i].numpy() for s in ("cells", "all"))
                there = np.isfinite(expected)
                np.testing.assert_array_equal(np.isfinite(distance2), there)
                np.testing.assert_array_equal(distance2[there], expected[there])
                number, expected = (found[s].number[i].numpy() for s in ("cells", "all"))
                np.testing.assert_array_equal(number[there], expected[there])


def test_thousands_of_agents_find_the_same_neighbours_through_cells(monkeypatch):
    size, worlds = 3000, 2
    positions = np.random.default_rng(3).uniform(0.0, 50.0, (3, worlds * size)).astype(np.float32)
    a = Group("a", Box(1), Discrete(2), size)
    for axes in (2, 3):
        place = [{"a": LLVM.Float(v)} for v in positions[:axes]]
        dr.make_opaque(place)
        found = {}
        for search in ("cells", "all"):
            through(search, monkeypatch)
            found[search] = nearest(a, [a], place, 5)
        for i in range(5):
            for what in ("number", "distance2"):
                cells, everybody = (getattr(found[s], what)[i].numpy() for s in ("cells", "all"))
                np.testing.assert_array_equal(cells, everybody)


def test_a_frozen_step_searches_through_cells_and_is_recorded_once():
    worlds, again = (
        make("tag-continuous", num_worlds=3, seed=5, num_taggers=210, num_runners=300, episode_length=3)
        for _ in range(2)
    )
    worlds.rollout_random(8)
    assert worlds.engine.recordings == 1
    again.rollout_random(8)
    for name, values in worlds.get_state().items():
        np.testing.assert_array_equal(values, again.get_state()[name])


@pytest.mark.parametrize("search", ["cells", "all"])
def test_who_does_not_seek_keeps_nobody_else_from_finding(search, monkeypatch):
    through(search, monkeypatch)
    a = Group("a", Box(1), Discrete(2), 30)
    place = [{"a": LLVM.Float(v)} for v in np.random.default_rng(2).random((2, 60)).astype(np.float32)]
    seeking = np.random.default_rng(4).random(60) < 0.5
    flags = {"a": LLVM.Bool(seeking)}
    dr.make_opaque(place, flags)
    expected = nearest(a, [a], place, 3)
    found = nearest(a, [a], place, 3, seeking=flags)
    for i in range(3):
        np.testing.assert_array_equal(found.number[i].numpy()[seeking], expected.number[i].numpy()[seeking])


def test_tally_counts_who_is_nearest_to_how_many():
    a, b = Group("a", Box(1), Discrete(2), 3), Group("b", Box(1), Discrete(2), 4)
    x = {"a": [0.0, 5.0, 10.0], "b": [1.0, 2.0, 9.0, 5.5]}
    which = [True, True, False, True]
    compiled = {g: LLVM.Float(v * 2) for g, v in x.items()}
    dr.make_opaque(compiled)
    tally = nearest(b, [a], [compiled]).tally(a, LLVM.Bool(which * 2))
    assert tally.numpy().tolist() == [2, 1, 0] * 2
    plain = {g: SCALAR.Float(v) for g, v in x.items()}
    assert list(nearest(b, [a], [plain]).tally(a, SCALAR.Bool(which))) == [2, 1, 0]
    with pytest.raises(ValueError, match="among that group alone"):
        nearest(b, [a, b], [compiled]).tally(a, LLVM.Bool(which * 2))


@pytest.mark.parametrize("search", ["cells", "all"])
def test_a_restricted_search_is_right_where_it_was_asked_for(search, monkeypatch):
    through(search, monkeypatch)
    a = Group("a", Box(1), Discrete(2), 9)
    x = np.random.default_rng(1).random((2, 18)).astype(np.float32)
    place = [{"a": LLVM.Float(v)} for v in x]
    asked = np.repeat([True, False], 9)
    flags = LLVM.Bool(asked)
    dr.make_opaque(place, flags)
    full = nearest(a, [a], place).number[0].numpy()
    with searching_only({"a": flags}):
        restricted = nearest(a, [a], place).number[0].numpy()
    np.testing.assert_array_equal(restricted[asked], full[asked])


def test_a_neighbour_beyond_the_edge_of_a_torus_is_near():
    a = Group("a", Box(1), Discrete(2), 3)
    x, y = [0.1, 9.9, 5.0], [1.0, 1.0, 1.0]
    for types in (LLVM, SCALAR):
        place = [{"a": types.Float(x)}, {"a": types.Float(y)}]
        open_field, torus = nearest(a, [a], place), nearest(a, [a], place, torus=(10.0, None))
        assert list(open_field.number[0])[:2] == [2, 2]
        assert list(torus.number[0])[:2] == [1, 0]
        np.testing.assert_allclose(list(torus.distance2[0])[:2], 0.04, rtol=1e-4)
        away = [shortest(other - own, 10.0) for own, other in zip(x, list(torus.of(place[0])[0]))]
        np.testing.assert_allclose(away[:2], [-0.2, 0.2], rtol=1e-4)


@pytest.mark.parametrize("torus", [(1.0,), (1.0, 0.0), (1.0, -2.0), (1.0, float("inf")), (1.0, float("nan")), ()])
def test_a_torus_has_a_size_for_each_axis(torus):
    a = Group("a", Box(1), Discrete(2), 2)
    place = [{"a": LLVM.Float(0, 1)}] * 2
    with pytest.raises(ValueError, match=r"torus needs a positive size \(or None\) for each of 2 axes, got"):
        nearest(a, [a], place, torus=torus)


@pytest.mark.parametrize("k", [0, -1])
def test_at_least_one_neighbour_must_be_asked_for(k):
    a = Group("a", Box(1), Discrete(2), 2)
    with pytest.raises(ValueError, match=f"at least 1, got k={k}"):
        nearest(a, [a], [{"a": LLVM.Float(0, 1)}], k)
