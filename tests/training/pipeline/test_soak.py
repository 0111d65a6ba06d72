"""A pipeline with a killer at work: SLIPSTREAM_SOAK_SECONDS says for how long (60; 600 for a release)."""

import os
import random
import signal
import time

import jax
import numpy as np
import pytest

from slipstream.algos.settings import SACConfig
from slipstream.training.pipeline.crew import EVALUATOR, SAMPLERS
from slipstream.training.pipeline.workers import ENOUGH_STEPS

SECONDS = float(os.environ.get("SLIPSTREAM_SOAK_SECONDS", "60"))
SAC = SACConfig(hidden=(16,), batch_size=64, warm_up=500, replay_size=20_000, n_step=1, discount=0.9)


def broken_rows(numbers: np.ndarray, slices) -> np.ndarray:
    """Rows that no environment has gone through, `[rows, width]`."""
    before, after = numbers[:, slices["observation"]], numbers[:, slices["next_observation"]]
    reward, discount = numbers[:, slices["reward"].start], numbers[:, slices["discount"].start]
    pattern = np.array([1.0, 2.0, -1.0])
    whole = (before == before[:, :1] * pattern).all(axis=1) & (after == after[:, :1] * pattern).all(axis=1)
    return numbers[~(whole & (reward == 5 * before[:, 0] + after[:, 0]) & (discount == np.float32(0.9)))]


@pytest.mark.slow
def test_a_pipeline_survives_a_killer(pipeline_config, at_work):
    rng = random.Random(0)
    driver = {"updates_per_iteration": 4, "patience": 3.0, "evaluator_share": 0.2}
    config = pipeline_config("Consistent", algo="sac", settings=SAC, driver=driver, evaluate_episodes=4)
    killed = 0
    with at_work(config) as pipeline:
        trainer, crew = pipeline.trainer, pipeline.trainer.crew
        slices = trainer.feed._layout.slices
        columns = {"evaluator": EVALUATOR, "sampler 0": SAMPLERS, "sampler 1": SAMPLERS + 1}
        pipeline.until(lambda: trainer.updates > 0)
        since = {name: 0 for name in columns}
        files = len(os.listdir("/proc/self/fd"))
        end, next_kill = time.monotonic() + SECONDS, 0.0
        while time.monotonic() < end:
            trainer.iterate()
            trainer.verdict(trainer.iteration, trainer.actors)
            numbers = trainer.feed._buffers[0][0]
            assert not len(broken_rows(numbers, slices))
            now = {name: int(crew.status["steps"][column]) for name, column in columns.items()}
            grown = [name for name in columns if now[name] - since[name] > 2 * ENOUGH_STEPS]
            if time.monotonic() > next_kill and grown:
                name = rng.choice(grown)
                os.kill(crew.pids[name], rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSEGV, signal.SIGSTOP]))
                since[name], killed = now[name], killed + 1
                next_kill = time.monotonic() + rng.uniform(0.1, 1.0)
        replaced = trainer.figures()["pipeline/processes_replaced"]
        print(f"{killed} killed, {replaced:.0f} replaced, {trainer.updates} updates, {trainer.samples} samples")
        assert killed > SECONDS / 10
        assert len(pipeline.warnings) > killed / 2
        assert len(os.listdir("/proc/self/fd")) <= files + 5
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(jax.device_get(trainer.learner.state)))
        everything = trainer.feed.ring.rows_in_memory()["rows"][:, : 4 * trainer.feed.ring.width]
        assert not len(broken_rows(np.ascontiguousarray(everything).view(np.float32), slices))
