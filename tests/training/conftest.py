"""Small trainers that compile fast."""

import dataclasses
from pathlib import Path

import jax
import numpy as np
import pytest

from slipstream.algos.settings import A2CConfig, DQNConfig, PPOConfig, SACConfig
from slipstream.runs.checkpoint import save_checkpoint
from slipstream.runs.directory import RunDirectory
from slipstream.training.config import FusedConfig, PolicyConfig, TrainConfig
from slipstream.training.config_json import to_json
from slipstream.training.fused import FusedTrainer

WORLDS = Path(__file__).with_name("training_worlds.py")
REPLAY = dict(batch_size=8, warm_up=20, replay_size=100, updates_per_step=0.25, n_step=2)
SETTINGS = {
    "ppo": PPOConfig(hidden=(8,), epochs=2, minibatches=2, learning_rate=0.01),
    "a2c": A2CConfig(hidden=(8,)),
    "dqn": DQNConfig(hidden=(8,), **REPLAY),
    "sac": SACConfig(hidden=(8,), **REPLAY),
}


@pytest.fixture(autouse=True, scope="module")
def compile_well(request):
    """Training on the ladders is long enough that it pays to compile well."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", before and "ladder" not in request.module.__name__)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture
def make_config():
    """`make_config(world, policies=..., **fields)`: a run of 4 worlds, 4 steps and 5 iterations."""

    def make(world: str = "Walker", groups: tuple[str, ...] = ("walker",), algo: str = "ppo", **fields) -> TrainConfig:
        policies = fields.pop("policies", None) or {g: PolicyConfig((g,), algo, SETTINGS[algo]) for g in groups}
        sizes = {n: fields.pop(n, v) for n, v in dict(num_worlds=4, rollout_length=4, stagger=False).items()}
        usual = dict(driver=FusedConfig(**sizes), total_steps=5 * 16, seed=3, checkpoint_every=1e9)
        return TrainConfig(f"{WORLDS}:{world}", policies, **{**usual, **fields})

    return make


@pytest.fixture
def trained(make_config):
    """`trained(config, iterations)`: a trainer after so many iterations."""

    def train(config: TrainConfig, iterations: int) -> FusedTrainer:
        trainer = FusedTrainer(config)
        for _ in range(iterations):
            trainer.iterate()
        return trainer

    return train


@pytest.fixture
def save():
    """`save(trainer, path)`: a run directory with a checkpoint of a trainer as it is."""

    def write(trainer: FusedTrainer, path) -> RunDirectory:
        run = RunDirectory.create(path, to_json(trainer.config))
        parts, facts = trainer.save()
        save_checkpoint(run, trainer.step, parts, {**facts, "seconds": 0.0}, 3)
        run.release()
        return run

    return write


@pytest.fixture
def policy():
    """`policy(*groups, **fields)`: a small policy."""

    def make(*groups: str, algo: str = "ppo", settings=None, **fields) -> PolicyConfig:
        chosen = dataclasses.replace(SETTINGS[algo], **(settings or {}))
        return PolicyConfig(groups, algo, chosen, **fields)

    return make


@pytest.fixture
def same():
    """`same(a, b)`: whether two dictionaries of arrays, or two pytrees, are the same bit for bit."""

    def compare(a, b) -> bool:
        x, y = jax.tree.leaves(a), jax.tree.leaves(b)
        assert len(x) == len(y)
        return all(np.asarray(u).tobytes() == np.asarray(v).tobytes() for u, v in zip(x, y))

    return compare
