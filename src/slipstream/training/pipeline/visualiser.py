"""The visualiser: a process that keeps a film of an episode of the newest policy in the run's directory.

It rests between two films, so that it takes no more than its share of a core. Nobody waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from slipstream.training.film import FilmError
from slipstream.training.pipeline.child import Job, give_up, run_child
from slipstream.training.pipeline.filming import film_episode, filmed_simulator
from slipstream.training.pipeline.numpy_policy import NumpyPolicy
from slipstream.training.pipeline.status import Reporter, Status
from slipstream.training.pipeline.weights import NONE, Weights

PAUSE = 0.05
"""Seconds between two looks for newer weights."""


def visualise(job: Job) -> None:
    """Film the newest policy again and again, until the learner says stop."""
    reporter = Reporter(Status.from_json(job["status"]), job["column"])
    weights = Weights.from_json(job["weights"])
    arrays = weights.empty()
    policy = NumpyPolicy(job["recipe"], arrays)
    file, seed = Path(job["file"]), job["seed"]
    try:
        simulator = filmed_simulator(job["env"], job["options"], seed, file)
    except FilmError as error:
        give_up(str(error))

    def alive(steps: int) -> bool:
        reporter.alive()
        reporter.add("steps", steps)
        return not reporter.told_to_stop

    def written(frames: Iterable[int]) -> Iterator[int]:
        for frame in frames:
            reporter.alive()
            yield frame

    version, rested = NONE, 0.0
    while not reporter.told_to_stop:
        reporter.alive()
        if weights.version == version or time.monotonic() < rested:
            time.sleep(PAUSE)
            continue
        began, version = time.monotonic(), weights.read(arrays)
        policy.renew()
        reporter.put("version", version)
        filmed = film_episode(simulator, policy, file, seed=seed, limit=job["limit"], alive=alive, show=written)
        if filmed is not None:
            reporter.add("episodes", 1)
            reporter.add("lengths", filmed.steps)
            reporter.add("returns", filmed.reward)
        rested = time.monotonic() + (time.monotonic() - began) * (1.0 / job["share"] - 1.0)
    simulator.close()


if __name__ == "__main__":
    run_child(visualise)
