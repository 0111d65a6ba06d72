"""Pictures as solids: every shape covers what it covers in the picture."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.envs.drawing import Circle, Line, Picture, Polygon, Text, rectangle
from slipstream.studio.solids import Frame, Solids, add_picture, cut_off, outlines, triangulated

FLAT = Frame(np.zeros(3), np.eye(3)[0], np.eye(3)[1], np.eye(3)[2], np.zeros(2), 1.0)


def area(outline: np.ndarray) -> float:
    """By the shoelace formula."""
    x, y = outline.T
    return 0.5 * float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y))


@given(st.lists(st.floats(0.3, 1.0), min_size=4, max_size=12))
@settings(max_examples=60, deadline=None)
def test_triangles_fill_a_star_exactly(radii):
    angles = np.linspace(0.0, 2.0 * math.pi, len(radii), endpoint=False)
    outline = np.stack([np.array(radii) * np.cos(angles), np.array(radii) * np.sin(angles)], -1)
    triangles = [area(outline[t]) for t in triangulated(outline)]
    assert len(triangles) == len(radii) - 2
    assert min(triangles) > -1e-9 and sum(triangles) == pytest.approx(area(outline))


@pytest.mark.parametrize(
    ("shape", "covered"),
    [
        (Circle((1.0, 2.0), 0.5), math.pi * 0.25),
        (rectangle(0.0, 0.0, 2.0, 3.0), 6.0),
        (Polygon(((0.0, 0.0), (0.0, 1.0), (1.0, 0.0))), 0.5),
        (Line(((0.0, 0.0), (4.0, 0.0)), 0.1), 0.4 + math.pi * 0.1**2 / 2.0),
    ],
)
def test_a_shape_covers_what_it_says(shape, covered):
    assert sum(area(outline) for outline in outlines(shape)) == pytest.approx(covered, rel=0.03)


def test_what_is_drawn_later_is_in_front_and_texts_are_apart():
    shapes = [Circle((0.0, 0.0), 0.5, "#111111"), Text((0.1, 0.2), "hello", 0.1), Circle((0.0, 0.0), 0.2, "#222222")]
    solids = Solids()
    ((text, place),) = add_picture(solids, Picture(shapes, (-1.0, -1.0, 1.0, 1.0), "#ffffff"), FLAT)
    meshes = solids.meshes()
    assert text.text == "hello" and place[:2].tolist() == [0.1, 0.2]
    heights = [meshes[colour][0][:, 2].max() for colour in ("#ffffff", "#111111", "#222222")]
    assert heights == sorted(heights) and len(set(heights)) == 3


BOUNDS = (-1.0, -1.0, 1.0, 1.0)


def test_what_reaches_beyond_the_picture_is_cut_off():
    hill = np.array([(-2.0, -5.0), (2.0, -5.0), (2.0, 0.5), (0.0, -0.5), (-2.0, 0.5)])
    seen = cut_off(hill, BOUNDS)
    assert (np.abs(seen) <= 1.0).all() and area(seen) == pytest.approx(1.5)
    assert sum(area(seen[t]) for t in triangulated(seen)) == pytest.approx(1.5)
    inside = 0.5 * hill / 5.0
    assert cut_off(inside, BOUNDS) is inside
    assert len(cut_off(hill + 7.0, BOUNDS)) == 0


@given(st.floats(-1.5, 1.5), st.floats(-1.5, 1.5), st.floats(0.1, 1.0))
@settings(max_examples=60, deadline=None)
def test_a_rectangle_loses_exactly_what_is_outside(x, y, half):
    square = np.array([(x - half, y - half), (x + half, y - half), (x + half, y + half), (x - half, y + half)])
    wide, high = (max(min(c + half, 1.0) - max(c - half, -1.0), 0.0) for c in (x, y))
    seen = cut_off(square, BOUNDS)
    assert (area(seen) if len(seen) > 2 else 0.0) == pytest.approx(wide * high, abs=1e-9)


def test_a_shape_that_is_none_is_named():
    with pytest.raises(TypeError, match="shape of type str"):
        outlines("circle")  # type: ignore[arg-type]
