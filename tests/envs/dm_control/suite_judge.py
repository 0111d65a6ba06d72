"""dm_control's own tasks as the judge of ours."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, fields
from typing import Any

os.environ.setdefault("MUJOCO_GL", "disable")

import mujoco
import numpy as np
import pytest

from slipstream.envs.registry import CONTROL_SUITE, make, make_env

TASKS = [f"dm-{domain}-{task}" for domain, tasks in CONTROL_SUITE.items() for task in tasks]


def dm_control_suite() -> Any:
    """dm_control's suite, made to run with MuJoCo 4: it lists fields of the model that are gone."""
    pytest.importorskip("dm_control")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from dm_control.mujoco.wrapper.mjbindings import sizes

        for struct, kind in (("mjmodel", mujoco.MjModel), ("mjdata", mujoco.MjData)):
            for field in [f for f in sizes.array_sizes[struct] if not hasattr(kind, f)]:
                del sizes.array_sizes[struct][field]
        from dm_control import suite
    return suite


def dm_control_env(name: str, seed: int = 0) -> Any:
    """dm_control's environment of the same task."""
    domain = next(d for d in CONTROL_SUITE if name.startswith(f"dm-{d}-"))
    task = name.removeprefix(f"dm-{domain}-")
    suite = dm_control_suite()
    return suite.load(domain.replace("-", "_"), task.replace("-", "_"), task_kwargs={"random": seed})


@dataclass
class Cases:
    """States, actions, and what a control step from there leads to; one row per case."""

    qpos: np.ndarray
    qvel: np.ndarray
    act: np.ndarray
    goal: np.ndarray
    gains: np.ndarray
    action: np.ndarray
    observation: np.ndarray
    reward: np.ndarray

    def some(self, every: int) -> Cases:
        return Cases(*(getattr(self, f.name)[::every] for f in fields(self)))


def flat(observation: Any) -> np.ndarray:
    return np.concatenate([np.ravel(values) for values in observation.values()])


def target_of(env: Any, task: Any) -> np.ndarray:
    """Where dm_control has put the target, along the axes that ours has."""
    if task.target is None:
        return np.zeros(0)
    places = env.physics.named.model.geom_pos if task.target.kind == "geom" else env.physics.named.model.site_pos
    return np.array([places["target", axis] for axis in task.target.axes])


def visited_cases(name: str, count: int, seed: int = 0, episode: int = 12) -> Cases:
    """Cases along short episodes with random actions, some of them with a wild push."""
    env, task = dm_control_env(name, seed), make_env(name).task
    physics, spec, draw = env.physics, env.action_spec(), np.random.default_rng(seed)
    rows: list[tuple] = []
    while len(rows) < count:
        env.reset()
        for step in range(episode):
            if step == 0 and len(rows) % 3 == 2:
                physics.data.qvel[:] = draw.normal(size=physics.model.nv) * (0.1 if "fish" in name else 1.0)
            # As float32 can hold it, so that both engines start at the same place.
            data = physics.data
            for values in (data.qpos, data.qvel, data.act):
                values[:] = values.astype(np.float32)
            physics.forward()
            before = [v.copy() for v in (data.qpos, data.qvel, data.act)]
            gains = physics.model.wrap_prm[:4].copy() if task.gains else np.zeros(0)
            action = draw.uniform(spec.minimum, spec.maximum).astype(np.float32)
            # Not `env.step`: it counts steps.
            env.task.before_step(action, physics)
            physics.step(env._n_sub_steps)
            observation, reward = env.task.get_observation(physics), env.task.get_reward(physics)
            if step % 4 == 3 or step == 0:
                rows.append((*before, target_of(env, task), gains, action, flat(observation), reward))
    return Cases(*(np.array(column) for column in zip(*rows[:count])))


def our_step(name: str, cases: Cases, backend: str = "auto") -> tuple[np.ndarray, np.ndarray]:
    """Observation and reward of a step of ours from the same states."""
    slots = {"self_contacts": 12} if "humanoid" in name else {}
    worlds = make(name, len(cases.qpos), backend=backend, **slots)
    given = {f: getattr(cases, f).T for f in ("qpos", "qvel", "act", "goal", "gains") if getattr(cases, f).shape[1]}
    worlds.set_state(**{field: np.squeeze(values, 0) if len(values) == 1 else values for field, values in given.items()})
    outcome = worlds.step(cases.action.T)
    return np.asarray(outcome.final_observation).T, np.asarray(outcome.reward)


def observation_error(found: np.ndarray, cases: Cases) -> np.ndarray:
    """By case, the largest error relative to the largest number expected."""
    return np.abs(found - cases.observation).max(-1) / (1.0 + np.abs(cases.observation).max(-1))
