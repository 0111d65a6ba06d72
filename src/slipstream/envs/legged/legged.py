"""Velocity tracking for any robot on legs."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import drjit as dr

from slipstream import physics
from slipstream.envs.env import Float, Int
from slipstream.envs.legged.anatomy import find_anatomy, with_yaw
from slipstream.envs.legged.command import Commands, Gait, walks
from slipstream.envs.legged.observation import Observation
from slipstream.envs.legged.rewards import Moment, earned, velocity, velocity_error
from slipstream.envs.legged.senses import Motion, sense
from slipstream.envs.legged.servos import REACH, floor_of, prepare
from slipstream.envs.locomotion.curriculum import Curriculum
from slipstream.envs.locomotion.robot import Robot, State
from slipstream.envs.locomotion.terrain import Ground, Uneven
from slipstream.random import Rng
from slipstream.spaces import Box

MODELS = Path(__file__).parent / "models"
"""Robots of our own, by the names of their files."""
EPISODE_STEPS = 1000
INNER = 0.9
"""A joint is near its limits outside this share of its range."""
SUCCESS, FAILURE = 0.75, 0.4
"""An episode that followed its commands for this share of the time limit (in the sense of the reward for velocity)
raises the level of a world; one with less than the other lowers it."""


@dataclass
class LeggedState(State):
    """A robot that is told where to go, in every world."""

    command: tuple[Float, ...] = ()
    """Velocities ahead and to the left in m/s, and turn in rad/s."""
    last: tuple[Float, ...] = ()
    """The previous action, nu."""
    phase: Float = 0.0
    """Of the gait, 0 .. 1."""
    missed: tuple[Float, ...] = ()
    """Sums over the episode of the errors of velocity and of turn."""
    noise: tuple[Float, ...] = ()
    """What is added to the features (with noise)."""
    seen: tuple[Float, ...] = ()
    """Earlier features, the newest first (with a history)."""


@dataclass
class UnevenState(LeggedState):
    """The same, on ground in levels."""

    level: Int = 0
    """How hard the ground is; kept from episode to episode."""
    variant: Int = 0
    """Which ground of that level."""
    covered: Float = 0.0
    """How well the commands were followed: the sum of a number in 0 .. 1 of each step."""


class Legged(Robot):
    """Walk as commanded, on any number of legs: a robot from its MJCF file.

    The command says how fast to go ahead and sideways and how fast to turn, and changes from time to time. Actions
    are joint angles around those of the home pose, for the robot's own servos, or for servos that its motors become.
    """

    max_steps = EPISODE_STEPS
    state_type = LeggedState
    file_options = ("model",)
    curriculum: Curriculum | None = None

    def __init__(
        self,
        model: str = "quadruped",
        *,
        control_time: float = 0.02,
        home: str | None = None,
        feet: str | None = None,
        action_scale: float = 0.5,
        stiffness: float | None = None,
        damping: float | None = None,
        max_ahead: float = 1.0,
        max_sideways: float = 0.5,
        max_turn: float = 1.0,
        command_time: float = 5.0,
        standing_share: float = 0.1,
        tracking_width: float = 0.4,
        gait_period: float | None = None,
        ground: Literal["flat", "rough", "stairs"] = "flat",
        start_level: int = 0,
        curriculum: bool = True,
        levels: int = 10,
        see_velocity: bool = True,
        observation_noise: float = 0.0,
        history: int = 0,
        fall_tilt: float = 60.0,
        fall_height: float = 0.5,
        contacts: Literal["feet", "all"] = "feet",
        velocity_reward_weight: float = 1.5,
        turn_reward_weight: float = 1.0,
        gait_reward_weight: float = 1.0,
        alive_reward_weight: float = 0.25,
        bounce_cost_weight: float = 0.5,
        wobble_cost_weight: float = 0.05,
        tilt_cost_weight: float = 2.0,
        effort_cost_weight: float = 0.2,
        jerk_cost_weight: float = 0.1,
        limit_cost_weight: float = 1.0,
        pose_cost_weight: float = 0.1,
        slip_cost_weight: float = 0.1,
        self_contacts: int = 0,
        **robot: Any,
    ):
        """Args:
        model: the path of an MJCF file, or `quadruped` or `biped` for a robot of our own.
        control_time: seconds between two actions.
        home: the keyframe it stands in; None: one named home or stand, else the first, else the default pose.
        feet: names of geoms or bodies, with commas between them; None: what is on the ground at home.
        action_scale: how far from home an action of 1 moves a joint, in radians.
        stiffness: of the servos, in Nm/rad; None: the file's own, and of motors their whole torque for 0.4 rad.
        damping: of the servos, in Nms/rad; None: the file's own, and of motors a fortieth of their stiffness.
        max_ahead: the fastest command, in m/s; backwards half of it.
        max_sideways: the fastest command to the side, in m/s.
        max_turn: the fastest command to turn, in rad/s.
        command_time: seconds after which there is a new command.
        standing_share: of all commands, how many are to stand.
        tracking_width: the error in m/s and rad/s at which tracking earns 1/e.
        gait_period: seconds in which each foot is lifted once; None: by the height of the base.
        ground: `flat` as in the file, or `rough` or with `stairs` in levels.
        start_level: the level of a world's first episode.
        curriculum: whether the level changes with success and failure.
        levels: how many there are; level 0 is flat.
        see_velocity: whether the robot knows its velocity over ground, which few sensors measure.
        observation_noise: how noisy the sensors are; 1 is usual for cheap ones.
        history: how many earlier observations are seen too.
        fall_tilt: the base has fallen beyond this angle, in degrees.
        fall_height: it has also fallen below this share of its height at home.
        velocity_reward_weight: for going as fast as commanded.
        turn_reward_weight: for turning as fast as commanded.
        gait_reward_weight: for lifting the feet by turns.
        alive_reward_weight: for not having fallen.
        bounce_cost_weight: of vertical speed, squared.
        wobble_cost_weight: of rolling and pitching, squared.
        tilt_cost_weight: of a base that is not level.
        effort_cost_weight: of torque, as a share of its limit, squared.
        jerk_cost_weight: of actions that change from step to step, squared.
        limit_cost_weight: of joints near their limits.
        pose_cost_weight: of joints away from home, squared.
        slip_cost_weight: of feet that slide, squared.
        contacts: what of the robot meets the ground: its feet alone, which is faster, or all that the file says.
        self_contacts: how many contacts a robot can have with itself at once. 0: its parts pass through each other.
        """
        self.tracking_width = tracking_width
        self.home, self.foot_names = home, tuple(filter(None, (feet or "").replace(" ", "").split(",")))
        self.action_scale, self.stiffness, self.damping = action_scale, stiffness, damping
        self.contacts = contacts
        self.observation = Observation(see_velocity, observation_noise, history)
        self.fall_cosine, self.fall_height = math.cos(math.radians(fall_tilt)), fall_height
        self.weights = {
            "velocity": velocity_reward_weight,
            "turn": turn_reward_weight,
            "gait": gait_reward_weight,
            "alive": alive_reward_weight,
            "bounce": bounce_cost_weight,
            "wobble": wobble_cost_weight,
            "tilt": tilt_cost_weight,
            "effort": effort_cost_weight,
            "jerk": jerk_cost_weight,
            "limit": limit_cost_weight,
            "pose": pose_cost_weight,
            "slip": slip_cost_weight,
        }
        self.terms = tuple(name for name, weight in self.weights.items() if weight)
        self._check(
            {
                "control_time": control_time,
                "command_time": command_time,
                "action_scale": action_scale,
                "tracking_width": tracking_width,
                "gait_period": gait_period,
                "stiffness": stiffness,
                "levels": levels,
                "fall_tilt": fall_tilt,
            },
            {
                "damping": damping,
                "max_ahead": max_ahead,
                "max_sideways": max_sideways,
                "max_turn": max_turn,
                "observation_noise": observation_noise,
                "history": history,
                "fall_height": fall_height,
            },
        )
        if not 0 <= standing_share <= 1:
            raise ValueError(f"standing_share must be within 0 .. 1, got {standing_share}.")
        if ground != "flat":
            reach = max(8.0, 1.2 * max_ahead * EPISODE_STEPS * control_time / 2)
            self.uneven = Uneven(Ground(levels, half_size=round(reach, 1), spacing=0.1, shape=ground, pad=0.5))
            bounds = (SUCCESS * EPISODE_STEPS, FAILURE * EPISODE_STEPS)
            self.curriculum = Curriculum(self.uneven, start_level, curriculum, *bounds)
            self.state_type = UnevenState
        own = MODELS / f"{model}.xml"
        super().__init__(str(own if own.is_file() else model), 1, self_contacts=self_contacts, **robot)
        self.frame_skip = max(1, round(control_time / self.model.options.timestep))
        self.time_step = self.playback_step = self.model.options.timestep * self.frame_skip
        steps = max(1, round(command_time / self.time_step))
        self.commands = Commands(max_ahead, max_sideways, max_turn, steps, standing_share)
        self.gait = Gait.of(len(self.anatomy.feet), self.anatomy.height, gait_period)
        (group,) = self.groups
        self.groups = (replace(group, action=Box(self.model.nu, -1.0, 1.0)),)
        self.notes = (
            f"{Path(model).name}: {self.anatomy.describe(self.model)}; an action every {self.time_step:g} s.",
        )

    def _check(self, positive: Mapping[str, float | None], rest: Mapping[str, float | None]) -> None:
        """Refuse what makes no sense.

        Args:
            positive: numbers that must be more than 0, if they are given.
            rest: numbers that must be 0 or more, if they are given.
        """
        for name, value in positive.items():
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive, got {value}.")
        for name, value in rest.items():
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"{name} must be 0 or more, got {value}.")

    # The robot.

    def read_model(self, path: Path) -> Any:
        uneven = self.uneven
        lay = None if uneven is None else lambda spec: uneven.ground.lay(spec, floor_of(spec))
        m, _ = prepare(path, self.stiffness, self.damping, lay)
        return m if uneven is None else uneven.level_out(m)

    def load_model(self, xml_file: str, **options: Any) -> physics.Model:
        model = super().load_model(xml_file, **options)
        ground = None if self.uneven is None else self.uneven.start(model, ())
        self.anatomy = find_anatomy(model, self.home, self.foot_names, ground)
        if self.contacts == "all":
            return model
        feet = {geom for foot in self.anatomy.feet for geom in foot.geoms}
        # MuJoCo's own model, in which policies are judged by `eval --in mujoco`, keeps all of them.
        pairs = (pair for pair in model.pairs if not pair.is_external or feet & {pair.geom1, pair.geom2})
        return replace(model, pairs=tuple(pairs), on_device={})

    def drive(self, state: Any, action: tuple) -> tuple:
        """The angles that servos are told."""
        variation = self.variation(state)
        targets = []
        for i, chosen in enumerate(variation.delayed(action, state.past)):
            joint, servo = self.model.joints[self.anatomy.driven[i]], self.model.actuators[i]
            target = self.anatomy.home[joint.qpos] + self.action_scale * chosen
            if variation.strength:  # a weak servo wants to go less far from where it is
                angle = state.qpos[joint.qpos]
                target = angle + variation.strength[i] * (target - angle)
            targets.append(dr.clip(servo.gear * target, *servo.ctrl_range))
        return tuple(targets)

    # How an episode begins.

    def reset(self, rng):
        qpos = with_yaw(self.anatomy.home, rng.uniform(-math.pi, math.pi))
        for joint in self.legs:
            bent = qpos[joint.qpos] + rng.uniform(-0.1, 0.1)
            qpos[joint.qpos] = dr.clip(bent, *joint.range) if joint.limited else bent
        # The lowest foot begins just on the ground.
        qpos[2] = qpos[2] - physics.clearance(self.model, physics.pose(self.model, qpos), self.start_terrain(qpos))
        return self.start_state(qpos, self.noisy_velocities(rng, 0.05), rng)

    def start_state(self, qpos: Sequence[Any], qvel: Sequence[Any], rng: Rng | None = None) -> Any:
        state = replace(
            super().start_state(qpos, qvel, rng),
            command=(0.0, 0.0, 0.0) if rng is None else self.commands.draw(rng),
            last=(0.0,) * self.model.nu,
            phase=0.0 if rng is None else rng.uniform(0.0, 1.0),
            missed=(0.0, 0.0),
        )
        if self.curriculum is not None:
            state = self.curriculum.begin(state, rng)
        state = replace(state, noise=self.observation.draw_noise(self, state, rng))
        return replace(state, seen=self.observation.no_history(self, state))

    def next_episode(self, ended, fresh):
        """Harder ground for a robot that walked as commanded, easier ground for one that did not."""
        return fresh if self.curriculum is None else self.curriculum.next_episode(ended, fresh)

    @property
    def command_ranges(self) -> tuple[tuple[float, float], ...]:
        return self.commands.ranges

    def for_evaluation(self) -> Legged:
        """On uneven ground policies are judged on the middle level, unless the level was chosen."""
        if self.curriculum is None or not self.curriculum.changes:
            return self
        judged = copy.copy(self)
        judged.curriculum = self.curriculum.for_evaluation()
        return judged

    # A step.

    def step(self, state, action, rng):
        after = self.simulate(state, action, rng)
        motion = self.sense(after)
        moment = self.moment(state, after, action, motion)
        after, reward = self.pay(state, after, earned(moment, self.weights))
        fallen = self.has_fallen(after, motion)
        errors = (dr.sqrt(velocity_error(moment)), dr.abs(motion.turn - state.command[2]))
        after = replace(
            after,
            command=self.commands.after(state.command, after.step, rng),
            last=action,
            phase=self.gait.after(state.phase, self.time_step),
            missed=tuple(before + error for before, error in zip(state.missed, errors)),
        )
        if self.curriculum is not None:
            after = self.curriculum.after(after, velocity(moment))
        if self.observation.history:
            after = replace(after, seen=(*self.observation.now(self, state), *state.seen)[: len(state.seen)])
        after = replace(after, noise=self.observation.draw_noise(self, after, rng))
        return after, reward, fallen

    def moment(self, before: Any, after: Any, action: tuple, motion: Motion) -> Moment:
        """What the reward of a step is made of."""
        limits = [_limit(a, self.model.joints[a.joint]) for a in self.model.actuators]
        told = self.drive(before, action)
        torques = physics.actuator_forces(self.model, after.qpos, after.qvel, told, after.act)
        walking = walks(before.command)
        rest = (foot.place[2] for foot in self.anatomy.feet)
        return Moment(
            motion=motion,
            command=before.command,
            walks=walking,
            width=self.tracking_width,
            bend=tuple(after.qpos[j.qpos] - self.anatomy.home[j.qpos] for j in self.legs),
            beyond=tuple(_beyond(after.qpos[j.qpos], j.range) for j in self.legs if j.limited),
            effort=tuple(torque * (1.0 / limit) for torque, limit in zip(torques, limits)),
            change=tuple(new - old for new, old in zip(action, before.last)),
            lift=tuple(self.over_ground(after, foot) - height for foot, height in zip(motion.feet, rest)),
            swing=self.gait.heights(before.phase, walking),
            clearance=self.gait.clearance,
        )

    def has_fallen(self, state: Any, motion: Motion) -> Any:
        low = self.over_ground(state, state.qpos[:3]) < self.fall_height * self.anatomy.height
        return low | (-motion.down[2] < self.fall_cosine)

    # What the robot observes.

    def observe(self, state):
        return (*self.observation.now(self, state), *state.seen)

    def report(self, state):
        steps = 1.0 / dr.maximum(1.0 * state.step, 1.0)
        errors = {"velocity_error": state.missed[0] * steps, "turn_error": state.missed[1] * steps}
        ground = {} if self.curriculum is None else self.curriculum.report(self, state)
        return {**errors, **super().report(state), **ground}

    # Measuring.

    @cached_property
    def legs(self) -> tuple:
        """All joints but the one of the base."""
        return tuple(joint for joint in self.model.joints[1:] if joint.kind == "hinge")

    def sense(self, state: Any) -> Motion:
        return sense(self.model, self.anatomy, state.qpos, state.qvel)


def _limit(servo: Any, joint: Any) -> float:
    """The largest torque of a servo; where nothing limits it, what it gives when it is `REACH` off."""
    ranges = (servo.force_range, [force / abs(servo.gear) for force in joint.force_range])
    least = min(max(abs(low), abs(high)) for low, high in ranges)
    return least if math.isfinite(least) else servo.gain[0] * REACH


def _beyond(angle: Any, bounds: Sequence[float]) -> Any:
    """How far an angle is outside the inner part of a range."""
    low, high = bounds
    middle, half = 0.5 * (low + high), 0.5 * INNER * (high - low)
    return dr.maximum(dr.abs(angle - middle) - half, 0.0)
