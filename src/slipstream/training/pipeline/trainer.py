"""The learner of the pipeline: updates as fast as it can from what samplers write, and publishes what it learns."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from slipstream.algos.algo import SURPRISE, Replay
from slipstream.envs.statistics import EpisodeTotals
from slipstream.replay.layout import RowLayout
from slipstream.runs.checkpoint import Checkpoint
from slipstream.runs.directory import RunDirectory, RunError
from slipstream.runs.reading import REPLAY
from slipstream.spaces import Box, to_json
from slipstream.training.config import PipelineConfig, TrainConfig
from slipstream.training.evaluate import EVALUATION_SEED, Evaluation, Verdict, group_score, standard_error
from slipstream.training.pipeline.agent import GROUP, agent_group
from slipstream.training.pipeline.evaluator import LENGTHS, RETURNS
from slipstream.training.pipeline.feeds import Feed, ReplayFeed, RolloutFeed
from slipstream.training.pipeline.numpy_policy import recipe_of
from slipstream.training.pipeline.simulators import BAD_REWARD, NOT_FINITE, ODDITIES, OUTSIDE
from slipstream.training.pipeline.status import UNLIMITED, Status
from slipstream.training.pipeline.weights import NONE, Weights
from slipstream.training.pipeline.workers import Plan, Worker, Workers, usage
from slipstream.training.policies import ByPolicy, Policies, committed
from slipstream.training.saving import from_named_arrays, named_arrays
from slipstream.training.starting import starting_state

DEFAULT_LANES = 8
"""Environments of a sampler when nothing is known about them."""

LOOK = 0.2
"""Seconds between two looks at the processes, and the longest that an iteration waits for something to learn from."""

PAUSE = 0.0005
"""Seconds between two looks for something to learn from."""

SECONDS_PER_ITERATION = 0.05
"""What the gradient steps between two publications should take."""

OPERATIONS = 4e10
"""Floating-point operations in a second that are reckoned with for that."""

OPERATIONS_PER_WEIGHT = 40
"""Operations of a gradient step for each sample and each weight of the actor: two critics and an actor, both ways."""

EVALUATED_AT_ONCE = 20
"""Environments of the evaluator, at most."""

GOAL_SHARE = 0.5
"""How much of its time the evaluator works at the least if reaching a return ends the run."""


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
        self.policies = Policies([group], config.policies)
        if not self.policies.learning:
            raise ValueError("The only policy does not learn: leave --freeze out.")
        (self.name,) = self.policies.learning
        self.group, self.algorithm = group, self.policies.algorithms[self.name]
        self._recipe = recipe_of(config.policies[self.name], group.observation, group.action)
        init_key, self.key = jax.jit(lambda s: jax.random.split(jax.random.key(s, impl="rbg")))(
            config.seed & 0xFFFFFFFF
        )
        self.state: Any = committed(jax.jit(lambda k: self.policies.init(key=k))(init_key))[self.name]
        self.samplers = self.driver.samplers or max(1, (os.cpu_count() or 2) - 1)
        self.lanes = self.driver.envs_per_sampler or DEFAULT_LANES
        self.feed = self._new_feed()
        self._update = jax.jit(self._learn, donate_argnames="state")
        self._compiled: Callable[..., Any] | None = None
        self.weights = Weights.like(self._actor_arrays())
        self._has_evaluator = self.driver.evaluator_share > 0
        self.status = Status.of(self.samplers + self._has_evaluator)
        episodes = config.evaluate_episodes
        found = {RETURNS: np.zeros(episodes), LENGTHS: np.zeros(episodes, np.int64)}
        self.judged = Weights.like({**self._actor_arrays(), **found})
        self.workers: Workers | None = None
        self.iteration = self.updates = self.step = 0
        self._steps_before = 0
        """Steps of earlier processes."""
        self._age_before = 0
        """Steps that the policy has learned from before, in other runs included."""
        self._born = 0
        """How often processes were started before: what is drawn afterwards is new."""
        self._spent = {"waiting": 0.0, "gathering": 0.0, "update": 0.0, "publishing": 0.0}
        self._looked = 0.0
        self._heard = NONE
        """The last version of the weights that the evaluator has judged and we have heard of."""
        self._measured = self._measure()

    def _new_feed(self) -> Feed:
        experience, group = self.algorithm.experience, self.group
        if not isinstance(experience, Replay):
            image = group.observation.image is not None
            size, discrete = group.action.size, not isinstance(group.action, Box)
            steps = self.driver.rollout_length
            return RolloutFeed(group.observation.size, size, image, self.samplers, steps, self.lanes, discrete)
        if experience.priority:
            raise ValueError("Replay with priorities needs compiled worlds: leave --set priority out.")
        layout = RowLayout.of(group.observation, group.action, masked=False)
        updates = self.driver.updates_per_iteration or self._affordable_updates(experience.batch)
        return ReplayFeed(experience, layout, self.samplers, updates, self.config.seed)

    def _affordable_updates(self, batch: int) -> int:
        weights = sum(a.size for a in self._actor_arrays().values())
        seconds = OPERATIONS_PER_WEIGHT * weights * batch / OPERATIONS
        return max(1, min(64, round(SECONDS_PER_ITERATION / seconds)))

    def load_starting_points(self) -> None:
        """Begin from an earlier run if the policy is configured so."""
        source = self.config.policies[self.name].load
        if source is not None:
            self.state = committed(starting_state(source, self.state))

    # Processes.

    @contextlib.contextmanager
    def working(self, run: RunDirectory, warn: Callable[[str], None]) -> Iterator[None]:
        """Inside, samplers sample and the evaluator evaluates; what goes wrong with them is in the run's log."""
        self._publish()
        self.workers = Workers(self._plans(), run.log, warn)
        try:
            self.workers.start()
            yield
        finally:
            self.status["stop"][:] = 1
            self.workers.stop()
            self.workers = None

    def _plans(self) -> list[Plan]:
        def plan(number: int, name: str, module: str, job: Callable[[int], dict[str, Any]], *shared: int) -> Plan:
            return Plan(
                name,
                f"slipstream.training.pipeline.{module}",
                job,
                (self.status.block.descriptor, self.weights.descriptor, *shared),
                lambda: int(self.status["steps"][number]),
                lambda: float(self.status["heartbeat"][number]),
                self.driver.patience,
            )

        plans = [
            plan(
                i,
                f"sampler {i}",
                "sampler",
                lambda births, i=i: self._sampler_job(i, births),
                self.feed.block.descriptor,
            )
            for i in range(self.samplers)
        ]
        if self._has_evaluator:
            plans.append(plan(self.samplers, "evaluator", "evaluator", self._evaluator_job, self.judged.descriptor))
        return plans

    def _common_job(self, number: int) -> dict[str, Any]:
        return {
            "number": number,
            "env": self.env,
            "options": dict(self.config.env_options),
            "recipe": self._recipe,
            "status": self.status.block.to_json(),
            "weights": self.weights.to_json(),
        }

    def _sampler_job(self, number: int, births: int) -> dict[str, Any]:
        return self._common_job(number) | {
            "seed": [self.config.seed & 0xFFFFFFFF, number, self._born + births],
            "lanes": self.lanes,
            "observation": to_json(self.group.observation),
            "action": to_json(self.group.action),
            "experience": self.feed.job(),
        }

    def _evaluator_job(self, births: int) -> dict[str, Any]:
        c, share = self.config, self.driver.evaluator_share
        every = c.evaluate_every or 1
        last = self.judged.version
        return self._common_job(self.samplers) | {
            "seed": (c.seed + EVALUATION_SEED) & 0x7FFFFFFF,
            "episodes": c.evaluate_episodes,
            "lanes": min(c.evaluate_episodes, EVALUATED_AT_ONCE),
            "share": share if c.stop_at_return is None else max(share, GOAL_SHARE),
            "every": every,
            "first": self.iteration + every if last == NONE else last + every,
            "judged": self.judged.to_json(),
        }

    # Learning.

    @property
    def samples(self) -> int:
        """Steps of all environments together, right now; `step` is how many it were at the last iteration."""
        return self._steps_before + int(self.status["steps"][: self.samplers].sum())

    @property
    def actors(self) -> ByPolicy:
        """What acts, by policy; good until the next `iterate`, which may reuse its memory."""
        return {self.name: self.algorithm.actor(self.state)}

    def _actor_arrays(self) -> dict[str, np.ndarray]:
        return named_arrays(self.algorithm.actor(self.state))

    def iterate(self) -> dict[str, dict[str, Any]]:
        """Learn from a batch and publish the weights. If there is nothing to learn from, nothing happens for a moment.

        Raises:
            TrainingFailed: when an environment fails again and again.
        """
        self._look_after_workers()
        if self._compiled is None:
            self._compile()  # while samplers fill the first batch
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
        assert self._compiled is not None
        self.state, metrics = self._compiled(self.state, batch, self._elapsed(), self.key, np.uint32(self.iteration))
        self.iteration += 1
        self.updates += self.feed.updates
        if self.feed.ready(self.samples, self.updates):
            self.feed.fetch()  # the next batch, while this one is computed
        jax.block_until_ready((self.state, metrics))
        updated = time.perf_counter()
        self._publish()
        self.step = self.samples
        self._spent["waiting"] += waited - began
        self._spent["gathering"] += gathered - waited
        self._spent["update"] += updated - gathered
        self._spent["publishing"] += time.perf_counter() - updated
        return {self.name: metrics}

    def _learn(self, state: Any, batch: Any, elapsed: Any, key: jax.Array, iteration: Any) -> tuple[Any, Any]:
        key = jax.random.fold_in(key, iteration)
        state, metrics = self.algorithm.update(state, self.feed.learnable(batch), elapsed=elapsed, key=key)
        return state, {name: value for name, value in metrics.items() if name != SURPRISE}

    def _compile(self) -> None:
        batch = self.feed.example()
        self._compiled = self._update.lower(self.state, batch, np.float32(0.0), self.key, np.uint32(0)).compile()

    def _elapsed(self) -> np.float32:
        """How much of its schedules the policy has behind it."""
        total = self.config.budget
        return np.float32(0.0 if total is None else min((self._age_before + self.step) / total, 1.0))

    def _publish(self) -> None:
        self.weights.publish(self._actor_arrays(), self.iteration)
        if isinstance(self.feed, ReplayFeed):
            self.status["allowance"][: self.samplers] = self._allowance(self.feed)

    def _allowance(self, feed: ReplayFeed) -> int:
        """How many steps each sampler may take in all."""
        bound, warm_up = self.driver.samples_per_update, feed.experience.warm_up
        if not self.updates:
            # Random actions are only good to begin with; until the first update the learner compiles, and needs cores.
            ahead = max(warm_up, feed.updates / feed.experience.updates_per_step)
            ahead += 2 * feed.experience.n_step * self.lanes * self.samplers  # steps that are not transitions yet
        elif bound is None:
            return UNLIMITED
        else:
            ahead = warm_up + bound * (self.updates + feed.updates) - self._steps_before
        return max(1, math.ceil(ahead / self.samplers))

    def _look_after_workers(self) -> None:
        now = time.perf_counter()
        if self.workers is not None and now - self._looked > LOOK:
            self._looked = now
            self.workers.check()

    # What the loop reports.

    def totals(self) -> EpisodeTotals:
        """Of all episodes so far."""
        sums = {
            n: self.status[n][: self.samplers].sum().item()
            for n in ("episodes", "lengths", "returns", "return_squares")
        }
        odd = {name: int(self.status.total(f"oddities/{name}")) for name in ODDITIES}
        return EpisodeTotals(
            episodes=sums["episodes"],
            length=sums["lengths"],
            returns={GROUP: sums["returns"]},
            return_squares={GROUP: sums["return_squares"]},
            report={},
            broken=odd[NOT_FINITE],
            unpaid={GROUP: odd[BAD_REWARD]},
        )

    def seconds_spent(self) -> dict[str, float]:
        """Where the learner's time has gone so far in this process."""
        return dict(self._spent)

    def figures(self) -> dict[str, float]:
        """How the processes get along, since this was last asked."""
        last, now = self._measured, self._measure()
        self._measured = now
        seconds = max(now["at"] - last["at"], 1e-9)
        updates, samples = now["updates"] - last["updates"], now["samples"] - last["samples"]
        lag = self.weights.version - self.status["version"][: self.samplers]
        figures = {
            "pipeline/samples_per_second": samples / seconds,
            "pipeline/updates_per_second": updates / seconds,
            "pipeline/update_frames_per_second": updates / seconds * self.feed.frames / self.feed.updates,
            "pipeline/updates_per_sample": updates / max(samples, 1),
            "pipeline/policy_lag": float(lag.mean()) * self.feed.updates,
            "pipeline/processes_replaced": float(self.workers.replaced if self.workers is not None else 0),
            "pipeline/observations_outside": float(self.status.total(f"oddities/{OUTSIDE}")),
            **{f"pipeline/{name}": value for name, value in self.feed.figures().items()},
        }
        for name in now:
            if name.startswith("cpu/") and name in last:
                figures[name] = max(0.0, now[name] - last[name]) / seconds
            if name.startswith("memory/"):
                figures[name] = now[name]
        return figures

    def _measure(self) -> dict[str, float]:
        workers: list[Worker] = self.workers.all if self.workers is not None else []
        found = {"learner": usage(None), **{w.plan.name.replace(" ", "-"): usage(w.pid) for w in workers}}
        return {
            "at": time.perf_counter(),
            "updates": self.updates,
            "samples": self.samples,
            **{f"cpu/{name}": use[0] for name, use in found.items() if use is not None},
            **{f"memory/{name}": use[1] / 2**20 for name, use in found.items() if use is not None},
        }

    # Checkpoints.

    def save(self) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
        """Everything that decides how the run goes on, but for episodes in flight: parts of a checkpoint, and facts."""
        age = {f"age/{self.name}": np.array([self._age_before + self.step], np.int64)}
        parts: dict[str, dict[str, Any]] = {
            "actor": named_arrays(self.actors),
            "learner": named_arrays({self.name: self.state}) | age,
        }
        if isinstance(self.feed, ReplayFeed) and self.config.save_replay:
            parts[REPLAY] = self.feed.ring.save()
        started = self._born + sum(w.births for w in self.workers.all) if self.workers is not None else self._born
        facts = {
            "iteration": self.iteration,
            "groups": self.policies.spaces(),
            "updates": self.updates,
            "born": started,
        }
        return parts, facts

    def restore(self, checkpoint: Checkpoint, source: str) -> None:
        """Go on where a checkpoint was written; environments begin new episodes."""
        self.adopt(checkpoint.part("learner"), source)
        facts = checkpoint.facts
        try:
            self.iteration, self.updates, self._born = (facts[name] for name in ("iteration", "updates", "born"))
            self._steps_before = self.step = checkpoint.step
            self._age_before -= checkpoint.step
            if isinstance(self.feed, ReplayFeed) and REPLAY in checkpoint.parts:
                self.feed.ring.restore(checkpoint.open_part(REPLAY))
        except (KeyError, ValueError) as error:
            raise RunError(f"{source} does not fit: {error}.") from error

    def adopt(self, learner: Mapping[str, np.ndarray], source: str) -> None:
        """Go on with somebody's agent, optimiser and age included."""
        self.state = committed(from_named_arrays({self.name: self.state}, learner, source))[self.name]
        age = learner.get(f"age/{self.name}")
        if age is None:
            raise RunError(f"{source} does not fit: it does not say the age of {self.name}.")
        self._age_before = int(age[0])

    # Evaluations.

    def verdict(self, iteration: int, actors: ByPolicy) -> Verdict | None:
        """What the evaluator has found since this was last asked: of weights that are no longer the newest."""
        if self.judged.version == self._heard:
            return None
        found = self.judged.empty()
        self._heard = self.judged.read(found)
        returns, lengths = found.pop(RETURNS), found.pop(LENGTHS)
        score = group_score(returns)
        evaluation = Evaluation(
            episodes=len(returns),
            length=float(lengths.mean()),
            length_standard_error=standard_error(lengths),
            groups={GROUP: score},
            report={},
        )
        return Verdict(evaluation, score.mean, {f"{self.name}/{n}": a for n, a in found.items()})
