"""What a world says of who is in the game."""

from dataclasses import dataclass

import pytest

from slipstream.envs.env import Env, Float, Group
from slipstream.envs.transition import RulesError
from slipstream.envs.worlds import Worlds
from slipstream.spaces import Box, Discrete


@dataclass
class Nothing:
    dummy: Float


class HalfSaid(Env):
    """Says of one of its two groups only who is active."""

    groups = (Group("a", Box(1), Discrete(2)), Group("b", Box(1), Discrete(2)))

    def reset(self, rng):
        return Nothing(rng.uniform())

    def step(self, state, action, rng):
        return state, {"a": 0.0, "b": 0.0}, False

    def observe(self, state):
        return {"a": (state.dummy,), "b": (state.dummy,)}

    def active(self, state):
        return {"a": state.dummy > 0.5}


@pytest.mark.parametrize("backend", ["llvm", "scalar"])
def test_a_world_that_says_of_some_groups_only_who_is_active_is_told_so(backend):
    with pytest.raises(RulesError, match="says nothing of group b"):
        Worlds(HalfSaid(), 4, backend=backend).observe()
