"""Every algorithm that learns from replay climbs the ladder of tiny worlds, with values that are known."""

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from slipstream.algos import continuous, dqn
from slipstream.algos.algo import Inputs
from slipstream.algos.heads import head_for
from slipstream.algos.settings import DDPGConfig, DQNConfig, SACConfig, Settings, TD3Config
from slipstream.training.config import FusedConfig, PolicyConfig, TrainConfig
from slipstream.training.fused import FusedTrainer

WORLDS = Path(__file__).with_name("ladder_worlds.py")
SLOW = pytest.mark.slow
DISCOUNT = 0.8
COMMON = dict(
    discount=DISCOUNT,
    hidden=(32, 32),
    normalize_observation=False,
    learning_rate=3e-3,
    target_rate=0.05,
    warm_up=1000,
    replay_size=8192,
    batch_size=64,
    updates_per_step=1 / 8,
)
ALGOS: dict[str, Settings] = {
    "dqn": DQNConfig(**COMMON, exploration_updates=200, exploration_final=0.2),
    "sac": SACConfig(**COMMON, initial_temperature=0.01),
    "td3": TD3Config(**COMMON, exploration_noise=0.3),
    "ddpg": DDPGConfig(**COMMON, exploration_noise=0.3),
}


def learn(world: str, algo: str | dict[str, str], iterations: int = 40, **changes) -> FusedTrainer:
    """A trainer that has learned; `algo`: of the only policy, or of the policy of each group."""
    algos = {"agent": algo} if isinstance(algo, str) else algo
    policies = {g: PolicyConfig((g,), a, dataclasses.replace(ALGOS[a], **changes)) for g, a in algos.items()}
    driver = FusedConfig(num_worlds=32, rollout_length=8)
    trainer = FusedTrainer(TrainConfig(f"{WORLDS}:{world}", policies, driver=driver))
    for _ in range(iterations):
        trainer.iterate()
    return trainer


def best_actions(
    trainer: FusedTrainer, observations: list[list[float]], mask: jax.Array | None = None, policy: str = "agent"
) -> np.ndarray:
    x = jnp.asarray(observations, jnp.float32).T
    algorithm = trainer.policies.algorithms[policy]
    choice = algorithm.act(trainer.actors[policy], Inputs(x, mask), explore=False, key=jax.random.key(0))
    return np.asarray(choice.action)


def values(trainer: FusedTrainer, observations: list[list[float]], policy: str = "agent") -> np.ndarray:
    """Of the best action in each of some situations."""
    learner, config = trainer.states[policy], trainer.config.policies[policy].settings
    space = trainer.policies.groups[policy][0].action
    x = jnp.asarray(observations, jnp.float32).T
    head = head_for(config)
    if isinstance(config, DQNConfig):
        parts = dqn.values(config, head, space.choices, learner.network.value, x)
        return np.mean([head.mean(head.distribution(p)).max(axis=0) for p in parts], axis=0)
    action = jnp.asarray(best_actions(trainer, observations, policy=policy) / space.highs[:, None])
    out = continuous.values(learner.critics.value, x, action)
    return np.asarray(head.mean(head.distribution(out)).mean(axis=0))


PHASES = [[0.5 * phase - 0.75] for phase in range(4)]
ROUND = [DISCOUNT ** (3 - phase) / (1 - DISCOUNT**4) for phase in range(4)]
"""The values of `Round`."""

VARIANTS = [
    pytest.param({}, id="plain"),
    pytest.param(dict(double=False, n_step=1), id="single one-step", marks=SLOW),
    pytest.param(
        dict(dueling=True, atoms=41, value_range=(-1.0, 6.0), layer_norm=True), id="dueling distribution", marks=SLOW
    ),
    pytest.param(dict(priority=0.6), id="priorities", marks=SLOW),
]


@pytest.mark.parametrize("changes", VARIANTS)
def test_truncation_bootstraps_from_the_final_observation_in_every_variant_of_dqn(changes):
    assert values(learn("Round", "dqn", **changes), PHASES) == pytest.approx(ROUND, abs=0.15)


@pytest.mark.parametrize("changes", VARIANTS)
def test_credit_reaches_an_action_two_steps_back_in_every_variant_of_dqn(changes):
    trainer = learn("DelayedCredit", "dqn", **changes)
    assert best_actions(trainer, [[0.0, 0.0]]).tolist() == [[1]]
    expected = [DISCOUNT**2, DISCOUNT, 1.0]
    assert values(trainer, [[0.0, 0.0], [1.0, 1.0], [2.0, 1.0]]) == pytest.approx(expected, abs=0.15)


def test_two_choices_at_once_are_both_learned():
    trainer = learn("BothButtons", "dqn")
    assert best_actions(trainer, [[0.0]]).ravel().tolist() == [1, 2]


def test_what_is_not_allowed_is_never_done():
    trainer = learn("Forbidden", "dqn")
    before = trainer.totals()
    trainer.iterate()
    assert 0.0 < trainer.totals().since(before).returns["agent"] <= 1.0
    first, second = (jnp.asarray([[True], [i == 0], [False]]) for i in range(2))
    assert best_actions(trainer, [[0.0]], first).item() == 1
    assert best_actions(trainer, [[1.0]], second).item() == 0


@pytest.mark.parametrize("algo", ["sac", "td3", pytest.param("ddpg", marks=SLOW)])
def test_a_continuous_action_finds_its_target(algo):
    trainer = learn("Target", algo)
    assert best_actions(trainer, [[1.0], [-1.0]])[0] == pytest.approx([0.5, -0.5], abs=0.15)


CRITICS = {
    "sac": {},
    "sac, distribution": dict(atoms=41, value_range=(-1.0, 7.0), layer_norm=True, combine="mean"),
    "td3": {},
    "td3, priorities": dict(priority=0.6, n_step=1),
}


@pytest.mark.parametrize("which", ["sac", "td3", *(pytest.param(n, marks=SLOW) for n in list(CRITICS)[1::2])])
def test_truncation_bootstraps_and_termination_does_not(which):
    algo, changes = which.partition(",")[0], CRITICS[which]
    assert values(learn("SteeredRound", algo, **changes), PHASES) == pytest.approx(ROUND, abs=0.2)
    ended = values(learn("SteeredToTheEnd", algo, **changes), [[0.25 * t] for t in range(4)])
    assert ended == pytest.approx([(1 - DISCOUNT ** (4 - t)) / (1 - DISCOUNT) for t in range(4)], abs=0.25)


@pytest.mark.parametrize("algo", ["sac", pytest.param("td3", marks=SLOW), pytest.param("ddpg", marks=SLOW)])
def test_policies_of_their_own_learn_side_by_side_and_nothing_of_agents_that_have_left(algo):
    trainer = learn("Parting", {"chooser": "dqn", "steerer": algo}, iterations=30, updates_per_step=1 / 16)
    staying = [[1.0], [2.0], [3.0]]
    assert best_actions(trainer, staying, policy="chooser").tolist() == [[1, 1, 1]]
    assert (best_actions(trainer, staying, policy="steerer") < -0.6).all()
    expected = [1.0, 1.0 + DISCOUNT, 1.0 + DISCOUNT + DISCOUNT**2]
    for policy in ("chooser", "steerer"):
        assert values(trainer, staying, policy) == pytest.approx(expected, abs=0.25), policy
