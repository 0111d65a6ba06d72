"""From what a user writes to a whole configuration: presets, and settings by their plain names."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from slipstream.algos.settings import ALGORITHMS
from slipstream.envs.env import Env, Group
from slipstream.envs.registry import AnyEnv, env_name, env_options, make_env, nearest_names
from slipstream.names import is_gymnasium, object_name
from slipstream.spaces import Box, Discrete
from slipstream.training.config import DRIVERS, FusedConfig, PipelineConfig, PolicyConfig, TrainConfig
from slipstream.training.config_json import changed, field_names, make_settings
from slipstream.training.pipeline.agent import agent_group
from slipstream.training.pipeline.simulators import simulator_options, simulator_spaces
from slipstream.training.policies import check_policies
from slipstream.training.presets import DEFAULT, GYMNASIUM, PRESETS, preset
from slipstream.training.schedule import check_schedule

EVALUATED_EPISODES = 20
"""Of an evaluation in an environment of Gymnasium: one at a time, they take longer than compiled worlds."""

RUN, DRIVER, POLICY, ALGORITHM, WORLD = "the run", "the driver", "the policies", "the algorithm", "the world"


def default_config(
    env: AnyEnv,
    *,
    algo: str | None = None,
    settings: Mapping[str, Any] | None = None,
    policies: Mapping[str, PolicyConfig] | None = None,
    env_options: Mapping[str, Any] | None = None,
    **changes: Any,
) -> TrainConfig:
    """The preset of a world, with changes.

    Args:
        env: the world.
        algo: how the default policies learn; by default as the preset says.
        settings: changes to the algorithm's settings, for all default policies.
        policies: who learns and how; by default one policy for each group.
        env_options: options of the world.
        **changes: whatever else is to be changed, by its plain name: a field of `TrainConfig` or of its driver, a
            setting of the algorithm, or an option of the world.
    """
    gymnasium = is_gymnasium(env)
    name = gymnasium_name(env) if gymnasium else env_name(env)
    env = name if gymnasium else env
    if algo is None:
        known = name in PRESETS or not gymnasium
        algo = preset(name).algo if known else suitable_algorithm(name, env_options or {})
    if algo not in ALGORITHMS:
        raise ValueError(f"Unknown algorithm {algo!r}: {nearest_names(algo, list(ALGORITHMS))}")
    base = preset(name, algo, GYMNASIUM if gymnasium else DEFAULT)
    options = {**base.env_options, **(env_options or {})}
    driver = (
        PipelineConfig(rollout_length=base.rollout_length)
        if gymnasium
        else FusedConfig(num_worlds=base.num_worlds, rollout_length=base.rollout_length)
    )
    chosen = make_settings(algo, settings or {}, base.settings(algo))
    placeholder = {"": PolicyConfig((), algo, chosen)} if policies is None else policies
    config = TrainConfig(
        name,
        placeholder,
        options,
        driver=driver,
        total_steps=base.total_steps,
        evaluate_every=None if gymnasium else base.evaluate_every,
        evaluate_episodes=EVALUATED_EPISODES if gymnasium else base.evaluate_episodes,
    )
    config = with_changes(config, changes, env, explicit={ALGORITHM: settings or {}, WORLD: env_options or {}})
    if "schedule" not in changes and config.env_options == base.env_options:
        config = dataclasses.replace(config, schedule=base.schedule)
    if policies is None:
        groups = groups_of(env, config)
        (template,) = config.policies.values()
        policies = {g.name: dataclasses.replace(template, groups=(g.name,)) for g in groups}
        config = dataclasses.replace(config, policies=policies)
    check_config(env, config)
    return config


def check_config(env: AnyEnv, config: TrainConfig) -> None:
    """Refuse policies and schedules that do not fit the world."""
    check_policies(groups_of(env, config), config.policies)
    check_schedule(env, config)


def groups_of(env: AnyEnv, config: TrainConfig) -> Sequence[Group]:
    """Who acts in the world of a configuration."""
    if isinstance(config.driver, PipelineConfig):
        return [agent_group(str(env), config.env_options)]
    return make_env(env, **dict(config.env_options)).groups


def suitable_algorithm(env: str, options: Mapping[str, Any]) -> str:
    """How to learn in an environment of Gymnasium of which nothing more is known: a matter of what is done there."""
    _, action = simulator_spaces(env, options)
    wanted = "sac" if isinstance(action, Box) else "dqn" if isinstance(action, Discrete) else "ppo"
    return wanted if wanted in ALGORITHMS else "ppo"


def gymnasium_name(env: Any) -> str:
    """The name of an environment of Gymnasium's, by which other processes find it."""
    return env if isinstance(env, str) else object_name(env, "environment")


