"""Gymnasium's own environments as the judge of ours."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import gymnasium
import mujoco
import numpy as np

from slipstream.envs.registry import env_class, make

ROBOTS = (
    "humanoid",
    "humanoid-standup",
    "ant",
    "half-cheetah",
    "hopper",
    "walker2d",
    "swimmer",
    "reacher",
    "inverted-pendulum",
    "inverted-double-pendulum",
)


@dataclass
class Cases:
    """States, actions, and what a step from there leads to; one row per case."""

    qpos: np.ndarray
    qvel: np.ndarray
    action: np.ndarray
    observation: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    contact_cost: np.ndarray
    """The part of the reward that Gymnasium takes off for contacts, where it has such a term."""


def gymnasium_env(name: str, **kwargs: Any) -> Any:
    """Gymnasium's environment of the same task."""
    task: Any = env_class(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gymnasium.make(task.gymnasium_id, **{**task.gymnasium_kwargs, **kwargs})


def sharpen(env: Any) -> None:
    """Let MuJoCo solve constraints to convergence, and compute positions and joint forces anew after every step.

    Humanoid's file asks for 50 iterations of projected Gauss-Seidel, which leaves an error, and Gymnasium reads
    positions and joint forces that MuJoCo computed at the last stage of the last physics step, not after it. Neither
    is part of the task. The wrenches of contacts stay those of the last stage: they are in ours, too.
    """
    robot = env.unwrapped
    robot.model.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    robot.model.opt.iterations, robot.model.opt.ls_iterations = 100, 50
    robot.model.opt.tolerance, robot.model.opt.ls_tolerance = 1e-15, 1e-6
    step = robot._step_mujoco_simulation

    def step_and_refresh(ctrl: np.ndarray, count: int) -> None:
        step(ctrl, count)
        mujoco.mj_forward(robot.model, robot.data)

    robot._step_mujoco_simulation = step_and_refresh


def visited_cases(env: Any, count: int, seed: int = 0, wait: int = 3) -> Cases:
    """Cases along episodes with random actions, and a few with a wild push to begin with.

    Args:
        wait: steps between two cases.
    """
    rng = np.random.default_rng(seed)
    env.action_space.seed(seed)
    robot = env.unwrapped
    rows: list[tuple] = []
    env.reset(seed=seed)
    age = 0
    while len(rows) < count:
        if age % 30 == 0:
            env.reset()
            if len(rows) % 4 == 3:
                robot.set_state(robot.data.qpos.copy(), rng.normal(size=robot.model.nv))
        for _ in range(wait):
            env.step(env.action_space.sample())
            age += 1
        # As float32 can hold it, so that both engines start at the same place.
        qpos, qvel = (a.astype(np.float32).astype(float) for a in (robot.data.qpos, robot.data.qvel))
        robot.set_state(qpos, qvel)
        action = env.action_space.sample()
        observation, reward, terminated, _, info = env.step(action)
        contact_cost = -info.get("reward_contact", info.get("reward_impact", 0.0))
        rows.append((qpos, qvel, action, observation, reward, terminated, contact_cost))
    return Cases(*(np.array(column) for column in zip(*rows)))


def our_step(name: str, cases: Cases, backend: str = "auto", **options: Any) -> tuple[np.ndarray, ...]:
    """Observation, reward and termination of a step of ours from the same states."""
    # A humanoid that has fallen down can have more than the six contacts with itself that are the default.
    slots = {"self_contacts": 12} if name.startswith("humanoid") else {}
    worlds = make(name, len(cases.qpos), backend=backend, **slots, **options)
    worlds.set_state(qpos=cases.qpos.T, qvel=cases.qvel.T)
    outcome = worlds.step(cases.action.T)
    return (
        np.asarray(outcome.final_observation).T,
        np.asarray(outcome.reward),
        np.asarray(outcome.terminated),
    )


def observation_error(found: np.ndarray, cases: Cases) -> np.ndarray:
    """By case, the largest error relative to the largest number expected."""
    expected = cases.observation
    return np.abs(found - expected).max(-1) / (1.0 + np.abs(expected).max(-1))


def reward_error(found: np.ndarray, cases: Cases) -> np.ndarray:
    return np.abs(found - cases.reward) / (1.0 + np.abs(cases.reward))
