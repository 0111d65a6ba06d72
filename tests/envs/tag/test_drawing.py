"""Pictures of Tag tell taggers from runners, and who has left the game."""

import numpy as np

from slipstream.envs import Worlds
from slipstream.envs.drawing import BLUE, GREY, RED, Circle, Polygon, Text
from slipstream.envs.registry import make_env


def picture(name, options, **fields):
    env = make_env(name, **options)
    worlds = Worlds(env, 1, backend="scalar")
    worlds.set_state(**fields)
    return env.draw(worlds.get_state()).shapes


def middle(shape: Polygon) -> tuple[float, ...]:
    return tuple(np.mean(np.array(shape.points)[[0, 1, 3]], axis=0).round(1).tolist())


def test_runners_that_have_left_are_grey():
    shapes = picture(
        "tag-continuous",
        {"num_taggers": 1, "num_runners": 3},
        loc_x=[5.0, 1.0, 2.0, 3.0],
        loc_y=[5.0, 8.0, 8.0, 8.0],
        still_in_game=[True, True, False, True],
    )
    darts = {
        colour: [middle(s) for s in shapes if isinstance(s, Polygon) and s.colour == colour] for colour in (RED, BLUE)
    }
    assert darts == {RED: [(5.0, 5.0)], BLUE: [(1.0, 8.0), (3.0, 8.0)]}
    assert [s.centre for s in shapes if isinstance(s, Circle) and s.colour == GREY] == [(2.0, 8.0)]
    assert "2 of 3 runners left" in [s.text for s in shapes if isinstance(s, Text)]


def test_taggers_on_one_square_are_counted():
    shapes = picture(
        "tag-gridworld", {"num_taggers": 3, "grid_length": 4}, loc_x=[1, 1, 2, 4], loc_y=[3, 3, 0, 4], step=[7]
    )
    discs = {
        colour: [s.centre for s in shapes if isinstance(s, Circle) and s.colour == colour] for colour in (RED, BLUE)
    }
    assert discs == {RED: [(1, 3), (2, 0)], BLUE: [(4, 4)]}
    assert [(s.place, s.text) for s in shapes if isinstance(s, Text)][:1] == [((1, 3), "2")]
    assert any(s.text == "step 7" for s in shapes if isinstance(s, Text))