def with_changes(
    config: TrainConfig,
    changes: Mapping[str, Any],
    env: AnyEnv | None = None,
    explicit: Mapping[str, Mapping[str, Any]] | None = None,
) -> TrainConfig:
    """A configuration with values changed by their plain names.

    Args:
        config: what to start from.
        changes: names and values.
        env: the world, where it cannot be made from its name.
        explicit: names that were given for the algorithm or the world in so many words, and are not ambiguous.
    """
    places = _places(config, env)
    by_place: dict[str, dict[str, Any]] = {place: {} for place in places}
    for name, value in changes.items():
        by_place[_place_of(name, places, explicit or {})][name] = value
    if by_place[RUN].get("total_seconds") is not None and "total_steps" not in by_place[RUN]:
        by_place[RUN]["total_steps"] = None  # whoever gives a time wants all of it
    plain = {name: value for name, value in by_place[RUN].items() if name != "env_options"}
    policies = {n: _changed_policy(p, by_place[POLICY], by_place[ALGORITHM]) for n, p in config.policies.items()}
    options = {**config.env_options, **by_place[RUN].get("env_options", {}), **by_place[WORLD]}
    run = changed(config, plain) if plain else config
    return dataclasses.replace(
        run, policies=policies, env_options=options, driver=changed(config.driver, by_place[DRIVER])
    )


def _places(config: TrainConfig, env: AnyEnv | None) -> dict[str, list[str]]:
    """Which names there are, by what they belong to."""
    settings = {name for p in config.policies.values() for name in field_names(type(p.settings))}
    return {
        RUN: [n for n in field_names(TrainConfig) if n not in ("env", "policies", "driver")],
        DRIVER: [n for n in field_names(type(config.driver)) if n != "kind"],
        POLICY: ["network"],
        ALGORITHM: sorted(settings),
        WORLD: _options_of(config.env if env is None else env),
    }


def _options_of(env: AnyEnv) -> list[str]:
    if is_gymnasium(env):
        return list(simulator_options(gymnasium_name(env)) or {})
    return [] if isinstance(env, Env) else list(env_options(env))


def _place_of(name: str, places: Mapping[str, list[str]], explicit: Mapping[str, Mapping[str, Any]]) -> str:
    homes = [place for place, names in places.items() if name in names and name not in explicit.get(place, {})]
    if len(homes) == 1:
        return homes[0]
    if homes:
        raise ValueError(
            f"{name!r} is ambiguous: it belongs to {' and to '.join(homes)}. Say which one is meant, with "
            f"settings={{{name!r}: ...}} (--set) or env_options={{{name!r}: ...}} (--option)."
        )
    for kind, other in DRIVERS.items():
        if name in field_names(other) and name not in places[DRIVER]:
            raise ValueError(
                f"{name!r} is a setting of the {kind} driver; this world runs in another one, whose settings are "
                f"{', '.join(places[DRIVER])}."
            )
    known = [n for names in places.values() for n in names]
    raise ValueError(f"Unknown setting {name!r}: {nearest_names(name, known)}")


def _changed_policy(policy: PolicyConfig, changes: Mapping[str, Any], settings: Mapping[str, Any]) -> PolicyConfig:
    known = field_names(type(policy.settings))
    fitting = {name: value for name, value in settings.items() if name in known}
    made = make_settings(policy.algo, fitting, policy.settings) if fitting else policy.settings
    return dataclasses.replace(policy, settings=made, **changes)
