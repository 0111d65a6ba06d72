"""How a runner begins, when it is down, and what that means for its rewards."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import drjit as dr

from slipstream import physics
from slipstream.random import Rng

if TYPE_CHECKING:  # a runner has a posture
    from slipstream.envs.locomotion.runner import Runner

START_NOISE = 0.1
"""How far joints are off when an episode begins, in radians."""
CHEST_SHARE, PELVIS_SHARE = 0.7, 0.3
TOP_REWARD = 2.5
"""What a step on its feet earns a robot that may have to get up."""
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
LYING_NOISE = 0.3


class OnItsFeet:
    """It begins on its feet, and a fall is the end."""

    terms: tuple[str, ...] = ()
    """Rewards beyond those of every runner."""

    def start(self, runner: Runner, rng: Rng) -> tuple[list[Any], list[Any]]:
        """Coordinates and velocities: facing along x, every joint a little off but within its limits."""
        joints = [
            dr.clip(angle + rng.uniform(-START_NOISE, START_NOISE), *joint.range)
            for angle, joint in zip(runner.rest_angles(), runner.hinges)
        ]
        return [0.0, 0.0, runner.start_height, 1.0, 0.0, 0.0, 0.0, *joints], [0.0] * runner.model.nv

    def begin(self, runner: Runner, state: Any) -> Any:
        """The first state of an episode, with what is kept of the posture."""
        return state

    def after(self, runner: Runner, before: Any, after: Any) -> Any:
        """The state after a step, with what is kept of the posture."""
        return after

    def is_alive(self, runner: Runner, state: Any) -> Any:
        return runner.height(state) > runner.alive_height

    def rewards(self, runner: Runner, before: Any, after: Any, alive: Any, usual: dict[str, Any]) -> dict[str, Any]:
        """What a step earns, and for what.

        Args:
            usual: what it earns a robot that is always on its feet.
        """
        return usual

    def report(self, runner: Runner, state: Any) -> Mapping[str, Any]:
        """What an episode tells of it."""
        return {}


@dataclass(frozen=True)
class GettingUp(OnItsFeet):
    """It begins standing, walking, crouching or lying, and has some time to get up.

    Attributes:
        full_height: 0.7 x the height of the torso + 0.3 x that of the pelvis from which on the robot stands.
        ground_steps: the episode ends after so many steps on the ground.
    """

    full_height: float
    ground_steps: int

    terms = ("getting_up",)

    def start(self, runner: Runner, rng: Rng) -> tuple[list[Any], list[Any]]:
        kind = rng.integer(9)
        walks, rises, lies = (kind >= 1) & (kind < 3), (kind >= 3) & (kind < 5), kind >= 5
        joints = self._joints(runner, rng, walks, rises, lies)
        turn = dr.select(lies, rng.uniform(-math.pi, math.pi), 0.0)
        lean = dr.select(lies, 0.5 * math.pi, dr.select(rises, CROUCHING_LEAN, 0.0))
        qpos = [0.0, 0.0, 0.0, *_leaning(lean, turn), *joints]
        low = physics.clearance(runner.model, physics.pose(runner.model, qpos), runner.start_terrain(qpos))
        qpos[2] = qpos[2] - low + CLEARANCE
        speed = dr.select(walks, rng.uniform(*WALKING_SPEED), 0.0)
        return qpos, [speed, *[0.0] * (runner.model.nv - 1)]

    def _joints(self, runner: Runner, rng: Rng, walks: Any, rises: Any, lies: Any) -> list[Any]:
        """The angles of all joints: plain, or those of a walk, a crouch or a fall."""
        noise = dr.select(lies, LYING_NOISE, START_NOISE)
        mirrored = rng.chance(0.5)
        depth = rng.uniform(0.3, 1.0)
        joints = []
        for joint in runner.hinges:
            left, right = (math.radians(WALKING.get(joint.name, 0)), math.radians(WALKING.get(_mirror(joint.name), 0)))
            angle = dr.select(walks, dr.select(mirrored, right, left), joint.reference[0])
            angle = dr.select(rises, depth * math.radians(CROUCHING.get(joint.name, 0)), angle)
            joints.append(dr.clip(angle + noise * rng.uniform(-1.0, 1.0), *joint.range))
        return joints

    def begin(self, runner: Runner, state: Any) -> Any:
        return replace(state, ground=0, stood=0, began_down=self.is_down(runner, state))

    def after(self, runner: Runner, before: Any, after: Any) -> Any:
        down = self.is_down(runner, after)
        return replace(
            after,
            ground=dr.select(down, before.ground + 1, dr.maximum(before.ground - 1, 0)),
            stood=before.stood + dr.select(down, 0, 1),
        )

    def is_alive(self, runner: Runner, state: Any) -> Any:
        return state.ground < self.ground_steps

    def standing_height(self, runner: Runner, state: Any) -> Any:
        """How high the upper body is over the ground, at most `full_height`."""
        where = physics.pose(runner.model, state.qpos)
        pelvis = physics.body_position(runner.model, where, runner.model.body("pelvis"))
        low, high = runner.over_ground(state, pelvis), runner.height(state)
        return dr.clip(CHEST_SHARE * high + PELVIS_SHARE * low, 0.0, self.full_height)

    def is_down(self, runner: Runner, state: Any) -> Any:
        return self.standing_height(runner, state) < self.full_height

    def _lift(self, runner: Runner, state: Any) -> Any:
        """L: what standing so high earns per step."""
        return TOP_REWARD / self.full_height * self.standing_height(runner, state)

    def rewards(self, runner: Runner, before: Any, after: Any, alive: Any, usual: dict[str, Any]) -> dict[str, Any]:
        """Crawling earns nothing, and getting up may cost energy."""
        down, lift = self.is_down(runner, after), self._lift(runner, after)
        ease = dr.select(down, LYING_COST_SHARE, 1.0)
        return usual | {
            "progress": dr.select(down, 0.0, usual["progress"]),
            "alive": dr.select(alive, lift, -1.0),
            "energy": ease * usual["energy"],
            "effort": ease * usual["effort"],
            "getting_up": GETTING_UP * (lift - self._lift(runner, before)),
        }

    def report(self, runner: Runner, state: Any) -> Mapping[str, Any]:
        got_up = state.began_down & (state.stood >= FIRM_STAND)
        has_flags = not isinstance(state.reached, tuple)
        went_on = {"got_up_and_reached_a_flag": dr.select(got_up & (state.reached > 0), 1.0, 0.0)} if has_flags else {}
        return {
            "began_down": dr.select(state.began_down, 1.0, 0.0),
            "got_up": dr.select(got_up, 1.0, 0.0),
            **went_on,
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
