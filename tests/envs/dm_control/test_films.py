"""The suite's worlds can be filmed, their targets included."""

from contextlib import closing

import numpy as np
import pytest

from slipstream.envs import Worlds
from slipstream.envs.registry import make_env
from slipstream.training.world_film import make_film


@pytest.mark.parametrize("name", ["dm-pendulum-swingup", "dm-reacher-easy"])
def test_a_film_shows_what_moves(name):
    env = make_env(name)
    worlds = Worlds(env, 1, seed=1, backend="scalar")
    states = [worlds.get_state()]
    for _ in range(10):
        worlds.step(np.ones((env.model.nu, 1), np.float32))
        states.append(worlds.get_state())
    with closing(make_film(env, states, 96, 64)) as film:
        assert (film.frame(0) != film.frame(len(film) - 1)).any()


def test_a_target_is_shown_where_it_is():
    env = make_env("dm-finger-turn-hard")
    state = Worlds(env, 1, seed=4, backend="scalar").get_state()
    env.show(state)
    assert env.model.mujoco.site("target").pos[[0, 2]] == pytest.approx(state["goal"][:, 0])
