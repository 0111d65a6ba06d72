"""How each world is trained when nothing else is said: instances, not subclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from slipstream.algos.settings import ALGORITHMS, PPOConfig, Settings


@dataclass(frozen=True)
class Preset:
    """Where `slipstream train NAME` starts from; every value can be overridden."""

    algo: str = "ppo"
    num_worlds: int = 1024
    rollout_length: int = 32
    total_steps: int = 5_000_000
    evaluate_every: int | None = None
    env_options: Mapping[str, Any] = field(default_factory=dict)
    tuned: tuple[Settings, ...] = ()
    """Settings that suit the world, of the algorithms for which they are known."""

    def settings(self, algo: str) -> Settings:
        kind = ALGORITHMS[algo].settings
        return next((s for s in self.tuned if type(s) is kind), kind())


DEFAULT = Preset()

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
    tuned=(ROBOT_PPO,),
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
    "cartpole": Preset(
        num_worlds=128,
        rollout_length=32,
        total_steps=500_000,
        tuned=(PPOConfig(learning_rate=3e-3, epochs=10, minibatches=4, discount=0.98, trace=0.9),),
    ),
    **dict.fromkeys(("humanoid", "humanoid-standup", "ant"), ROBOT),
    **dict.fromkeys(("humanoid-run", "humanoid-flagrun", "ant-run"), replace(ROBOT, total_steps=28_000_000)),
    "humanoid-flagrun-harder": GETTING_UP,
    # As it was trained for docs/results.md, when a feature that had long been 0 (the heights ahead, until a world rises
    # to level 1) still exploded as it first varied.
    "humanoid-flagrun-harder-terrain": replace(GETTING_UP, tuned=(replace(ROBOT_PPO, normalize_observation=False),)),
    **dict.fromkeys(("hopper", "walker2d"), HOPPING),
    **dict.fromkeys(("half-cheetah", "swimmer", "reacher"), SMALL_ROBOT),
    **dict.fromkeys(("inverted-pendulum", "inverted-double-pendulum"), SMALL_ROBOT),
    "mountain-car-continuous": Preset(tuned=(PPOConfig(initial_log_std=0.5, discount=0.999),)),
    "pendulum": Preset(
        rollout_length=64,
        tuned=(PPOConfig(learning_rate=1e-3, epochs=8, minibatches=8, discount=0.95, reward_scale=0.1),),
    ),
}


def preset(env: str) -> Preset:
    return PRESETS.get(env, DEFAULT)
