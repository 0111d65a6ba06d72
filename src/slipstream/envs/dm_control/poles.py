"""Pendulum, cart-pole and acrobot: poles that shall stand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from slipstream import physics
from slipstream.envs.dm_control.starts import Drawn, any_angles, still
from slipstream.envs.dm_control.task import Task, Terms
from slipstream.envs.dm_control.tolerance import small_control, tolerance
from slipstream.envs.dm_control.view import View
from slipstream.envs.locomotion.robot import length
from slipstream.random import Rng

ALMOST_UPRIGHT = math.cos(math.radians(8.0))
"""For the pendulum."""
CART_RANGE, COSINE_RANGE = (-0.25, 0.25), (0.995, 1.0)
"""Where cart and pole must be, if nothing else is paid."""


# The pendulum.


def _see_pendulum(view: View) -> dict[str, list[Any]]:
    rotation = view.rotation("pole")
    return {"orientation": [rotation[2][2], rotation[0][2]], "velocity": [view.velocity("hinge")]}


def _pendulum_up(view: View) -> Terms:
    return {"upright": tolerance(view.upright("pole"), (ALMOST_UPRIGHT, 1.0))}


# The cart-pole.


def _near_upright(model: physics.Model, rng: Rng) -> tuple[list[Any], list[Any]]:
    return [rng.uniform(-0.1, 0.1), rng.uniform(-0.034, 0.034)], _small_speeds(model, rng)


def _hanging(model: physics.Model, rng: Rng) -> tuple[list[Any], list[Any]]:
    return [rng.normal(0.0, 0.01), math.pi + rng.normal(0.0, 0.01)], _small_speeds(model, rng)


def _small_speeds(model: physics.Model, rng: Rng) -> list[Any]:
    return [rng.normal(0.0, 0.01) for _ in range(model.nv)]


def _see_cartpole(view: View) -> dict[str, list[Any]]:
    pole = view.rotation("pole_1")
    return {"position": [view.position("slider"), pole[2][2], pole[0][2]], "velocity": list(view.qvel)}


def _steady(view: View) -> Terms:
    """Smooth: every term says how near to a pole at rest in the middle it is."""
    return {
        "upright": 0.5 * (1.0 + view.upright("pole_1")),
        "small_control": small_control(view.action),
        "small_velocity": 0.5 * (1.0 + tolerance(view.velocity("hinge_1"), margin=5.0)),
        "centred": 0.5 * (1.0 + tolerance(view.position("slider"), margin=2.0)),
    }


def _in_bounds(view: View) -> Terms:
    """Sparse: it stands, or it does not."""
    return {
        "cart": tolerance(view.position("slider"), CART_RANGE),
        "pole": tolerance(view.upright("pole_1"), COSINE_RANGE),
    }


def _cartpole(summary: str, start: Callable, terms: Callable[[View], Terms]) -> Task:
    return Task(summary, "cartpole.xml", 1, Drawn(start), _see_cartpole, terms, camera=(4.0, -10.0))


# The acrobot.


def _both_angles(model: physics.Model, rng: Rng) -> list[Any]:
    return [rng.uniform(-math.pi, math.pi) for _ in range(2)]


def _see_acrobot(view: View) -> dict[str, list[Any]]:
    arms = [view.rotation(name) for name in ("upper_arm", "lower_arm")]
    return {"orientations": [*(r[0][2] for r in arms), *(r[2][2] for r in arms)], "velocity": list(view.qvel)}


def _tip_near_target(margin: float) -> Callable[[View], Terms]:
    def terms(view: View) -> Terms:
        apart = length([a - b for a, b in zip(view.site("target"), view.site("tip"))])
        return {"tip_near_target": tolerance(apart, (0.0, view.site_size("target")[0]), margin)}

    return terms


def _acrobot(summary: str, margin: float) -> Task:
    return Task(
        summary, "acrobot.xml", 1, still(_both_angles), _see_acrobot, _tip_near_target(margin), camera=(6.0, -5.0)
    )


TASKS = {
    "pendulum-swingup": Task(
        "Swing a weak pendulum up and hold it.", "pendulum.xml", 1, still(any_angles), _see_pendulum, _pendulum_up,
        camera=(3.0, -10.0),
    ),
    "cartpole-balance": _cartpole("Keep a pole on a cart upright.", _near_upright, _steady),
    "cartpole-balance-sparse": _cartpole("Keep a pole on a cart upright, all or nothing.", _near_upright, _in_bounds),
    "cartpole-swingup": _cartpole("Swing a pole on a cart up and hold it.", _hanging, _steady),
    "cartpole-swingup-sparse": _cartpole("Swing a pole on a cart up, all or nothing.", _hanging, _in_bounds),
    "acrobot-swingup": _acrobot("Swing two links up by the joint between them.", 1.0),
    "acrobot-swingup-sparse": _acrobot("Swing two links up, all or nothing.", 0.0),
}  # fmt: skip
