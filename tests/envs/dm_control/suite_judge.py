"""dm_control's own tasks as the judge of ours."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, fields, replace
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
class Situation:
    """A state, as float32 can hold it, so that both engines start at the same place."""

    qpos: np.ndarray
    qvel: np.ndarray
    act: np.ndarray
    goal: np.ndarray
    gains: np.ndarray
    sensed: np.ndarray


@dataclass
class Case:
    """A state, an action, and what a control step from there leads to."""

    before: Situation
    action: np.ndarray
    after: Situation
    observation: np.ndarray
    reward: float


def situation(env: Any, ours: Any) -> Situation:
    """The state that dm_control is in."""
    physics, task = env.physics, ours.task
    goal = np.zeros(0)
    if task.target is not None:
        model = physics.named.model
        places = model.geom_pos if task.target.kind == "geom" else model.site_pos
        goal = np.array([places["target", axis] for axis in task.target.axes])
    gains = physics.model.wrap_prm[:4].copy() if task.gains else np.zeros(0)
    sensed = [physics.named.data.sensordata[name] for name in ours.sensors]
    data = physics.data
    return Situation(
        data.qpos.copy(), data.qvel.copy(), data.act.copy(), goal, gains, np.concatenate([np.zeros(0), *sensed])
    )


def flat(observation: Any) -> np.ndarray:
    return np.concatenate([np.ravel(values) for values in observation.values()])


def visited_cases(name: str, count: int, seed: int = 0, episode: int = 12) -> list[Case]:
    """Cases along short episodes with random actions, some of them with a push, and whatever touches."""
    env, ours = dm_control_env(name, seed), make_env(name)
    physics, spec, draw = env.physics, env.action_spec(), np.random.default_rng(seed)
    action = np.zeros(0)
    push = 0.1 if "fish" in name else 1.0  # which is light
    cases: list[Case] = []
    while len(cases) < count:
        env.reset()
        for step in range(episode):
            data = physics.data
            if step == 0 and len(cases) % 3 == 2:
                data.qvel[:] = draw.normal(size=physics.model.nv) * push
            for values in (data.qpos, data.qvel, data.act):
                values[:] = values.astype(np.float32)
            physics.forward()
            before = situation(env, ours)
            if step % 6 == 0:
                action = draw.uniform(spec.minimum, spec.maximum).astype(np.float32)
            # Not `env.step`, which counts steps.
            env.task.before_step(action, physics)
            physics.step(env._n_sub_steps)
            after = situation(env, ours)
            if step % 4 == 3 or step == 0 or (np.abs(after.sensed) > 0.1).any():
                observation, reward = env.task.get_observation(physics), env.task.get_reward(physics)
                cases.append(Case(before, action, after, flat(observation), float(reward)))
    return cases[:count]


def our_view(env: Any, case: Case) -> tuple[np.ndarray, float]:
    """What ours observes and pays in dm_control's state after the step, in plain Python."""
    found = case.after
    given = {f.name: tuple(getattr(found, f.name).tolist()) for f in fields(found)}
    state = replace(env.start_state(given.pop("qpos"), given.pop("qvel")), **given)
    terms = env.task.terms(env.view(state, tuple(case.action.tolist())))
    return np.array(env.observe(state), float), float(env.task.reward(list(terms.values())))


def our_step(name: str, cases: list[Case], backend: str = "auto") -> tuple[np.ndarray, np.ndarray]:
    """Observation and reward of a control step of ours from the same states."""
    # A humanoid that has fallen down can have more than the six contacts with itself that are the default.
    slots = {"self_contacts": 12} if "humanoid" in name else {}
    worlds = make(name, len(cases), backend=backend, **slots)
    given = {}
    for field in ("qpos", "qvel", "act", "goal", "gains"):
        values = np.stack([getattr(case.before, field) for case in cases], axis=1)
        if len(values):
            given[field] = values[0] if len(values) == 1 else values
    worlds.set_state(**given)
    outcome = worlds.step(np.stack([case.action for case in cases], axis=1))
    return np.asarray(outcome.final_observation).T, np.asarray(outcome.reward)


def observation_errors(found: np.ndarray, cases: list[Case]) -> np.ndarray:
    """By case, the largest error relative to the largest number expected."""
    expected = np.stack([case.observation for case in cases])
    return np.abs(found - expected).max(-1) / (1.0 + np.abs(expected).max(-1))


def reward_errors(found: np.ndarray, cases: list[Case]) -> np.ndarray:
    return np.abs(found - np.array([case.reward for case in cases]))
