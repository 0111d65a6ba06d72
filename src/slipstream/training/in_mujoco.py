"""Policies of robots under their own rules, but in MuJoCo's engine: the proof that they learned no quirk of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax

from slipstream.envs.locomotion.robot import Robot
from slipstream.envs.registry import AnyEnv, make, make_env
from slipstream.envs.worlds import Worlds
from slipstream.physics.original import OriginalEngine
from slipstream.training.evaluate import Evaluation, evaluate
from slipstream.training.play import WorldsArena
from slipstream.training.policies import ByPolicy, Policies

Tell = Callable[[int, int], None]


def evaluate_in_mujoco(
    policies: Policies,
    actors: ByPolicy,
    env: AnyEnv,
    options: Mapping[str, Any],
    episodes: int,
    *,
    explore: bool = False,
    seed: int = 0,
    tell: Tell | None = None,
) -> Evaluation:
    """Play one episode in each of some worlds whose robots are moved by MuJoCo's C code.

    The rules run in plain Python, some hundred steps a second.

    Args:
        env: a robot's world.
        options: of the world.
        tell: is told how many steps of an episode have been taken, and how many there are at most.
    """
    robot = make_env(env, **options).for_evaluation()
    if not isinstance(robot, Robot):
        raise ValueError(f"MuJoCo can only play robots; {type(robot).__name__} is none.")
    robot.physics_step = OriginalEngine(robot.model)
    worlds = make(robot, episodes, seed, "scalar")
    return evaluate(policies, actors, _Arena(worlds, tell), explore=explore, seed=seed)


class _Arena(WorldsArena):
    """An arena that tells how far it is."""

    def __init__(self, worlds: Worlds, tell: Tell | None):
        super().__init__(worlds)
        self._tell, self._steps = tell, 0

    def step(self, actions: dict[str, jax.Array]) -> None:
        super().step(actions)
        self._steps += 1
        if self._tell is not None:
            self._tell(self._steps, self.limit)
