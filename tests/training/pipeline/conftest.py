"""Small pipelines."""

from pathlib import Path

import pytest

from slipstream.algos.settings import PPOConfig
from slipstream.runs.directory import RunDirectory
from slipstream.training.config import PipelineConfig, PolicyConfig, TrainConfig
from slipstream.training.config_json import to_json
from slipstream.training.pipeline.trainer import PipelineTrainer

ENVIRONMENTS = Path(__file__).with_name("faulty_environments.py")
PPO = PPOConfig(hidden=(8,), epochs=1, minibatches=1)


@pytest.fixture
def pipeline_config():
    """`pipeline_config("Faulty", how="raise", settings=..., driver=..., **fields)`"""

    def make(env="Faulty", algo="ppo", settings=PPO, driver=None, total_steps=10**9, seed=3, options=None, **fields):
        sizes = {
            "samplers": 2,
            "envs_per_sampler": 3,
            "rollout_length": 8,
            "evaluator_share": 0.0,
            "film_share": 0.0,
            **(driver or {}),
        }
        policies = {"agent": PolicyConfig(("agent",), algo, settings)}
        return TrainConfig(
            f"{ENVIRONMENTS}:{env}",
            policies,
            options or {},
            driver=PipelineConfig(**sizes),
            total_steps=total_steps,
            seed=seed,
            **fields,
        )

    return make


class Pipeline:
    """A trainer at work, what it has said, and its run."""

    def __init__(self, config: TrainConfig, path: Path):
        self.trainer = PipelineTrainer(config)
        self.run = RunDirectory.create(path, to_json(config))
        self.warnings: list[str] = []
        self.said: list[str] = []
        self._working = self.trainer.working(self.run, self.warnings.append, self.said.append)

    def __enter__(self):
        self._working.__enter__()
        return self

    def __exit__(self, *exception):
        self._working.__exit__(None, None, None)
        self.run.release()

    def until(self, condition) -> None:
        """Learn until something is so."""
        for _ in range(10_000):
            self.trainer.iterate()
            if condition():
                return
        raise AssertionError("it never happens")

    @property
    def log(self) -> str:
        return (self.run.path / "log.txt").read_text()

    @property
    def pids(self) -> list[int]:
        return list(self.trainer.crew.pids.values())


@pytest.fixture
def at_work(tmp_path):
    """`with at_work(config) as pipeline`: a pipeline with its processes."""
    return lambda config: Pipeline(config, tmp_path / "run")
