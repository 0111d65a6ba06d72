"""How each world is trained when nothing else is said: instances, not subclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from slipstream.algos.settings import (
    ALGORITHMS,
    DDPGConfig,
    DQNConfig,
    OffPolicyConfig,
    PPOConfig,
    SACConfig,
    Settings,
    TD3Config,
)


@dataclass(frozen=True)
class Preset:
    """Where `slipstream train NAME` starts from; every value can be overridden."""

    algo: str = "ppo"
    num_worlds: int = 1024
    rollout_length: int = 32
    total_steps: int = 5_000_000
    evaluate_every: int | None = None
    evaluate_episodes: int = 100
    env_options: Mapping[str, Any] = field(default_factory=dict)
    schedule: tuple[str, ...] = ()
    """Coarse physics first (see `schedule.py`), where the world has no options of the user's."""
    tuned: tuple[Settings, ...] = ()
    """Settings that suit the world, of the algorithms for which they are known."""
    replay: Preset | None = None
    """What is different for algorithms that learn from replay; None: as for any world."""

    def settings(self, algo: str) -> Settings:
        kind = ALGORITHMS[algo].settings
        return next((s for s in self.tuned if type(s) is kind), kind())


DEFAULT = Preset()

REPLAY = Preset(num_worlds=128, rollout_length=8, total_steps=2_000_000, evaluate_every=400)
"""For algorithms that learn from replay, in any world: few worlds and short rollouts, each learned from many times."""

SLOW = {"learning_rate": 1e-3, "hidden": (128, 128), "updates_per_step": 1.0, "warm_up": 1_000}
"""Settings for environments that are stepped one at a time: their steps are few, so much is learned from each."""

GYMNASIUM = Preset(
    rollout_length=128,
    total_steps=1_000_000,
    replay=Preset(
        total_steps=1_000_000,
        tuned=(SACConfig(**SLOW), TD3Config(**SLOW), DDPGConfig(**SLOW), DQNConfig(**SLOW)),
    ),
)
"""For any environment of Gymnasium."""

ROBOT_SAC = SACConfig(
    learning_rate=1e-3,
    reward_scale=0.1,
    hidden=(128, 128),
    batch_size=128,
    updates_per_step=1 / 16,
)

FEW = 32
"""Episodes of an evaluation, where they are long: a fraction of the time of a hundred (for the humanoid a quarter), for
an error that is less than twice as large."""

ROBOT_REPLAY = replace(REPLAY, evaluate_episodes=FEW, tuned=(ROBOT_SAC,))

SMALL_SAC = SACConfig(
    learning_rate=3e-3,
    discount=0.98,
    batch_size=64,
    updates_per_step=0.5,
    target_rate=0.02,
    warm_up=500,
    replay_size=100_000,
    critics=1,
    n_step=1,
)

SMALL_DQN = DQNConfig(
    learning_rate=1e-3,
    batch_size=64,
    updates_per_step=0.25,
    target_rate=0.02,
    warm_up=1_000,
    replay_size=100_000,
)

SMALL_REPLAY = replace(REPLAY, num_worlds=16, total_steps=200_000, evaluate_every=50, tuned=(SMALL_SAC, SMALL_DQN))
"""For worlds that a few thousand steps teach."""

CHEETAH_REPLAY = replace(
    ROBOT_REPLAY,
    total_steps=4_000_000,
    tuned=(replace(ROBOT_SAC, learning_rate=2e-3, hidden=(64, 64), critics=1, target_rate=0.02),),
)

ANT_REPLAY = replace(
    ROBOT_REPLAY,
    num_worlds=256,
    tuned=(replace(ROBOT_SAC, hidden=(64, 64), critic_hidden=(128, 128), batch_size=256, updates_per_step=1 / 64),),
)

ROBOT_PPO = PPOConfig(
    learning_rate=3e-4,
    target_kl=0.01,
    epochs=4,
    minibatches=8,
    discount=0.99,
    trace=0.95,
    reward_scale=0.1,
    hidden=(128, 128),
    activation="swish",
    initial_log_std=-0.7,
)

ROBOT = Preset(
    num_worlds=512,
    rollout_length=32,
    total_steps=14_000_000,
    evaluate_every=60,
    evaluate_episodes=FEW,
    tuned=(ROBOT_PPO,),
    replay=ROBOT_REPLAY,
)
"""For robots with many joints."""

GETTING_UP = replace(ROBOT, total_steps=60_000_000)

SMALL_ROBOT = replace(ROBOT, num_worlds=256, rollout_length=64, total_steps=6_000_000)
"""For robots whose physics cost little: fewer worlds and longer rollouts learn more from a step."""

HOPPING = replace(SMALL_ROBOT, tuned=(replace(ROBOT_PPO, discount=0.997, trace=0.97),))
"""For robots that fall forward for a quick reward unless they look far ahead."""

