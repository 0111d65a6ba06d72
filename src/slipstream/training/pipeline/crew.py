"""The processes around the learner, and the memory that they share with it."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from slipstream.envs.env import Group
from slipstream.envs.statistics import EpisodeTotals
from slipstream.runs.directory import RunDirectory
from slipstream.spaces import to_json
from slipstream.training.config import PipelineConfig, TrainConfig
from slipstream.training.evaluate import EVALUATION_SEED, Evaluation, group_score, standard_error
from slipstream.training.pipeline.agent import GROUP
from slipstream.training.pipeline.evaluator import LENGTHS, RETURNS
from slipstream.training.pipeline.gpus import GpuUse
from slipstream.training.pipeline.simulators import BAD_REWARD, NOT_FINITE, ODDITIES, OUTSIDE
from slipstream.training.pipeline.status import UNLIMITED, Status
from slipstream.training.pipeline.weights import NONE, Weights
from slipstream.training.pipeline.workers import Plan, Workers, usage

EVALUATOR, VISUALISER, SAMPLERS = 0, 1, 2
"""Columns of the status: those of the evaluator and the visualiser, and the first one of a sampler."""

FIRST_FILM = 20.0
"""Seconds after which the visualiser begins: before, there is little to see, and everybody else starts."""

FILMED_STEPS = 1000
"""How long a film is at most."""

EVALUATED_AT_ONCE = 20
"""Environments of the evaluator, at most."""

GOAL_SHARE = 0.5
"""How much of its time the evaluator works at the least if reaching a return ends the run."""


class Crew:
    """Samplers, the evaluator and the visualiser of a run."""

    def __init__(
        self, config: TrainConfig, env: str, group: Group, recipe: dict, actor: Mapping[str, np.ndarray], most: int
    ):
        """Args:
        config: of the run.
        env: the name of the environment.
        group: who acts there.
        recipe: how.
        actor: with which weights, to begin with.
        most: how many samplers there may ever be.
        """
        assert isinstance(config.driver, PipelineConfig)
        self._config, self._driver = config, config.driver
        self._env, self._group, self._recipe = env, group, recipe
        episodes = config.evaluate_episodes
        found = {RETURNS: np.zeros(episodes), LENGTHS: np.zeros(episodes, np.int64)}
        self.status = Status.of(SAMPLERS + most)
        self.weights, self._judged = Weights.like(actor), Weights.like({**actor, **found})
        self._heard = NONE
        self.samplers = self.lanes = 0
        self.births = 0
        """How many processes have been started, those before a run was resumed included: each draws other numbers."""
        self._workers: Workers | None = None
        self._experience: dict[str, Any] = {}
        self._gpus = GpuUse()
        self._last = self._measured()

    # Coming and going.

    def start(self, run: RunDirectory, warn: Callable[[str], None]) -> None:
        """Begin with an evaluator, if there is to be one; samplers come with `employ`, and a visualiser later."""
        self._workers = Workers(run.log, warn)
        if self._driver.evaluator_share > 0:
            self._workers.add(self._plan(EVALUATOR, "evaluator", self._evaluator_job, self._judged.descriptor))
        self._run, self._film_at = run, time.monotonic() + FIRST_FILM if self._driver.film_share > 0 else math.inf

    def employ(self, samplers: int, lanes: int, experience: dict[str, Any]) -> None:
        """Let so many samplers work, in place of those that there are.

        Args:
            samplers: how many.
            lanes: environments of each.
            experience: where they write (`Feed.job`).
        """
        assert self._workers is not None
        self.dismiss()
        self.samplers, self.lanes, self._experience = samplers, lanes, experience
        self.status["stop"][SAMPLERS:] = 0
        self._steps_when_employed = self.status["steps"][SAMPLERS : SAMPLERS + samplers].copy()
        for i in range(samplers):
            self._workers.add(
                self._plan(SAMPLERS + i, f"sampler {i}", self._sampler_job(i), experience["block"]["descriptor"])
            )

    def forget(self) -> None:
        """Let samplers wait, with new episodes and nothing of the old ones left to be written."""
        self.allow(0)
        mine = slice(SAMPLERS, SAMPLERS + self.samplers)
        self.status["new_life"][SAMPLERS:] += 1
        while (self.status["life"][mine] != self.status["new_life"][mine]).any():
            self.check()
            time.sleep(0.002)

    def dismiss(self) -> None:
        """No samplers any more."""
        if self._workers is not None:
            self.status["stop"][SAMPLERS:] = 1
            self._workers.remove("sampler")

    def stop(self) -> None:
        """Nobody any more."""
        self.status["stop"][:] = 1
        if self._workers is not None:
            self._workers.remove("")
            self._workers = None

    def check(self) -> None:
        """Replace processes that have failed, or raise `TrainingFailed` if one fails again and again."""
        if self._workers is None:
            return
        self._workers.check()
        if time.monotonic() >= self._film_at:
            self._film_at = math.inf
            plan = self._plan(VISUALISER, "visualiser", self._visualiser_job, self.weights.descriptor)
            self._workers.add(replace(plan, essential=False))

    @property
    def pids(self) -> dict[str, int]:
        """Of the processes that there are, by name."""
        return {} if self._workers is None else self._workers.pids

    # What each is told.

    def _plan(self, column: int, name: str, job: Callable[[], dict[str, Any]], shared: int) -> Plan:
        def whole_job() -> dict[str, Any]:
            self.births += 1
            common = {
                "column": column,
                "env": self._env,
                "options": dict(self._config.env_options),
                "recipe": self._recipe,
                "status": self.status.block.to_json(),
                "weights": self.weights.to_json(),
            }
            return common | job()

        return Plan(
            name,
            f"slipstream.training.pipeline.{name.split()[0]}",
            whole_job,
            (self.status.block.descriptor, self.weights.descriptor, shared),
            lambda: int(self.status["steps"][column]),
            lambda: float(self.status["heartbeat"][column]),
            self._driver.patience,
        )

    def _sampler_job(self, number: int) -> Callable[[], dict[str, Any]]:
        return lambda: {
            "number": number,
            "seed": [self._config.seed & 0xFFFFFFFF, number, self.births],
            "lanes": self.lanes,
            "strict": self._driver.strict,
            "observation": to_json(self._group.observation),
            "action": to_json(self._group.action),
            "experience": self._experience,
        }

    def _evaluator_job(self) -> dict[str, Any]:
        c, share = self._config, self._driver.evaluator_share
        every = c.evaluate_every or 1
        last = self._judged.version if self._judged.version != NONE else self.weights.version
        return {
            "seed": (c.seed + EVALUATION_SEED) & 0x7FFFFFFF,
            "episodes": c.evaluate_episodes,
            "lanes": min(c.evaluate_episodes, EVALUATED_AT_ONCE),
            "share": share if c.stop_at_return is None else max(share, GOAL_SHARE),
            "every": every,
            "first": last + every,
            "judged": self._judged.to_json(),
        }

    def _visualiser_job(self) -> dict[str, Any]:
        return {
            "seed": (self._config.seed + EVALUATION_SEED) & 0x7FFFFFFF,
            "file": str(self._run.film),
            "limit": FILMED_STEPS,
            "share": self._driver.film_share,
        }

    # What they have done.

    @property
    def samples(self) -> int:
        """Steps of all samplers, those that are gone included."""
        return int(self.status["steps"][SAMPLERS:].sum())

    def steps_since_employed(self) -> np.ndarray:
        """Of each sampler."""
        return self.status["steps"][SAMPLERS : SAMPLERS + self.samplers] - self._steps_when_employed

    def memory_of_a_sampler(self) -> float:
        """Bytes, those that it shares left out; 0 if nobody knows."""
        found = [usage(pid) for name, pid in self.pids.items() if name.startswith("sampler")]
        return max((use[1] for use in found if use is not None), default=0.0)

    def allow(self, samples: float | None) -> None:
        """Let samplers take so many more steps in all, and then wait; None: as many as they can."""
        mine = slice(SAMPLERS, SAMPLERS + self.samplers)
        if samples is None:
            self.status["allowance"][mine] = UNLIMITED
        else:
            each = math.ceil(max(0.0, samples) / max(1, self.samplers))
            self.status["allowance"][mine] = self.status["steps"][mine] + each

    def evaluation(self) -> tuple[Evaluation, dict[str, np.ndarray]] | None:
        """What the evaluator has found since this was last asked, and the weights it has found it of."""
        if self._judged.version == self._heard:
            return None
        found = self._judged.empty()
        self._heard = self._judged.read(found)
        returns, lengths = found.pop(RETURNS), found.pop(LENGTHS)
        evaluation = Evaluation(
            episodes=len(returns),
            length=float(lengths.mean()),
            length_standard_error=standard_error(lengths),
            groups={GROUP: group_score(returns)},
            report={},
        )
        return evaluation, found

    def totals(self) -> EpisodeTotals:
        """Of all episodes of samplers."""

        def total(name: str) -> Any:
            return self.status[name][SAMPLERS:].sum().item()

        odd = {name: total(f"oddities/{name}") for name in ODDITIES}
        return EpisodeTotals(
            episodes=total("episodes"),
            length=total("lengths"),
            returns={GROUP: total("returns")},
            return_squares={GROUP: total("return_squares")},
            report={},
            broken=odd[NOT_FINITE],
            unpaid={GROUP: odd[BAD_REWARD]},
        )

    def figures(self) -> dict[str, float]:
        """How the processes are doing since this was last asked: processor time in cores, memory in MB, and so on;
        what they do on GPUs, if there are any."""
        last, now = self._last, self._measured()
        self._last = now
        seconds = max(now["at"] - last["at"], 1e-9)
        lag = self.weights.version - self.status["version"][SAMPLERS : SAMPLERS + self.samplers]
        return {
            "pipeline/samples_per_second": (now["samples"] - last["samples"]) / seconds,
            "pipeline/policy_lag": float(lag.mean()) if len(lag) else 0.0,
            "pipeline/processes_replaced": float(self._workers.replaced if self._workers is not None else 0),
            "pipeline/observations_outside": float(self.status[f"oddities/{OUTSIDE}"][SAMPLERS:].sum()),
            **{n: max(0.0, v - last[n]) / seconds for n, v in now.items() if n.startswith("cpu/") and n in last},
            **{n: v for n, v in now.items() if n.startswith("memory/")},
            **self._gpus.figures(self._everybody()),
        }

    def _everybody(self) -> dict[str, int]:
        """Processes as they are called among metrics, the learner included."""
        return {"learner": os.getpid(), **{name.replace(" ", "-"): pid for name, pid in self.pids.items()}}

    def _measured(self) -> dict[str, float]:
        found = {name: usage(pid) for name, pid in self._everybody().items()}
        return {
            "at": time.perf_counter(),
            "samples": self.samples,
            **{f"cpu/{name}": use[0] for name, use in found.items() if use is not None},
            **{f"memory/{name}": use[1] / 2**20 for name, use in found.items() if use is not None},
        }
