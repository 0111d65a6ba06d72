"""A driver whose pods train nothing: real processes, leaderboards, storage and Ray, and agents within milliseconds."""

import contextlib
import os
import random
import sys
import time
from pathlib import Path

import numpy as np

from slipstream.tournament import cluster, driver, pod
from slipstream.training.evaluate import Evaluation, GroupScore

ACKNOWLEDGED = "SLIPSTREAM_TEST_ACKNOWLEDGED"
"""A file to which the ids of agents are added whose submission was acknowledged."""


class QuickTrainee:
    """A few numbers instead of a network."""

    def __init__(self, plan, pool, settings):
        self.plan, self.pool = plan, pool

    def begin(self, seed, settings, learner, source):
        self.step, self.age = 0, 0 if learner is None else int(learner["age"][0])
        self.numbers = np.random.default_rng(seed).normal(size=100)

    def working(self):
        return contextlib.nullcontext()

    def iterate(self):
        self.step, self.age = self.step + 1, self.age + 1
        time.sleep(0.01)

    def oppose(self, opponents): ...

    def judge(self):
        return Evaluation(2, 1.0, 0.1, {"cart": GroupScore(random.random(), 0.1, 0.0, 1.0)}, {})

    def save(self):
        parts = {"actor": {"w": self.numbers}, "learner": {"w": self.numbers, "age": np.array([self.age])}}
        return self.plan.train, parts, {}


class QuickPod(cluster.PodProcess):
    def run(self, job):
        pod.make_trainee = QuickTrainee
        report = super().run(job)
        if report.entry is not None:
            with Path(os.environ[ACKNOWLEDGED]).open("a") as file:
                file.write(report.entry.id + "\n")
        return report


if __name__ == "__main__":
    import quick_driver  # by this name the pods find it too

    cluster.PodProcess = quick_driver.QuickPod
    sys.exit(driver.main())
