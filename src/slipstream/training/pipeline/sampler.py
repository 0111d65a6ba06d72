"""A sampler: a process that steps several environments with the newest weights, and writes down what happens.

It is started as `python -m slipstream.training.pipeline.sampler` with its job on standard input, and shares memory with
the learner: weights come in, experience and counters go out.
"""

from __future__ import annotations

import time
from typing import Protocol

import numpy as np

from slipstream.replay.layout import RowLayout
from slipstream.spaces import Box, from_json
from slipstream.training.pipeline.blocks import Block
from slipstream.training.pipeline.child import Job, run_child
from slipstream.training.pipeline.flock import Flock
from slipstream.training.pipeline.numpy_policy import NumpyPolicy
from slipstream.training.pipeline.ring import Region
from slipstream.training.pipeline.rollouts import RolloutWriter, Slabs
from slipstream.training.pipeline.simulators import ODDITIES, Simulator
from slipstream.training.pipeline.status import Reporter, Status
from slipstream.training.pipeline.transitions import TransitionWriter
from slipstream.training.pipeline.weights import NONE, Weights

PAUSE = 0.001
"""Seconds between two looks of somebody who waits."""


class Writer(Protocol):
    """Where experience goes."""

    @property
    def ready(self) -> bool: ...

    def add(
        self,
        observation: np.ndarray,
        action: np.ndarray,
        kept: dict[str, np.ndarray],
        reward: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        following: np.ndarray,
    ) -> None: ...

    def settle(self, observation: np.ndarray) -> None: ...


def make_writer(job: Job) -> Writer:
    experience, lanes, number = job["experience"], job["lanes"], job["number"]
    block = Block.from_json(experience["block"])
    if experience["kind"] == "rollouts":
        return RolloutWriter(Slabs(block, number), experience["steps"], lanes)
    observation = from_json(job["observation"])
    assert isinstance(observation, Box)
    layout = RowLayout.of(observation, from_json(job["action"]), masked=False)
    return TransitionWriter(Region(block, number), layout, lanes, experience["n_step"], experience["discount"])


def sample(job: Job) -> None:
    """Step and write, until the learner says stop."""
    reporter = Reporter(Status.from_json(job["status"]), job["column"])
    seeds = np.random.SeedSequence(job["seed"])
    lanes = job["lanes"]
    flock = Flock(
        [Simulator(job["env"], job["options"], int(s), strict=job["strict"]) for s in seeds.generate_state(lanes)]
    )
    rng = np.random.default_rng(seeds.spawn(1)[0])
    weights = Weights.from_json(job["weights"])
    arrays = weights.empty()
    policy = NumpyPolicy(job["recipe"], arrays)

    def begin() -> tuple[Writer, np.ndarray, np.ndarray]:
        """New episodes, of which nothing is written yet: what is seen, and their returns so far."""
        return make_writer(job), flock.reset(), np.zeros(lanes)

    writer, observation, returns = begin()
    step, began = 0, np.zeros(lanes, np.int64)  # so many steps were there when each episode began
    following = observation.copy()
    odd = dict.fromkeys(ODDITIES, 0)
    version = NONE
    while not reporter.told_to_stop:
        reporter.alive()
        if (life := reporter.new_life) is not None:
            writer, observation, returns = begin()
            began[:] = step
            reporter.put("life", life)
        if not (reporter.may_step and weights.version != NONE and writer.ready):
            time.sleep(PAUSE)
            continue
        if weights.version != version:
            version = weights.read(arrays)
            policy.renew()
            reporter.put("version", version)
        unit, action, kept = policy.act(observation.T, True, rng)
        flock.step(action, observation, following)
        writer.add(observation.T, unit, kept, flock.reward, flock.terminated, flock.truncated, following.T)
        observation, following = following, observation
        returns += flock.reward
        step += 1
        if flock.any_ended:
            ended = flock.terminated | flock.truncated
            for lane in np.flatnonzero(ended).tolist():
                observation[lane] = flock.begin(lane)
            reporter.add("episodes", int(ended.sum()))
            reporter.add("lengths", int((step - began[ended]).sum()))
            reporter.add("returns", float(returns[ended].sum()))
            reporter.add("return_squares", float(np.square(returns[ended]).sum()))
            returns[ended], began[ended] = 0.0, step
            for name in odd:
                now = flock.oddities(name)
                reporter.add(f"oddities/{name}", now - odd[name])
                odd[name] = now
        writer.settle(observation.T)
        reporter.add("steps", lanes)
    flock.close()


if __name__ == "__main__":
    run_child(sample)
