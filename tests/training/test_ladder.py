"""Every algorithm learns a ladder of tiny worlds, with values that are known."""

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from slipstream.algos.algo import Inputs
from slipstream.algos.settings import A2CConfig, PPOConfig
from slipstream.nets.normalizer import normalized
from slipstream.training.config import FusedConfig, PolicyConfig, TrainConfig
from slipstream.training.fused import FusedTrainer

WORLDS = Path(__file__).with_name("ladder_worlds.py")
DISCOUNT = 0.8

COMMON = dict(discount=DISCOUNT, hidden=(32, 32), normalize_observation=False, initial_log_std=-1.0)
ALGOS = {
    "ppo": PPOConfig(learning_rate=3e-3, epochs=4, minibatches=4, **COMMON),
    "a2c": A2CConfig(learning_rate=4e-3, trace=0.95, max_grad_norm=2.0, value_cost=1.0, **COMMON),
}
ITERATIONS = {"ppo": 60, "a2c": 400}


def learn(world: str, algo: str, changes: dict | None = None, iterations: int | None = None) -> FusedTrainer:
    settings = dataclasses.replace(ALGOS[algo], **(changes or {}))
    policy = PolicyConfig(("agent",), algo, settings)
    iterations = iterations or ITERATIONS[algo]
    config = TrainConfig(
        f"{WORLDS}:{world}",
        {"agent": policy},
        driver=FusedConfig(num_worlds=128, rollout_length=8),
        total_steps=iterations * 128 * 8,
    )
    trainer = FusedTrainer(config)
    for _ in range(iterations):
        trainer.iterate()
    return trainer


def values(trainer: FusedTrainer, observations: list[list[float]]) -> np.ndarray:
    learner = trainer.states["agent"]
    x = jnp.asarray(observations, jnp.float32).T
    return np.asarray(learner.network.value(normalized(learner.normalizer, x)))


def best_actions(trainer: FusedTrainer, observations: list[list[float]]) -> np.ndarray:
    algorithm = trainer.policies.algorithms["agent"]
    x = jnp.asarray(observations, jnp.float32).T
    choice = algorithm.act(trainer.actors["agent"], Inputs(x), explore=False, key=jax.random.key(0))
    return np.asarray(choice.action)


@pytest.fixture(params=list(ALGOS))
def algo(request) -> str:
    return request.param


def test_a_constant_reward_is_the_value(algo):
    assert values(learn("ConstantReward", algo), [[0.0]]) == pytest.approx([1.0], abs=0.05)


def test_the_value_depends_on_the_observation(algo):
    trainer = learn("RewardIsObservation", algo)
    assert values(trainer, [[1.0], [-1.0]]) == pytest.approx([1.0, -1.0], abs=0.05)


def test_a_later_reward_is_discounted(algo):
    trainer = learn("TwoSteps", algo)
    assert values(trainer, [[0.0], [1.0]]) == pytest.approx([DISCOUNT, 1.0], abs=0.05)


def test_the_better_action_is_found_for_each_observation(algo):
    trainer = learn("ActionMatters", algo)
    assert best_actions(trainer, [[1.0], [-1.0]]).tolist() == [[1, 0]]
    assert values(trainer, [[1.0], [-1.0]]) == pytest.approx([1.0, 1.0], abs=0.15)


def test_two_choices_at_once_are_both_learned(algo):
    trainer = learn("BothButtons", algo)
    assert best_actions(trainer, [[0.0]]).ravel().tolist() == [1, 2]
    assert values(trainer, [[0.0]]) == pytest.approx([1.0], abs=0.15)


def test_a_continuous_action_finds_its_target(algo):
    trainer = learn("Target", algo)
    assert best_actions(trainer, [[1.0], [-1.0]])[0] == pytest.approx([0.5, -0.5], abs=0.15)


def test_credit_reaches_an_action_two_steps_back(algo):
    trainer = learn("DelayedCredit", algo)
    assert best_actions(trainer, [[0.0, 0.0]]).tolist() == [[1]]
    expected = [DISCOUNT**2, DISCOUNT, 1.0]
    assert values(trainer, [[0.0, 0.0], [1.0, 1.0], [2.0, 1.0]]) == pytest.approx(expected, abs=0.15)


def test_truncation_bootstraps_from_the_final_observation(algo):
    trainer = learn("Truncated", algo)
    observations = [[0.0], [0.25], [0.5], [0.75]]
    assert values(trainer, observations) == pytest.approx([1 / (1 - DISCOUNT)] * 4, rel=0.12)


def test_termination_does_not_bootstrap(algo):
    trainer = learn("Terminated", algo)
    expected = [(1 - DISCOUNT ** (4 - t)) / (1 - DISCOUNT) for t in range(4)]
    assert values(trainer, [[0.25 * t] for t in range(4)]) == pytest.approx(expected, abs=0.15)


@pytest.mark.parametrize("memory", ["none", "gru", pytest.param("lstm", marks=pytest.mark.slow)])
def test_only_a_policy_with_a_memory_remembers_a_hint(algo, memory):
    """`Recall` pays 1 for what was shown two steps ago, and a guess is right half of the time."""
    settings = dict(memory=memory, memory_size=16, entropy_cost=0.01)
    iterations = {"ppo": 80, "a2c": 500}[algo]
    trainer = learn("Recall", algo, settings, iterations)
    before = trainer.totals()
    for _ in range(4):
        trainer.iterate()
    earned = trainer.totals().since(before).returns["agent"]
    if memory == "none":
        assert earned < 0.6
    else:
        assert earned > 0.95
