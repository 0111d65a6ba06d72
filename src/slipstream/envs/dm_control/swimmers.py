"""Fish and swimmers: robots in water."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import drjit as dr

from slipstream import physics
from slipstream.envs.dm_control.models import segments
from slipstream.envs.dm_control.starts import any_angles, still
from slipstream.envs.dm_control.task import Target, Task, Terms
from slipstream.envs.dm_control.tolerance import tolerance
from slipstream.envs.dm_control.view import View
from slipstream.envs.locomotion.robot import length
from slipstream.physics import spatial as sp
from slipstream.random import Rng

# The fish.

FINS = ("tail1", "tail_twist", "tail2", "finright_roll", "finright_pitch", "finleft_roll", "finleft_pitch")


def _any_direction(model: physics.Model, rng: Rng) -> list[Any]:
    """Turned in any way, fins a little off."""
    qpos: list[Any] = list(model.qpos0)
    qpos[3:7] = sp.normalized([rng.normal() for _ in range(4)])
    for name in FINS:
        qpos[model.joint(name).qpos] = rng.uniform(-0.2, 0.2)
    return qpos


def _in_tank(rng: Rng) -> tuple[Any, ...]:
    return rng.uniform(-0.4, 0.4), rng.uniform(-0.4, 0.4), rng.uniform(0.1, 0.3)


def _mouth_to_target(view: View) -> tuple:
    """Seen by the mouth."""
    return sp.rotate_back(view.geom_rotation("mouth"), sp.minus(view.target, view.geom("mouth")))


def _see_fish(view: View) -> dict[str, list[Any]]:
    seen = {"joint_angles": [view.position(name) for name in FINS], "upright": [view.upright("torso")]}
    if view.target:
        seen["target"] = list(_mouth_to_target(view))
    return seen | {"velocity": list(view.qvel)}


def _fish_upright(view: View) -> Terms:
    return {"upright": tolerance(view.upright("torso"), (1.0, 1.0), 1.0)}


def _fish_at_target(view: View) -> Terms:
    radii = view.geom_size("mouth")[0] + view.geom_size("target")[0]
    return {
        "in_target": tolerance(length(_mouth_to_target(view)), (0.0, radii), 2.0 * radii),
        "upright": 0.5 * (view.upright("torso") + 1.0),
    }


def _mostly_target(terms: Sequence[Any]) -> Any:
    in_target, upright = terms
    return 0.125 * (7.0 * in_target + upright)


def _fish(summary: str, terms: Callable[[View], Terms], **others: Any) -> Task:
    return Task(summary, "fish.xml", 10, still(_any_direction), _see_fish, terms, camera=(0.9, -25.0), **others)


# The swimmer.

OFTEN, NEAR, FAR = 0.2, 0.3, 2.0
"""A share of the targets is within the near square, the others are within the far one."""


def _in_square(rng: Rng) -> tuple[Any, Any]:
    reach = dr.select(rng.chance(OFTEN), NEAR, FAR)
    return reach * rng.uniform(-1.0, 1.0), reach * rng.uniform(-1.0, 1.0)


def _nose_to_target(view: View) -> list[Any]:
    """Seen from the head, in the plane."""
    x, y = (t - n for t, n in zip(view.target, view.geom("nose")[:2]))
    (xx, xy, _), (yx, yy, _), _ = view.rotation("head")
    return [x * xx + y * yx, x * xy + y * yy]


def _see_swimmer(view: View) -> dict[str, list[Any]]:
    speeds: list[Any] = []
    pairs = [("head_vel", "head_gyro"), *((f"velocimeter_{k}", f"gyro_{k}") for k in range(view.model.nu))]
    for linear, angular in pairs:
        speeds += [*view.sensor(linear)[:2], view.sensor(angular)[2]]
    return {"joints": list(view.qpos[3:]), "to_target": _nose_to_target(view), "body_velocities": speeds}


def _nose_at_target(view: View) -> Terms:
    size = view.geom_size("target")[0]
    return {"at_target": tolerance(length(_nose_to_target(view)), (0.0, size), 5.0 * size, "long_tail")}


def _swimmer(links: int) -> Task:
    return Task(
        f"Swim to a target, with {links} links.", "swimmer.xml", 15, still(any_angles), _see_swimmer, _nose_at_target,
        change=segments(links), target=Target(_in_square, "xy"), camera=(3.0, -60.0),
    )  # fmt: skip


TASKS = {
    "fish-upright": _fish("A fish that turns its back up.", _fish_upright),
    "fish-swim": _fish(
        "A fish that swims to a target.", _fish_at_target, reward=_mostly_target, target=Target(_in_tank, "xyz")
    ),
    "swimmer-swimmer6": _swimmer(6),
    "swimmer-swimmer15": _swimmer(15),
}