PRESETS = {
    "tag-continuous": Preset(
        num_worlds=128,
        rollout_length=25,
        total_steps=500_000,
        tuned=(PPOConfig(learning_rate=1e-3, epochs=2, minibatches=8, entropy_cost=0.003),),
    ),
    "tag-gridworld": Preset(
        num_worlds=256,
        rollout_length=25,
        total_steps=1_000_000,
        tuned=(PPOConfig(learning_rate=1e-3, epochs=2, minibatches=8, entropy_cost=0.003),),
    ),
    **dict.fromkeys(
        ("simple-tag", "simple-spread"),
        Preset(
            num_worlds=256,
            rollout_length=25,
            total_steps=2_000_000,
            tuned=(PPOConfig(learning_rate=1e-3, minibatches=8, discount=0.95, entropy_cost=0.01),),
        ),
    ),
    "cartpole": Preset(
        num_worlds=128,
        rollout_length=32,
        total_steps=500_000,
        tuned=(PPOConfig(learning_rate=3e-3, epochs=10, minibatches=4, discount=0.98, trace=0.9),),
        replay=SMALL_REPLAY,
    ),
    "humanoid": replace(ROBOT, total_steps=24_000_000, schedule=("12M:integrator=euler",)),
    "humanoid-standup": ROBOT,
    "ant": replace(ROBOT, replay=ANT_REPLAY),
    **dict.fromkeys(("humanoid-run", "humanoid-flagrun", "ant-run"), replace(ROBOT, total_steps=28_000_000)),
    "legged": replace(ROBOT, total_steps=15_000_000),
    "humanoid-flagrun-harder": GETTING_UP,
    # As it was trained for docs/results.md, when a feature that had long been 0 (the heights ahead, until a world rises
    # to level 1) still exploded as it first varied.
    "humanoid-flagrun-harder-terrain": replace(GETTING_UP, tuned=(replace(ROBOT_PPO, normalize_observation=False),)),
    **dict.fromkeys(("hopper", "walker2d"), HOPPING),
    "half-cheetah": replace(SMALL_ROBOT, algo="sac", replay=CHEETAH_REPLAY),
    **dict.fromkeys(("swimmer", "reacher"), SMALL_ROBOT),
    **dict.fromkeys(("inverted-pendulum", "inverted-double-pendulum"), SMALL_ROBOT),
    "mountain-car-continuous": Preset(tuned=(PPOConfig(initial_log_std=0.5, discount=0.999),), replay=SMALL_REPLAY),
    **dict.fromkeys(("acrobot", "mountain-car"), Preset(replay=SMALL_REPLAY)),
    "stock-trading": Preset(
        num_worlds=256,
        rollout_length=64,
        total_steps=1_500_000,
        evaluate_every=5,
        tuned=(PPOConfig(minibatches=8, initial_log_std=-1.0),),
    ),
    "pendulum": Preset(
        rollout_length=64,
        tuned=(PPOConfig(learning_rate=1e-3, epochs=8, minibatches=8, discount=0.95, reward_scale=0.1),),
        replay=SMALL_REPLAY,
    ),
}


def _in_gymnasium(algo: str, settings: Settings, total_steps: int) -> Preset:
    """For an environment that is stepped one at a time: as much is learned from each step as there is time for."""
    eager = replace(settings, updates_per_step=1.0, warm_up=1_000)
    return replace(GYMNASIUM, algo=algo, replay=Preset(total_steps=total_steps, tuned=(eager,)))


SUITE_SAC = replace(ROBOT_SAC, reward_scale=1.0)
"""Of the control suite a step is worth 0 to 1, and many tasks are worth nothing until they are almost done."""

SUITE = replace(SMALL_ROBOT, algo="sac", replay=replace(ROBOT_REPLAY, total_steps=4_000_000, tuned=(SUITE_SAC,)))
"""For the control suite's tasks."""

LARGE_SUITE = replace(
    ROBOT,
    algo="sac",
    replay=replace(ROBOT_REPLAY, num_worlds=256, total_steps=8_000_000, tuned=(replace(SUITE_SAC, batch_size=256),)),
)
"""For those with many joints."""

FAMILIES = {"dm-humanoid": LARGE_SUITE, "dm-quadruped": LARGE_SUITE, "dm-": SUITE}
"""By how the names of worlds begin, where they have no preset of their own."""

PRESETS |= {
    "gym:Pendulum-v1": _in_gymnasium("sac", SMALL_SAC, 100_000),
    "gym:HalfCheetah-v5": _in_gymnasium("sac", CHEETAH_REPLAY.tuned[0], 5_000_000),
    **{
        f"gym:{name}-v5": _in_gymnasium("sac", ROBOT_SAC, 5_000_000)
        for name in ("Hopper", "Walker2d", "Ant", "Humanoid")
    },
    **dict.fromkeys(("gym:CartPole-v1", "gym:Acrobot-v1"), _in_gymnasium("dqn", SMALL_DQN, 200_000)),
    "gym:LunarLander-v3": _in_gymnasium("dqn", replace(SMALL_DQN, hidden=(128, 128), discount=0.99), 1_000_000),
}


def preset(env: str, algo: str | None = None, default: Preset = DEFAULT) -> Preset:
    """How a world is trained.

    Args:
        env: the world.
        algo: by which algorithm; None: the one that suits it best.
        default: for a world of which nothing is known.
    """
    family = next((family for start, family in FAMILIES.items() if env.startswith(start)), default)
    found = PRESETS.get(env, family)
    algo = algo or found.algo
    if issubclass(ALGORITHMS[algo].settings, OffPolicyConfig):
        return replace(found.replay or REPLAY, algo=algo, env_options=found.env_options)
    return found
