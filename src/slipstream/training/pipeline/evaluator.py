"""The evaluator: a process that plays whole episodes with the newest weights, in environments and seeds of its own.

It publishes what it found together with the weights it judged, and then rests, so that it takes no more than its share
of a core. Nobody waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from slipstream.training.pipeline.child import Job, run_child
from slipstream.training.pipeline.numpy_policy import NumpyPolicy
from slipstream.training.pipeline.simulators import Simulator
from slipstream.training.pipeline.status import Reporter, Status
from slipstream.training.pipeline.weights import Weights

LIMIT = 10_000
"""Steps after which an episode of an environment without a time limit is cut off."""

PAUSE = 0.01
"""Seconds between two looks for newer weights."""

RETURNS, LENGTHS = "evaluation/returns", "evaluation/lengths"
"""What is published beside the weights, `[episodes]` each."""


def play_episodes(
    simulators: list[Simulator],
    policy: NumpyPolicy,
    seeds: list[int],
    alive: Callable[[int], bool] = lambda steps: True,
    limit: int = LIMIT,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Play one episode with each seed, without exploring; several at a time.

    Args:
        simulators: where.
        policy: who.
        seeds: one for each episode.
        alive: is told of every step of so many environments; False stops it all.
        limit: steps after which an episode is cut off.

    Returns:
        Returns and lengths, `[episodes]` each; None if it was stopped.
    """
    rng = np.random.default_rng(0)  # acting without exploring draws nothing
    returns, lengths = np.zeros(len(seeds)), np.zeros(len(seeds), np.int64)
    waiting = list(range(len(seeds)))[::-1]
    playing: dict[int, int] = {}  # which episode is played in which lane
    for lane in range(min(len(simulators), len(seeds))):
        playing[lane] = waiting.pop()
    first = {lane: simulators[lane].reset(seeds[episode]) for lane, episode in playing.items()}
    observation = np.stack([first[lane] for lane in playing], axis=-1)
    while playing:
        if not alive(len(playing)):
            return None
        _, action, _ = policy.act(observation, False, rng)
        for lane, episode in list(playing.items()):
            seen, reward, terminated, truncated = simulators[lane].step(action[:, lane])
            returns[episode] += reward
            lengths[episode] += 1
            if terminated or truncated or lengths[episode] >= limit:
                del playing[lane]
                if waiting:
                    playing[lane] = waiting.pop()
                    seen = simulators[lane].reset(seeds[playing[lane]])
            observation[:, lane] = seen
    return returns, lengths


def evaluate(job: Job) -> None:
    """Judge the newest weights again and again, until the learner says stop."""
    reporter = Reporter(Status.from_json(job["status"]), job["column"])
    weights, judged = Weights.from_json(job["weights"]), Weights.from_json(job["judged"])
    arrays = weights.empty()
    policy = NumpyPolicy(job["recipe"], arrays)
    seeds = [job["seed"] + i for i in range(job["episodes"])]
    simulators = [Simulator(job["env"], job["options"], seed) for seed in seeds[: job["lanes"]]]

    def alive(steps: int) -> bool:
        reporter.alive()
        reporter.add("steps", steps)
        return not reporter.told_to_stop

    due, rested = job["first"], 0.0
    while not reporter.told_to_stop:
        reporter.alive()
        if weights.version < due or time.monotonic() < rested:
            time.sleep(PAUSE)
            continue
        began, version = time.monotonic(), weights.read(arrays)
        policy.renew()
        reporter.put("version", version)
        found = play_episodes(simulators, policy, seeds, alive)
        if found is None:
            break
        returns, lengths = found
        judged.publish({**arrays, RETURNS: returns, LENGTHS: lengths}, version)
        reporter.add("episodes", len(seeds))
        reporter.add("lengths", int(lengths.sum()))
        reporter.add("returns", float(returns.sum()))
        due = version + job["every"]
        rested = time.monotonic() + (time.monotonic() - began) * (1.0 / job["share"] - 1.0)
    for simulator in simulators:
        simulator.close()


if __name__ == "__main__":
    run_child(evaluate)
