"""Shapes become pixels: where they are, in their colours, with smooth edges."""

import numpy as np
import pytest

from slipstream.envs.drawing import (
    BLUE,
    GREEN,
    INK,
    PAPER,
    RED,
    Circle,
    Line,
    Picture,
    Polygon,
    Text,
    placed,
    rectangle,
)
from slipstream.training.painting import Painter


def rgb(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def paint(*shapes, bounds=(0.0, 0.0, 4.0, 2.0), width=80, height=40) -> np.ndarray:
    return Painter(width, height).paint(Picture(shapes, bounds))


def test_x_goes_right_and_y_goes_up():
    frame = paint(rectangle(3.0, 1.0, 4.0, 2.0, RED))
    assert frame.shape == (40, 80, 3) and frame.dtype == np.uint8
    assert frame[10, 70].tolist() == rgb(RED)
    assert all(frame[y, x].tolist() == rgb(PAPER) for y, x in ((30, 70), (10, 10), (30, 10)))


def test_all_shapes_are_painted_in_their_order():
    shapes = (
        rectangle(0.0, 0.0, 4.0, 2.0, GREEN),
        Circle((1.0, 1.0), 0.5, BLUE),
        Line(((2.0, 0.5), (2.0, 1.5)), 0.2, RED),
        Polygon(((3.0, 0.5), (4.0, 0.5), (3.5, 1.5)), INK),
    )
    frame = paint(*shapes)
    found = [frame[20, x].tolist() for x in (20, 40, 70, 2)]
    assert found == [rgb(BLUE), rgb(RED), rgb(INK), rgb(GREEN)]


def test_text_is_as_high_as_asked_and_where_it_is_aligned():
    for align, columns in (("left", slice(40, 80)), ("right", slice(0, 40))):
        written = np.any(paint(Text((2.0, 1.0), "III", 1.0, INK, align)) != rgb(PAPER), axis=2)
        assert written.sum() == written[:, columns].sum() > 0
        assert 10 <= np.flatnonzero(written.any(axis=1)).size <= 22  # capitals of a line 20 pixels high


def test_edges_are_smooth():
    colours = np.unique(paint(Circle((2.0, 1.0), 0.7, INK)).reshape(-1, 3), axis=0)
    assert len(colours) > 5


@pytest.mark.parametrize(("width", "height"), [(80, 80), (160, 40)])
def test_bounds_are_seen_whole_and_undistorted_in_a_frame_of_another_form(width, height):
    frame = paint(Circle((2.0, 1.0), 1.0, RED), width=width, height=height)
    red = np.all(frame == rgb(RED), axis=2)
    high, wide = (np.flatnonzero(red.any(axis=axis)) for axis in (1, 0))
    assert abs(high.size - 40) <= 2 and abs(wide.size - 40) <= 2
    assert abs(high.mean() - height / 2) <= 1 and abs(wide.mean() - width / 2) <= 1


def test_a_small_drawing_is_scaled_turned_and_moved():
    (point,) = placed([(1.0, 0.0)], (2.0, 1.0), np.pi / 2, 0.5)
    assert point == pytest.approx((2.0, 1.5))


def test_bounds_that_enclose_nothing_are_refused():
    with pytest.raises(ValueError, match=r"left, bottom, right, top; got \(0, 0, 0, 1\)"):
        Picture([], (0, 0, 0, 1))


def test_what_is_no_shape_is_refused():
    with pytest.raises(TypeError, match="a shape of type str"):
        paint("circle")
