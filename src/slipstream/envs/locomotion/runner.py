"""What the tasks of Liang et al. 2018 share: a robot that runs to a target, what it observes, and its rewards.

Liang, Makoviychuk, Handa, Chentanez, Macklin and Fox, "GPU-Accelerated Robotic Simulation for Distributed
Reinforcement Learning", CoRL 2018. Every term of the reward is a method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import drjit as dr

from slipstream import physics
from slipstream.envs.env import Bool, Float, Int
from slipstream.envs.locomotion.course import Course, Straight
from slipstream.envs.locomotion.curriculum import Curriculum
from slipstream.envs.locomotion.posture import OnItsFeet
from slipstream.envs.locomotion.robot import Robot, State, heading, length, negated, squares
from slipstream.physics.spatial import rotate
from slipstream.random import Rng
from slipstream.spaces import Box

TERMS = ("progress", "alive", "heading", "upright", "energy", "effort", "limits", "collision")
CONTROL_RATE = 60
"""Control steps per second."""
SPEED_SCALE, JOINT_SPEED_SCALE = 0.25, 0.1
CLIP = 5.0
AHEAD, ASIDE = (0.4, 0.8, 1.4, 2.2), (-0.4, 0.0, 0.4)
"""Where a robot on uneven ground sees its height, in metres from the torso in its heading frame."""
AT_LIMIT = 0.99
"""A joint is at its limit beyond this share of the way there from the middle of its range."""
STRAIGHT_ENOUGH, UPRIGHT_ENOUGH = 0.8, 0.93
"""The cosines from which on the heading earns its full reward, and the torso counts as upright."""


@dataclass
class RunnerState(State):
    """A robot that runs to a target, in every world. What its parts do not keep is empty."""

    target: tuple[Float, ...] = ()
    """Where it runs to: x, y."""
    last: tuple[Float, ...] = ()
    """The previous action, nu."""
    waited: Int = ()
    """Steps since the flag was put where it is (with flags)."""
    reached: Int = ()
    """Flags reached in the episode (with flags)."""
    ground: Int = ()
    """Steps on the ground, less those since it stands again (for a robot that gets up)."""
    stood: Int = ()
    """Steps on its feet in the episode (for a robot that gets up)."""
    began_down: Bool = ()
    level: Int = ()
    """How hard the ground is; kept from episode to episode (on uneven ground)."""
    variant: Int = ()
    """Which ground of that level (on uneven ground)."""
    covered: Float = ()
    """How much nearer to its targets the robot came in the episode, in metres (on uneven ground)."""


class Runner(Robot):
    """A robot with a free root that runs to a target.

    Put together from parts: where it runs to (`course`), how it begins and what a fall means (`posture`), and the
    ground (`uneven`, with its `curriculum`). A subclass says which robot it is, and chooses them.
    """

    state_type = RunnerState
    course: Course = Straight()
    posture: OnItsFeet = OnItsFeet()
    curriculum: Curriculum | None = None
    feet: ClassVar[tuple[str, ...]] = ()
    """Geoms whose contacts with the ground are observed, and that must not touch each other."""
    touching: tuple[str, ...] = ()
    """Further geoms whose contacts with the ground are observed."""

    def __init__(
        self,
        *,
        xml_file: str,
        frame_skip: int,
        start_height: float,
        alive_height: float,
        alive_reward: float,
        energy_cost_weight: float,
        effort_cost_weight: float,
        limit_cost_weight: float = 0.2,
        collision_cost_weight: float = 1.0,
        heading_reward_weight: float = 0.5,
        upright_reward_weight: float = 0.05,
        integrator: str | None = "euler",
        timestep: float | None = None,
        **robot: Any,
    ):
        """Args:
        xml_file: a path, or the name of one of Gymnasium's assets.
        frame_skip: physics steps per control step.
        start_height: of the torso when the robot stands.
        alive_height: below it the robot has fallen.
        alive_reward: what a step without falling earns.
        energy_cost_weight: of torque times speed.
        effort_cost_weight: of the square of the torque.
        limit_cost_weight: for each joint at its limit.
        collision_cost_weight: for each two feet that touch.
        heading_reward_weight: for facing the target.
        upright_reward_weight: for an upright torso.
        integrator: `euler`, `rk4` or `implicitfast`; None: what the file says.
        timestep: of a physics step, in seconds; None: such that a control step takes 1/60 s.
        """
        self.start_height, self.alive_height, self.alive_reward_weight = start_height, alive_height, alive_reward
        self.energy_cost_weight, self.effort_cost_weight = energy_cost_weight, effort_cost_weight
        self.limit_cost_weight, self.collision_cost_weight = limit_cost_weight, collision_cost_weight
        self.heading_reward_weight, self.upright_reward_weight = heading_reward_weight, upright_reward_weight
        self.terms = (*TERMS, *self.posture.terms)
        timestep = timestep or 1.0 / (CONTROL_RATE * max(frame_skip, 1))
        super().__init__(xml_file, frame_skip, integrator=integrator, timestep=timestep, **robot)
        by_tendon = [a.name for a in self.model.actuators if a.joint < 0]
        if by_tendon:
            raise ValueError(f"This task pays for the power of joints; actuator {by_tendon[0]!r} pulls on a tendon.")
        strengths = [abs(a.gear) * (a.ctrl_range[1] - a.ctrl_range[0]) for a in self.model.actuators]
        self.strengths = [s * len(strengths) / sum(strengths) for s in strengths]
        """How strong each motor is, relative to their mean."""
        (group,) = self.groups
        observation = Box(group.observation.size, -CLIP, CLIP)
        self.groups = (replace(group, observation=observation, action=Box(self.model.nu, -1.0, 1.0)),)

    # How an episode begins.

    def reset(self, rng):
        return self.start_state(*self.posture.start(self, rng), rng)

    def start_state(self, qpos: Sequence[Any], qvel: Sequence[Any], rng: Rng | None = None) -> Any:
        state = replace(super().start_state(qpos, qvel, rng), last=(0.0,) * self.model.nu)
        state = self.course.begin(state, rng)
        if self.curriculum is not None:
            state = self.curriculum.begin(state, rng)
        return self.posture.begin(self, state)

    def next_episode(self, ended, fresh):
        return fresh if self.curriculum is None else self.curriculum.next_episode(ended, fresh)

    def rest_angles(self) -> list[float]:
        """The joints of a robot that stands."""
        return [joint.reference[0] for joint in self.hinges]

    @property
    def hinges(self) -> tuple:
        return self.model.joints[1:]

    # A step.

    def step(self, state, action, rng):
        after = replace(self.simulate(state, action, rng), last=action)
        after = self.posture.after(self, state, after)
        alive = self.posture.is_alive(self, after)
        terms = self.rewards(state, after, alive)
        if self.curriculum is not None:
            after = self.curriculum.after(after, terms["progress"] * self.time_step)
        after, reward = self.pay(state, after, terms)
        return self.course.after(after, rng), reward, negated(alive)

    def rewards(self, before, after, alive) -> dict[str, Any]:
        """What a step earns, and for what."""
        usual = {
            "progress": self.progress(before, after),
            "alive": dr.select(alive, self.alive_reward_weight, -1.0),
            "heading": self.heading_reward(after),
            "upright": self.upright_reward(after),
            "energy": -self.energy_cost(after),
            "effort": -self.effort_cost(after),
            "limits": -self.limit_cost(after),
            "collision": -self.collision_cost(after),
        }
        return self.posture.rewards(self, before, after, alive, usual)

    def drive(self, state: State, action: tuple) -> tuple:
        """Torques in [-1, 1] of each motor's range."""
        ranges = (actuator.ctrl_range for actuator in self.model.actuators)
        chosen = super().drive(state, action)
        return tuple(0.5 * (low + high) + 0.5 * (high - low) * a for a, (low, high) in zip(chosen, ranges))

    # Terms of the reward.

    def progress(self, before, after):
        """How fast the robot came nearer to the target, in m/s."""
        then, now = self.to_target(before), self.to_target(replace(after, target=before.target))
        # The difference of the distances, without subtracting large numbers: the target may be far away.
        moved = (new - old for new, old in zip(after.qpos, before.qpos))
        nearer = sum(m * (a + b) for m, a, b in zip(moved, then, now))
        return nearer / ((length(then) + length(now)) * self.time_step)

    def heading_reward(self, state):
        """For a torso whose front is towards the target."""
        (xx, _, _), (yx, _, _), _ = self.torso_rotation(state)
        x, y = self.target_direction(state)
        return self.heading_reward_weight * dr.minimum(1.0, (xx * x + yx * y) / STRAIGHT_ENOUGH)

    def upright_reward(self, state):
        return dr.select(self.torso_rotation(state)[2][2] > UPRIGHT_ENOUGH, self.upright_reward_weight, 0.0)

    def energy_cost(self, state):
        """For torque times speed, weighted by the strength of the motor."""
        speeds = (state.qvel[self.model.joints[a.joint].dof] for a in self.model.actuators)
        powers = (s * dr.abs(a * v) for s, a, v in zip(self.strengths, state.last, speeds))
        return self.energy_cost_weight * JOINT_SPEED_SCALE / self.model.nu * sum(powers)

    def effort_cost(self, state):
        return self.effort_cost_weight / self.model.nu * squares(state.last)

    def limit_cost(self, state):
        """For each joint that is at its limit."""
        at_limit = (dr.select(dr.abs(q) > AT_LIMIT, 1.0, 0.0) for q in self.joint_positions(state))
        return self.limit_cost_weight * sum(at_limit)

    def collision_cost(self, state):
        """For feet that touch each other."""
        where = physics.pose(self.model, state.qpos)
        feet = {self.model.geom(name) for name in self.feet}
        total: Any = 0.0
        for pair in self.model.pairs:
            if {pair.geom1, pair.geom2} <= feet:
                apart = physics.geom_distance(self.model, where, pair.geom1, pair.geom2)
                total = total + dr.select(apart < pair.margin, self.collision_cost_weight, 0.0)
        return total

    # What the robot observes.

    def observe(self, state):
        x, y = self.target_direction(state)
        sin, cos = self.heading(state)
        rotation = self.torso_rotation(state)
        features = (
            self.height(state) - self.start_height,
            y * cos - x * sin,
            x * cos + y * sin,
            *(SPEED_SCALE * v for v in _turned(state.qvel[:3], sin, cos)),
            *(SPEED_SCALE * w for w in _turned(rotate(rotation, state.qvel[3:6]), sin, cos)),
            dr.atan2(rotation[2][1], rotation[2][2]),
            dr.asin(dr.clip(-rotation[2][0], -1.0, 1.0)),
            *self.joint_positions(state),
            *(JOINT_SPEED_SCALE * v for v in state.qvel[6:]),
            *self.contacts(state),
            *state.last,
            *self.heights_ahead(state),
        )
        return tuple(dr.clip(f, -CLIP, CLIP) for f in features)

    def heights_ahead(self, state):
        """The ground before the robot, relative to that below it (on uneven ground)."""
        if self.uneven is None:
            return ()
        return self.uneven.heights_around(self.model, state, self.heading(state), AHEAD, ASIDE)

    def report(self, state):
        parts = [self.course, self.posture, *([] if self.curriculum is None else [self.curriculum])]
        told = {name: value for part in parts for name, value in part.report(self, state).items()}
        return {**told, **super().report(state)}

    # Measuring.

    def height(self, state):
        """Of the torso over the ground."""
        return self.over_ground(state, state.qpos[:3])

    def torso_rotation(self, state):
        """The rotation matrix of the torso, as three rows."""
        return physics.body_rotation(self.model, physics.pose(self.model, state.qpos), 1)

    def heading(self, state):
        """Sine and cosine of the direction the torso faces in the plane."""
        return heading(self.torso_rotation(state))

    def to_target(self, state):
        return tuple(t - q for t, q in zip(state.target, state.qpos[:2]))

    def target_direction(self, state):
        """The unit vector towards the target, in the plane."""
        x, y = self.to_target(state)
        scale = 1.0 / dr.maximum(length((x, y)), 1e-6)
        return x * scale, y * scale

    def joint_positions(self, state):
        """Of every joint, -1 .. 1 from limit to limit."""
        return [
            (state.qpos[joint.qpos] - 0.5 * (joint.range[0] + joint.range[1]))
            * (2.0 / (joint.range[1] - joint.range[0]))
            for joint in self.hinges
        ]

    def contacts(self, state):
        """1 for each foot (and whatever else is watched) that touches the ground, else 0."""
        where = physics.pose(self.model, state.qpos)
        geoms = (self.model.geom(name) for name in (*self.feet, *self.touching))
        ground = self.terrain(state)
        return [dr.select(physics.touches_ground(self.model, where, geom, ground), 1.0, 0.0) for geom in geoms]


def _turned(v: Sequence[Any], sin: Any, cos: Any) -> tuple:
    """A vector of the world, seen by someone who faces the direction (sin, cos)."""
    x, y, z = v
    return x * cos + y * sin, y * cos - x * sin, z
