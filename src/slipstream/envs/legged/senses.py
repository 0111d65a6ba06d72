"""What a legged robot's motion is like: where its base is going, how it leans, and what its feet do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slipstream import physics
from slipstream.envs.legged.anatomy import Anatomy
from slipstream.envs.locomotion.robot import heading
from slipstream.physics import spatial as sp

Vector = tuple


@dataclass(frozen=True)
class Motion:
    """How a robot moves, as it sees it itself.

    "Ahead" and "left" are the directions its base had at home, turned with it but kept horizontal.
    """

    ahead: Any  # m/s
    left: Any
    up: Any
    turn: Any  # about the vertical, rad/s
    spin: Vector  # angular velocity in the axes of the base, rad/s
    down: Vector  # the direction of gravity in the axes of the base
    heading: tuple[Any, Any]  # sine and cosine
    feet: tuple[Vector, ...]  # places in the world
    sliding: tuple[Any, ...]  # the square of each foot's horizontal speed


def sense(model: physics.Model, anatomy: Anatomy, qpos: Sequence[Any], qvel: Sequence[Any]) -> Motion:
    """Measure how a robot moves.

    Args:
        qpos: nq scalars.
        qvel: nv scalars.
    """
    where = physics.pose(model, qpos)
    moving = physics.motion(model, where, qvel)
    at_home = sp.quaternion_matrix(anatomy.home[3:7])
    link = model.bodies[anatomy.base].link
    # From the axes that the world had at home to those of the world now.
    turned = sp.matmul(where.rotation[link], _transposed(at_home))
    sin, cos = heading(turned)
    x, y, z = qvel[:3]
    feet, sliding = [], []
    for foot in anatomy.feet:
        point = sp.rotate(where.rotation[foot.link], foot.point, where.position[foot.link])
        vx, vy, _ = sp.point_velocity(moving.velocity[foot.link], point)
        feet.append(sp.plus(point, where.origin[foot.link]))
        sliding.append(vx * vx + vy * vy)
    return Motion(
        ahead=x * cos + y * sin,
        left=y * cos - x * sin,
        up=z,
        turn=sp.rotate(where.rotation[link], qvel[3:6])[2],
        spin=sp.rotate(at_home, qvel[3:6]),
        down=sp.negative(turned[2]),
        heading=(sin, cos),
        feet=tuple(feet),
        sliding=tuple(sliding),
    )


def _transposed(m: Any) -> tuple:
    return tuple(zip(*m))
