"""What a world carries from one episode to the next, and tables that its rules read."""

from dataclasses import dataclass, replace

import drjit as dr
import numpy as np
import pytest

from slipstream.envs import Env, Float, Group, Int, Worlds
from slipstream.envs.check import check
from slipstream.spaces import Box, Discrete

STEPS = [3.0, 5.0, 7.0]


@dataclass
class Climb:
    x: Float
    level: Int
    step: Int = 0


class Climber(Env):
    """Go up a stair whose steps are in a table; an episode that got beyond 9 begins one step further up."""

    groups = (Group("climber", Box(2), Discrete(2)),)
    max_steps = 4

    def tables(self, types):
        self.steps = types.Float(STEPS) if types.compiled else STEPS
        return [self.steps] if types.compiled else []

    def height(self, level):
        if isinstance(level, int):
            return self.steps[level]
        return dr.gather(type(self.steps), self.steps, dr.uint32_array_t(type(level))(level))

    def reset(self, rng):
        return Climb(rng.uniform(0.0, 1.0), 0)

    def next_episode(self, ended, fresh):
        return replace(fresh, level=dr.minimum(ended.level + dr.select(ended.x > 9.0, 1, 0), 2))

    def step(self, state, action, rng):
        return replace(state, x=state.x + self.height(state.level)), 0.0, False

    def observe(self, state):
        return state.x, self.height(state.level)


@pytest.mark.parametrize("backend", ["llvm", "scalar"])
def test_an_episode_can_begin_where_the_last_one_led(backend):
    worlds = Worlds(Climber(), 4, backend=backend)
    for episode in range(3):
        assert (worlds.get_state()["level"] == min(episode, 2)).all()
        observed = np.asarray(worlds.observe())
        assert (observed[1] == STEPS[min(episode, 2)]).all()
        for _ in range(4):
            outcome = worlds.step(np.zeros(4, np.int32))
        assert (np.asarray(outcome.final_observation)[0] > 4 * STEPS[min(episode, 2)]).all()
        assert (np.asarray(outcome.observation)[0] < 1.0).all()
    worlds.reset()
    assert not worlds.get_state()["level"].any()


def test_worlds_with_other_tables_do_not_share_them():
    first = Worlds(Climber(), 4, backend="llvm")
    first.step(np.zeros(4, np.int32))
    STEPS[0] = 4.0
    try:
        second = Worlds(Climber(), 4, backend="llvm")
    finally:
        STEPS[0] = 3.0
    assert (np.asarray(second.step(np.zeros(4, np.int32)).observation)[1] == 4.0).all()
    assert (np.asarray(first.step(np.zeros(4, np.int32)).observation)[1] == 3.0).all()


def test_a_world_with_both_passes_every_check():
    assert [p for r in check(Climber, num_worlds=4, num_steps=10) for p in r.problems] == []
