"""The humanoid of Liang et al. 2018 that runs from flag to flag."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import drjit as dr

from slipstream.envs.env import Int
from slipstream.envs.locomotion.humanoid_run import HumanoidRun
from slipstream.envs.locomotion.runner import RunnerState, length
from slipstream.random import Rng

NEAREST_FLAG = 2.0
"""How far away a new flag is at least, in metres."""


@dataclass
class FlagState(RunnerState):
    """A robot that runs from flag to flag, in every world."""

    waited: Int = 0
    """Steps since the flag was put where it is."""
    reached: Int = 0
    """Flags reached in the episode."""


class HumanoidFlagrun(HumanoidRun):
    """Run to a flag that moves when it is reached, or after three seconds.

    `humanoid_flagrun` of Liang et al. 2018: `humanoid-run` whose target is anywhere around the robot.
    """

    state_type = FlagState
    touching = ("right_shin1", "left_shin1", "right_hand", "left_hand")

    def __init__(
        self,
        *,
        flag_distance: float = 40.0,
        flag_steps: int = 180,
        flag_radius: float = 1.0,
        **runner: Any,
    ):
        """Args:
        flag_distance: how far away a new flag is at most, in metres.
        flag_steps: after so many steps a flag that was not reached moves.
        flag_radius: nearer than this it is reached.
        """
        if flag_distance <= NEAREST_FLAG:
            raise ValueError(f"flag_distance must be more than {NEAREST_FLAG} m, got {flag_distance}.")
        self.flag_distance, self.flag_steps, self.flag_radius = flag_distance, flag_steps, flag_radius
        super().__init__(**runner)

    def first_target(self, rng: Rng | None) -> tuple:
        return (self.flag_distance, 0.0) if rng is None else self.new_flag(rng, (0.0, 0.0))

    def new_flag(self, rng: Rng, place: Sequence[Any]) -> tuple:
        """In any direction from a place, and at any distance."""
        sin, cos = dr.sincos(rng.uniform(-math.pi, math.pi))
        distance = rng.uniform(NEAREST_FLAG, self.flag_distance)
        return place[0] + distance * cos, place[1] + distance * sin

    def retarget(self, state, rng):
        reached = length(self.to_target(state)) < self.flag_radius
        waited = state.waited + 1
        moves = reached | (waited >= self.flag_steps)
        flag = self.new_flag(rng, state.qpos[:2])
        return replace(
            state,
            target=tuple(dr.select(moves, new, old) for new, old in zip(flag, state.target)),
            waited=dr.select(moves, 0, waited),
            reached=state.reached + dr.select(reached, 1, 0),
        )

    def report(self, state):
        return {"flags": 1.0 * state.reached, "reached_a_flag": dr.select(state.reached > 0, 1.0, 0.0)}
