"""The proof in another engine: a policy trained here, in Gymnasium's own environment."""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.envs.env import Env
from slipstream.envs.extras import ExtraMissing
from slipstream.training.evaluate import DEFAULT_LIMIT, GroupScore, group_score, standard_error
from slipstream.training.loading import Policy


@dataclass(frozen=True)
class Match:
    """Which of Gymnasium's environments is the same task as a world of ours."""

    id: str
    kwargs: dict[str, Any]
    ignored: tuple[str, ...]
    """Options of our world that Gymnasium's environment does not have."""


@dataclass(frozen=True)
class GymnasiumEvaluation:
    """How a policy does in Gymnasium."""

    env: Match
    episodes: int
    length: float
    length_standard_error: float
    score: GroupScore
    forward_speed: float | None
    """Mean over episodes of the mean `info["x_velocity"]`, if the environment has it."""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def match(env: Env, options: Mapping[str, Any]) -> Match:
    """The environment of Gymnasium that a world stands for.

    Args:
        env: a world.
        options: what it was made with; those that Gymnasium's environment has too are handed on.
    """
    if env.gymnasium_id is None:
        raise ValueError(
            f"{type(env).__name__} has no counterpart in Gymnasium. A world of your own can name one: "
            "set its gymnasium_id (and gymnasium_kwargs)."
        )
    known = _parameters(env.gymnasium_id)
    shared = {name: value for name, value in options.items() if name in known}
    ignored = tuple(name for name in options if name not in known)
    return Match(env.gymnasium_id, {**env.gymnasium_kwargs, **shared}, ignored)


def _gymnasium() -> Any:
    try:
        import gymnasium
    except ModuleNotFoundError as error:
        raise ExtraMissing("gymnasium") from error
    return gymnasium


def _parameters(env_id: str) -> set[str]:
    """The arguments that an environment of Gymnasium takes."""
    _gymnasium()
    from gymnasium.envs.registration import load_env_creator

    creator = _spec(env_id).entry_point
    made_by: Any = load_env_creator(creator) if isinstance(creator, str) else creator
    return set(inspect.signature(made_by).parameters)


def _spec(env_id: str) -> Any:
    return _gymnasium().spec(env_id)


def evaluate_in_gymnasium(
    policy: Policy, chosen: Match, episodes: int, *, seed: int = 0, explore: bool = False
) -> GymnasiumEvaluation:
    """Play episodes in unmodified environments of Gymnasium, side by side.

    Args:
        policy: who acts.
        chosen: in which environment.
        episodes: how many.
        seed: of the first episode; the next ones count on.
        explore: sample actions instead of taking the best.
    """
    envs = [_make(chosen) for _ in range(episodes)]
    _check_fit(policy, envs[0], chosen)
    observations = [env.reset(seed=seed + i)[0] for i, env in enumerate(envs)]
    returns, lengths, distance = np.zeros(episodes), np.zeros(episodes, int), np.zeros(episodes)
    knows_speed = True
    playing = list(range(episodes))
    for _ in range(DEFAULT_LIMIT):
        # All episodes every time, also those that are over: one shape, one compilation.
        actions = policy.act(np.stack(observations, -1), explore=explore)
        for i in list(playing):
            observations[i], reward, terminated, truncated, info = envs[i].step(_action(actions, i))
            returns[i] += reward
            lengths[i] += 1
            knows_speed &= "x_velocity" in info
            distance[i] += info.get("x_velocity", 0.0)
            if terminated or truncated:
                playing.remove(i)
        if not playing:
            break
    for env in envs:
        env.close()
    return GymnasiumEvaluation(
        env=chosen,
        episodes=episodes,
        length=float(lengths.mean()),
        length_standard_error=standard_error(lengths),
        score=group_score(returns),
        forward_speed=float((distance / lengths).mean()) if knows_speed else None,
    )


def _make(chosen: Match) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Gymnasium has to say about versions
        return _gymnasium().make(chosen.id, **chosen.kwargs)


def _check_fit(policy: Policy, env: Any, chosen: Match) -> None:
    expected = (policy.observation_space.size,)
    if env.observation_space.shape != expected:
        raise ValueError(
            f"The policy looks at {expected[0]} numbers, but observations of {chosen.id} have the shape "
            f"{list(env.observation_space.shape)}."
        )


def _action(actions: np.ndarray, lane: int) -> Any:
    """One lane's action as Gymnasium wants it: a number for a choice, else an array."""
    return int(actions[lane]) if actions.ndim == 1 else actions[:, lane]


def policy_for(policies: Any, states: Mapping[str, Any]) -> Policy:
    """The only policy of a run, ready to act."""
    name = next(iter(policies.groups))
    groups = policies.groups[name]
    if len(policies.groups) > 1 or len(groups) > 1 or groups[0].size > 1:
        raise ValueError("Gymnasium's environments have a single agent, and this run has several.")
    return Policy(name, policies.algorithms[name], states[name], groups[0].observation, groups[0].action)
