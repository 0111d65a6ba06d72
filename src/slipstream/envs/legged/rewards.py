"""What a legged robot is paid for, term by term.

A term is a function of a `Moment`. Rewards are between 0 and 1; costs are 0 at best. Their weights are options of the
world (`velocity_reward_weight`, `tilt_cost_weight`, ...), and what each has earned is in the report of an episode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import drjit as dr

from slipstream.envs.legged.senses import Motion
from slipstream.envs.locomotion.robot import squares

GAIT_WIDTH = 0.3
"""How far feet may be from where the gait wants them, in heights of its steps, until that earns 1/e."""


@dataclass(frozen=True)
class Moment:
    """A control step, as its reward sees it."""

    motion: Motion  # at its end
    command: tuple  # ahead and left in m/s, turn in rad/s
    walks: Any  # whether it is told to go anywhere
    width: float  # the error, in m/s or rad/s, at which a tracking reward has fallen to 1/e
    bend: tuple  # how far each joint is from home, rad
    beyond: tuple  # how far each joint is outside the inner part of its range, rad
    effort: tuple  # the torque of each actuator, as a share of its limit
    change: tuple  # of the action since the last step
    lift: tuple  # how high each foot is over where it stands
    swing: tuple  # how high the gait wants it to be
    clearance: float  # the highest that it wants


def velocity(m: Moment) -> Any:
    """For going where the command says."""
    return dr.exp(-velocity_error(m) / m.width**2)


def velocity_error(m: Moment) -> Any:
    """The square of the difference between velocity and command, in (m/s)^2."""
    return squares((m.motion.ahead - m.command[0], m.motion.left - m.command[1]))


def turn(m: Moment) -> Any:
    """For turning as the command says."""
    return dr.exp(-squares((m.motion.turn - m.command[2],)) / m.width**2)


def gait(m: Moment) -> Any:
    """For lifting the feet by turns, as the clock says."""
    off = squares(z - wanted for z, wanted in zip(m.lift, m.swing))
    return dr.exp(-off / (len(m.lift) * (GAIT_WIDTH * m.clearance) ** 2))


def alive(m: Moment) -> Any:
    """For not having fallen yet."""
    return 1.0


def bounce(m: Moment) -> Any:
    """For going up or down, (m/s)^2."""
    return squares((m.motion.up,))


def wobble(m: Moment) -> Any:
    """For rolling and pitching, (rad/s)^2."""
    return squares(m.motion.spin[:2])


def tilt(m: Moment) -> Any:
    """For a base that is not level: the square of the sine."""
    return squares(m.motion.down[:2])


def effort(m: Moment) -> Any:
    """For torque: the mean square of its share of the limit."""
    return squares(m.effort) * (1.0 / len(m.effort))


def jerk(m: Moment) -> Any:
    """For actions that change from step to step: the mean square."""
    return squares(m.change) * (1.0 / len(m.change))


def limit(m: Moment) -> Any:
    """For joints near the ends of their range, rad."""
    return sum(m.beyond)


def pose(m: Moment) -> Any:
    """For joints that are not as at home, rad^2; five times as much for a robot that is to stand."""
    return dr.select(m.walks, 1.0, 5.0) * squares(m.bend)


def slip(m: Moment) -> Any:
    """For feet that slide over the ground, (m/s)^2."""
    down = (dr.select(z < 0.1 * m.clearance, 1.0, 0.0) for z in m.lift)
    return sum(flag * speed for flag, speed in zip(down, m.motion.sliding))


Term = Callable[[Moment], Any]

REWARDS: dict[str, Term] = {"velocity": velocity, "turn": turn, "gait": gait, "alive": alive}
COSTS: dict[str, Term] = {
    "bounce": bounce,
    "wobble": wobble,
    "tilt": tilt,
    "effort": effort,
    "jerk": jerk,
    "limit": limit,
    "pose": pose,
    "slip": slip,
}


def earned(moment: Moment, weights: dict[str, float]) -> dict[str, Any]:
    """What each term with a weight earns or costs in a step."""
    signed = {name: (term, 1.0) for name, term in REWARDS.items()} | {n: (t, -1.0) for n, t in COSTS.items()}
    return {name: sign * weights[name] * term(moment) for name, (term, sign) in signed.items() if weights[name]}
