"""Spaces are checked when they are made."""

import numpy as np
import pytest

from slipstream.spaces import Box, Discrete, MultiDiscrete, describe, from_json, to_json


@pytest.mark.parametrize("count", [0, -1, 2.0, True, "3"])
@pytest.mark.parametrize("make", [Box, Discrete, lambda n: MultiDiscrete((2, n))])
def test_counts_must_be_positive_whole_numbers(make, count):
    with pytest.raises(ValueError, match="positive whole number"):
        make(count)


def test_bounds_are_one_for_each_component():
    box = Box(3, (-1.0, -2.0, -3.0), 5.0)
    np.testing.assert_array_equal(box.lows, [-1, -2, -3])
    np.testing.assert_array_equal(box.highs, [5, 5, 5])
    with pytest.raises(ValueError, match="2 bounds for 3 components"):
        Box(3, (0.0, 1.0), 2.0)


def test_bounds_must_be_in_order():
    with pytest.raises(ValueError, match="low must be below high"):
        Box(1, 1.0, 1.0)


def test_a_box_is_bounded_only_on_all_sides():
    assert Box(2, -1.0, 1.0).bounded
    assert not Box(2, (-1.0, -float("inf")), 1.0).bounded
    assert not Box(2).bounded


def test_empty_multi_discrete_is_refused():
    with pytest.raises(ValueError, match="at least one component"):
        MultiDiscrete(())


def test_descriptions_are_short():
    spaces = [Box(4), Box(2, -2.0, 2.0), Discrete(5), MultiDiscrete((11, 3))]
    expected = ["Box(4)", "Box(2, -2 .. 2)", "Discrete(5)", "MultiDiscrete(11, 3)"]
    assert [describe(s) for s in spaces] == expected


def test_a_picture_is_bytes_of_its_height_width_and_channels():
    picture = Box(24, 0.0, 255.0, image=(2, 3, 4))
    assert describe(picture) == "Image(2, 3, 4)"
    assert from_json(to_json(picture)) == picture
    for size, high in ((23, 255.0), (24, 1.0)):
        with pytest.raises(ValueError, match="24 bytes"):
            Box(size, 0.0, high, image=(2, 3, 4))
