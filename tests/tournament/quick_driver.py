"""A driver whose pods train nothing: real processes, leaderboards, storage and Ray, and agents within milliseconds."""

import contextlib
import json
import os
import random
import sys
import time

import numpy as np

ACKNOWLEDGED = "SLIPSTREAM_TEST_ACKNOWLEDGED"
"""A file to which submissions are added as soon as they are acknowledged, a line of JSON for each."""

TRAINING = "SLIPSTREAM_TEST_TRAINING"
"""Set: pods train as ever."""

if ACKNOWLEDGED in os.environ and TRAINING not in os.environ:  # in a driver or a pod
    import without_jax  # noqa: F401

from slipstream.tournament import cluster, driver, pod  # noqa: E402
from slipstream.tournament.leaderboard import Leaderboard  # noqa: E402
from slipstream.training.evaluate import Evaluation, GroupScore  # noqa: E402


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


class NotingLeaderboard(Leaderboard):
    """Notes what it has acknowledged, in one write, which a kill of this process cannot undo."""

    def submit(self, submission, patience=0.0):
        entry = super().submit(submission, patience)
        line = json.dumps({"id": entry.id, "number": entry.number, "score": entry.score, "seed": entry.seed}) + "\n"
        file = os.open(os.environ[ACKNOWLEDGED], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)
        return entry


class QuickPod(cluster.PodProcess):
    def __init__(self, *arguments):
        pod.Leaderboard = NotingLeaderboard
        if TRAINING not in os.environ:
            pod.make_trainee = QuickTrainee
        super().__init__(*arguments)


if __name__ == "__main__":
    import quick_driver  # by this name the pods find it too

    cluster.PodProcess = quick_driver.QuickPod
    sys.exit(driver.main())
