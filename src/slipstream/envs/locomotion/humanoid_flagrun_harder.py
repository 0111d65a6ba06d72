"""The humanoid of Liang et al. 2018 that gets up, is pushed, and runs from flag to flag."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import drjit as dr

from slipstream import physics
from slipstream.envs.env import Bool, Int
from slipstream.envs.locomotion.humanoid_flagrun import FlagState, HumanoidFlagrun
from slipstream.random import Rng

CHEST_SHARE, PELVIS_SHARE = 0.7, 0.3
TOP_REWARD = 2.5
"""What a step on its feet earns."""
GETTING_UP = 100.0
LYING_COST_SHARE = 0.2
"""Of the energy costs, while the robot is down."""
FIRM_STAND = 30
"""Steps on its feet after which a robot that began down counts as having got up."""

CLEARANCE = 0.01
"""How far over the ground the lowest part of a robot begins, in metres."""
WALKING = {"right_hip_y": -40, "right_knee": -30, "left_hip_y": 10, "left_knee": -20}
CROUCHING = {"right_hip_y": -105, "right_knee": -130, "left_hip_y": -105, "left_knee": -130}
"""Joints of two starts in degrees, those that are not as in a robot that stands."""
CROUCHING_LEAN = 0.6
WALKING_SPEED = (0.5, 2.0)
LYING_NOISE, NOISE = 0.3, 0.1


@dataclass
class HarderState(FlagState):
    """A robot that may have to get up, in every world."""

    ground: Int = 0
    """Steps on the ground, less those since it stands again."""
    stood: Int = 0
    """Steps on its feet in the episode."""
    began_down: Bool = False


class HumanoidFlagrunHarder(HumanoidFlagrun):
    """Get up from the ground, withstand pushes, and run from flag to flag.

    `humanoid_flagrun_harder` of Liang et al. 2018.
    """

    state_type = HarderState

    def __init__(
        self,
        *,
        full_height: float = 1.0,
        ground_steps: int = 170,
        random_push: float = 0.5,
        push_interval: float = 5.0,
        **runner: Any,
    ):
        """Args:
        full_height: 0.7 x the height of the torso + 0.3 x that of the pelvis from which on the robot stands.
        ground_steps: the episode ends after so many steps on the ground.
        random_push: pushes make the robot so much faster, in m/s, in a random horizontal direction.
        push_interval: seconds between two pushes, in the mean.
        """
        self.full_height, self.ground_steps = full_height, ground_steps
        super().__init__(random_push=random_push, push_interval=push_interval, **runner)

    # How an episode begins.

    def reset(self, rng):
        kind = rng.integer(9)
        walks, rises, lies = (kind >= 1) & (kind < 3), (kind >= 3) & (kind < 5), kind >= 5
        joints = self.start_joints(rng, walks, rises, lies)
        turn = dr.select(lies, rng.uniform(-math.pi, math.pi), 0.0)
        lean = dr.select(lies, 0.5 * math.pi, dr.select(rises, CROUCHING_LEAN, 0.0))
        qpos = self.on_ground([0.0, 0.0, 0.0, *_leaning(lean, turn), *joints])
        speed = dr.select(walks, rng.uniform(*WALKING_SPEED), 0.0)
        return self.start_state(qpos, [speed, *[0.0] * (self.model.nv - 1)], rng)

    def start_joints(self, rng: Rng, walks: Any, rises: Any, lies: Any) -> list[Any]:
        """The angles of all joints: plain, or those of a walk, a crouch or a fall."""
        noise = dr.select(lies, LYING_NOISE, NOISE)
        mirrored = rng.chance(0.5)
        depth = rng.uniform(0.3, 1.0)
        joints = []
        for joint in self.hinges:
            left, right = (math.radians(WALKING.get(joint.name, 0)), math.radians(WALKING.get(_mirror(joint.name), 0)))
            angle = dr.select(walks, dr.select(mirrored, right, left), joint.reference[0])
            angle = dr.select(rises, depth * math.radians(CROUCHING.get(joint.name, 0)), angle)
            joints.append(dr.clip(angle + noise * rng.uniform(-1.0, 1.0), *joint.range))
        return joints

    def on_ground(self, qpos: Sequence[Any]) -> list[Any]:
        """The same pose at the height where its lowest part is just over the ground."""
        low = physics.clearance(self.model, physics.pose(self.model, qpos), self.start_terrain(qpos))
        return [*qpos[:2], qpos[2] - low + CLEARANCE, *qpos[3:]]

    def start_state(self, qpos: Sequence[Any], qvel: Sequence[Any], rng: Rng | None = None) -> Any:
        state = super().start_state(qpos, qvel, rng)
        return replace(state, began_down=self.is_down(state))

    # A step.

    def move(self, state, action, rng):
        after = super().move(state, action, rng)
        down = self.is_down(after)
        return replace(
            after,
            ground=dr.select(down, state.ground + 1, dr.maximum(state.ground - 1, 0)),
            stood=state.stood + dr.select(down, 0, 1),
        )

    def is_alive(self, state):
        return state.ground < self.ground_steps

    def standing_height(self, state):
        """How high the upper body is over the ground, at most `full_height`."""
        chest, pelvis = self.height(state), self.over_ground(state, self.body_place(state, "pelvis"))
        return dr.clip(CHEST_SHARE * chest + PELVIS_SHARE * pelvis, 0.0, self.full_height)

    def body_place(self, state, name):
        return physics.body_position(self.model, physics.pose(self.model, state.qpos), self.model.body(name))

    def is_down(self, state):
        return self.standing_height(state) < self.full_height

    # Terms of the reward.

    def rewards(self, before, after, alive):
        return super().rewards(before, after, alive) | {"getting_up": self.getting_up_reward(before, after)}

    def lift(self, state):
        """L: what standing so high earns per step."""
        return TOP_REWARD / self.full_height * self.standing_height(state)

    def alive_reward(self, state, alive):
        return dr.select(alive, self.lift(state), -1.0)

    def getting_up_reward(self, before, after):
        return GETTING_UP * (self.lift(after) - self.lift(before))

    def progress(self, before, after):
        """Towards the flag, on its feet: crawling earns nothing."""
        return dr.select(self.is_down(after), 0.0, super().progress(before, after))

    def energy_cost(self, state):
        return self.eased(state, super().energy_cost(state))

    def effort_cost(self, state):
        return self.eased(state, super().effort_cost(state))

    def eased(self, state, cost):
        return dr.select(self.is_down(state), LYING_COST_SHARE, 1.0) * cost

    def report(self, state):
        got_up = state.began_down & (state.stood >= FIRM_STAND)
        return super().report(state) | {
            "began_down": dr.select(state.began_down, 1.0, 0.0),
            "got_up": dr.select(got_up, 1.0, 0.0),
            "got_up_and_reached_a_flag": dr.select(got_up & (state.reached > 0), 1.0, 0.0),
            "time_upright": state.stood / dr.maximum(1.0 * state.step, 1.0),
        }


def _leaning(lean: Any, turn: Any) -> tuple:
    """The quaternion of a body turned about its own axis, then leaning forwards."""
    (sl, cl), (st, ct) = dr.sincos(0.5 * lean), dr.sincos(0.5 * turn)
    return cl * ct, sl * st, sl * ct, cl * st


def _mirror(name: str) -> str:
    """The joint on the other side."""
    left, right = name.replace("left", "right"), name.replace("right", "left")
    return left if left != name else right
