"""The learner of the pipeline: updates as fast as it can from what samplers write, and publishes what it learns."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from slipstream.algos.algo import SURPRISE, Replay
from slipstream.capacity import available_memory, usable_cores
from slipstream.envs.statistics import EpisodeTotals
from slipstream.replay.layout import RowLayout
from slipstream.runs.checkpoint import Checkpoint
from slipstream.runs.directory import RunDirectory, RunError
from slipstream.runs.reading import REPLAY, with_replay
from slipstream.spaces import Box
from slipstream.training.config import PipelineConfig, TrainConfig
from slipstream.training.evaluate import Verdict
from slipstream.training.pipeline.agent import GROUP, agent_group
from slipstream.training.pipeline.crew import Crew
from slipstream.training.pipeline.feeds import Feed, ReplayFeed, RolloutFeed
from slipstream.training.pipeline.learner import Learner
from slipstream.training.pipeline.numpy_policy import recipe_of
from slipstream.training.pipeline.tuning import (
    GUESSED_LANES,
    Tuning,
    guessed_samplers,
    keep_choice,
    kept_choice,
    sampler_counts,
    search,
)
from slipstream.training.policies import ByPolicy
from slipstream.training.saving import named_arrays

LOOK = 0.2
"""Seconds between two looks at the processes, and the longest that an iteration waits for something to learn from."""

PAUSE = 0.0005
"""Seconds between two looks for something to learn from."""

SAVING_COST = 20.0
"""Writing the replay to checkpoints takes at most one in so many seconds, the last one left out."""

LEARNED_FROM = 16
"""How often a sample is learned from in the mean, at least: samplers that are further ahead take cores that the learner
would make more of."""

TUNE_AFTER = 3.0
"""Seconds of learning before the number of processes is tried out: what is learned in less needs no tuning."""

ROLLOUT_LANES = 8
"""Environments of each sampler where they decide what is learned from at once."""

SETTLED = 5
"""Steps of every environment after which a sampler that has just been started is at work."""


class PipelineTrainer:
    """A training run whose environments live in processes of their own, while it is `working`."""

    def __init__(self, config: TrainConfig, env: str | None = None):
        """Args:
        config: what to train.
        env: the name of the environment, where it is not that of the configuration.
        """
        assert isinstance(config.driver, PipelineConfig)
        self.config, self.driver, self.env = config, config.driver, env or config.env
        group = agent_group(self.env, config.env_options)
        self.group, self.learner = group, Learner(config, group)
        self.policies, self.name = self.learner.policies, self.learner.name
        recipe = recipe_of(config.policies[self.name], group.observation, group.action)
        cores = usable_cores()
        self.samplers = self.driver.samplers or guessed_samplers(cores)
        replays = isinstance(self.learner.algorithm.experience, Replay)
        self.lanes = self.driver.envs_per_sampler or (GUESSED_LANES if replays else ROLLOUT_LANES)
        self._tuning: Tuning | None = None
        self._learning_since = 0.0
        """When the first update began; 0: there was none."""
        most = self.driver.samplers or max(sampler_counts(cores))
        self.feed = self._new_feed()
        self.crew = Crew(config, self.env, group, recipe, self.learner.actor_arrays(), most)
        self.iteration = self.updates = self.step = 0
        self._steps_before = 0
        """Steps of earlier processes."""
        self._samples_before = 0
        """Steps that samplers had taken before this agent began."""
        self._first_version = 0
        """Of the weights of this agent: they are counted on from those of the agents before it."""
        self._age_before = 0
        """Steps that the policy has learned from in other runs."""
        self._spent = {"waiting": 0.0, "gathering": 0.0, "update": 0.0, "publishing": 0.0}
        self._looked = 0.0
        self._figured = (time.perf_counter(), 0, 0)

    def _new_feed(self) -> Feed:
        experience, group = self.learner.algorithm.experience, self.group
        if not isinstance(experience, Replay):
            image = group.observation.image is not None
            size, discrete = group.action.size, not isinstance(group.action, Box)
            steps = self.driver.rollout_length
            return RolloutFeed(group.observation.size, size, image, self.samplers, steps, self.lanes, discrete)
        layout = RowLayout.of(group.observation, group.action, masked=False)
        updates = self.driver.updates_per_iteration or self.learner.affordable_updates(experience.batch)
        return ReplayFeed(experience, layout, self.samplers, updates, self.config.seed)

    def load_starting_points(self) -> None:
        """Begin from an earlier run if the policy is configured so."""
        self.learner.load_starting_point()

    def begin_anew(self, seed: int) -> None:
        """Be what a new trainer of another seed would be, without compiling anything; samplers stay, and wait."""
        self.config = dataclasses.replace(self.config, seed=seed)
        self.crew.forget()
        self.feed.forget()
        self.learner.begin_anew(seed)
        self.iteration = self.updates = self.step = 0
        self._steps_before, self._age_before, self._samples_before = 0, 0, self.crew.samples
        self._first_version = self.crew.weights.version + 1
        self._learning_since = 0.0
        if self._tuning is not None:
            self._tuning.measure_again()

    # Processes.

    @contextlib.contextmanager
    def working(self, run: RunDirectory, warn: Callable[[str], None], say: Callable[[str], None]) -> Iterator[None]:
        """Inside, samplers sample and the evaluator evaluates.

        Args:
            run: what goes wrong with them is in its log, and how many there should be in a file of its own.
            warn: is told in one line what goes wrong.
            say: is told what was measured.
        """
        self._publish()
        try:
            self.crew.start(run, warn)
            self._begin_tuning(run, say)
            self._employ()
            yield
        finally:
            self.crew.stop()

    def go_on(self) -> None:
        """Let samplers work again, with the weights as they are."""
        self._publish()

    def rest(self) -> None:
        """Let samplers wait, until `go_on`."""
        self.crew.allow(0)

    def _begin_tuning(self, run: RunDirectory, say: Callable[[str], None]) -> None:
        driver = self.driver
        said = driver.samplers and driver.envs_per_sampler and not driver.tune
        if not isinstance(self.feed, ReplayFeed) or said or driver.tune is False:
            return
        self._run, self._say = run, say
        known = kept_choice(run, self._kind_of_run())
        if known is None:
            fixed, batch = (driver.samplers, driver.envs_per_sampler), self.feed.experience.batch
            self._tuning = Tuning(search(*fixed, batch, usable_cores(), larger_batches=bool(driver.tune)))
            known = self._tuning.now
        self.samplers, self.lanes = driver.samplers or known.samplers, driver.envs_per_sampler or known.lanes
        self._resize(known.batch)

    def _kind_of_run(self) -> str:
        """Runs for which the same numbers of processes are best, on this machine."""
        policy, options = self.config.policies[self.name], dict(self.config.env_options)
        settings = policy.settings
        sizes = [settings.hidden, getattr(settings, "batch_size", 0), getattr(settings, "updates_per_step", 0)]
        fixed = [self.driver.samplers, self.driver.envs_per_sampler, self.driver.tune, self.learner.split]
        kind = [self.env, options, policy.algo, sizes, fixed, usable_cores(), jax.devices()[0].device_kind]
        return json.dumps(kind, default=str)

    def _employ(self) -> None:
        """Let as many samplers work as there should be. Nothing that was sampled is lost."""
        if isinstance(self.feed, ReplayFeed) and self.feed.ring.regions != self.samplers:
            self.crew.dismiss()
            self.feed.divide(self.samplers)
        self.crew.employ(self.samplers, self.lanes, self.feed.job())
        self._allow()

    def _tune(self) -> None:
        """Measure, and change the number of processes while there is something to be found out."""
        assert self._tuning is not None
        steps = self.crew.steps_since_employed()
        settled = bool(len(steps)) and bool((steps > SETTLED * self.lanes).all())
        change = self._tuning.look(time.perf_counter(), self.samples, self.updates, settled)
        if change is None:
            return
        needed = 1.2 * self.crew.memory_of_a_sampler() * change.lanes / self.lanes
        while self._tuning.best is None and change.samplers * needed > (available_memory() or math.inf):
            change = self._tuning.refuse()
        if self._tuning.best is not None:
            keep_choice(self._run, self._kind_of_run(), self._tuning)
            self._run.log(f"measured:\n{self._tuning.table()}")
            self._say(f"Measured on this machine (--no-tune leaves it out):\n{self._tuning.table()}")
            self._tuning = None
        if (change.samplers, change.lanes) != (self.samplers, self.lanes):
            self.samplers, self.lanes = change.samplers, change.lanes
            self._employ()
        self._resize(change.batch)

    def _resize(self, batch: int) -> None:
        """Let gradient steps have so many samples."""
        assert isinstance(self.feed, ReplayFeed)
        if batch != self.feed.experience.batch:
            self.feed.resize(batch, self.driver.updates_per_iteration or self.learner.affordable_updates(batch))
            self.learner.forget_compiled()

    # Learning.

    @property
    def samples(self) -> int:
        """Steps of all environments together, right now; `step` is how many it were at the last iteration."""
        return self._steps_before + self.crew.samples - self._samples_before

    @property
    def age(self) -> int:
        """Steps that the policy has learned from, in other runs included."""
        return self._age_before + self.step

    @property
    def actors(self) -> ByPolicy:
        """What acts, by policy; good until the next `iterate`, which may reuse its memory."""
        return {self.name: self.learner.actor}

    def iterate(self) -> dict[str, dict[str, Any]]:
        """Learn from a batch and publish the weights. If there is nothing to learn from, nothing happens for a moment.

        Raises:
            TrainingFailed: when an environment fails again and again.
        """
        self._look_after_workers()
        if not self.learner.compiled:
            self.learner.compile_for(self.feed)  # while samplers fill the first batch
        began = time.perf_counter()
        while not self.feed.ready(self.samples, self.updates):
            if time.perf_counter() - began > LOOK:
                self._spent["waiting"] += time.perf_counter() - began
                self.step = self.samples
                return {}
            time.sleep(PAUSE)
        waited = time.perf_counter()
        batch = self.feed.take()
        gathered = time.perf_counter()
        self._learning_since = self._learning_since or gathered
        metrics = self.learner.update(batch, self._elapsed(), self.iteration)
        self.iteration += 1
        self.updates += self.feed.updates
        if self.feed.ready(self.samples, self.updates):
            self.feed.fetch()  # the next batch, while this one is computed
        jax.block_until_ready((self.learner.state, metrics))
        if SURPRISE in metrics:
            assert isinstance(self.feed, ReplayFeed)
            self.feed.surprised(np.asarray(metrics.pop(SURPRISE)))
        updated = time.perf_counter()
        self._publish()
        if self._tuning is not None and time.perf_counter() - self._learning_since > TUNE_AFTER:
            self._tune()
        self.step = self.samples
        self._spent["waiting"] += waited - began
        self._spent["gathering"] += gathered - waited
        self._spent["update"] += updated - gathered
        self._spent["publishing"] += time.perf_counter() - updated
        return {self.name: metrics}

    def _elapsed(self) -> np.float32:
        """How much of its schedules the policy has behind it."""
        total = self.config.budget
        return np.float32(0.0 if total is None else min(self.age / total, 1.0))

    def _publish(self) -> None:
        self.crew.weights.publish(self.learner.actor_arrays(), self._first_version + self.iteration)
        self._allow()

    def _allow(self) -> None:
        """Let samplers go on, as far as they may."""
        feed = self.feed
        if not isinstance(feed, ReplayFeed):
            self.crew.allow(None)
            return
        warm_up = feed.experience.warm_up
        if not self._learning_since:
            # Random actions are only good to begin with; until the first update the learner compiles, and needs cores.
            most = self._steps_before + max(warm_up, feed.updates / feed.experience.updates_per_step)
            most += 2 * feed.experience.n_step * self.lanes * self.samplers  # steps that are not transitions yet
            self.crew.allow(most - self.samples)
        else:
            self.crew.allow(warm_up + self._samples_per_update() * (self.updates + feed.updates) - self.samples)

    def _samples_per_update(self) -> float:
        """At most so many; never so few that the learner would wait for more, and the samplers for it."""
        assert isinstance(self.feed, ReplayFeed)
        experience = self.feed.experience
        most = self.driver.samples_per_update or experience.batch / LEARNED_FROM
        return max(most, 1.0 / experience.updates_per_step)

    def _look_after_workers(self) -> None:
        now = time.perf_counter()
        if now - self._looked > LOOK:
            self._looked = now
            self.crew.check()

    # What the loop reports.

    def totals(self) -> EpisodeTotals:
        """Of all episodes so far."""
        return self.crew.totals()

    def seconds_spent(self) -> dict[str, float]:
        """Where the learner's time has gone so far in this process."""
        return dict(self._spent)

    def figures(self) -> dict[str, float]:
        """How learning and sampling get along, since this was last asked."""
        began, updates, samples = self._figured
        self._figured = now = (time.perf_counter(), self.updates, self.samples)
        seconds, feed = max(now[0] - began, 1e-9), self.feed
        rate = (self.updates - updates) / seconds
        figures = self.crew.figures() | {f"pipeline/{name}": value for name, value in feed.figures().items()}
        return figures | {
            "pipeline/updates_per_second": rate,
            "pipeline/update_frames_per_second": rate * feed.frames / feed.updates,
            "pipeline/updates_per_sample": (self.updates - updates) / max(now[2] - samples, 1),
            "pipeline/policy_lag": figures["pipeline/policy_lag"] * feed.updates,
        }

    # Checkpoints.

    def save(self, *, last: bool = True) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
        """Everything that decides how the run goes on, but for episodes in flight: parts of a checkpoint, and facts.

        A large replay takes a while to write, so that only as many checkpoints have one as leave time for learning; a
        run that is resumed from another one begins with that of an earlier checkpoint.

        Args:
            last: keep the replay in any case.
        """
        age = {f"age/{self.name}": np.array([self.age], np.int64)}
        parts: dict[str, dict[str, Any]] = {
            "actor": named_arrays(self.actors),
            "learner": named_arrays({self.name: self.learner.state}) | age,
        }
        if isinstance(self.feed, ReplayFeed) and self.config.save_replay:
            ring = self.feed.ring
            if last or time.perf_counter() - ring.saved_at > SAVING_COST * ring.saving_seconds:
                parts[REPLAY] = ring.save()
        facts = {
            "iteration": self.iteration,
            "groups": self.policies.spaces(),
            "updates": self.updates,
            "born": self.crew.births,
        }
        return parts, facts

    def restore(self, checkpoint: Checkpoint, source: str) -> None:
        """Go on where a checkpoint was written; environments begin new episodes."""
        self.adopt(checkpoint.part("learner"), source)
        facts = checkpoint.facts
        try:
            self.iteration, self.updates = facts["iteration"], facts["updates"]
            self.crew.births = facts["born"]
            self._steps_before = self.step = checkpoint.step
            self._age_before -= checkpoint.step
            holder = with_replay(checkpoint)
            if isinstance(self.feed, ReplayFeed) and holder is not None:
                self.feed.ring.restore(holder.open_part(REPLAY))
        except (KeyError, ValueError) as error:
            raise RunError(f"{source} does not fit: {error}.") from error

    def adopt(self, learner: Mapping[str, np.ndarray], source: str) -> None:
        """Go on with somebody's agent, optimiser and age included."""
        self.learner.adopt(learner, source)
        age = learner.get(f"age/{self.name}")
        if age is None:
            raise RunError(f"{source} does not fit: it does not say the age of {self.name}.")
        self._age_before = int(age[0])

    # Evaluations.

    def verdict(self, iteration: int, actors: ByPolicy) -> Verdict | None:
        """What the evaluator has found since this was last asked: of weights that are no longer the newest."""
        found = self.crew.evaluation()
        if found is None:
            return None
        evaluation, arrays = found
        return Verdict(evaluation, evaluation.groups[GROUP].mean, {f"{self.name}/{n}": a for n, a in arrays.items()})
