"""The fused driver: worlds, policies and learning on one device, with nothing but metrics leaving it."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import jax
import numpy as np

from slipstream.capacity import require_memory
from slipstream.envs.registry import AnyEnv, make
from slipstream.envs.statistics import EpisodeTotals
from slipstream.envs.worlds import Worlds
from slipstream.runs.checkpoint import Checkpoint
from slipstream.runs.directory import RunError
from slipstream.runs.reading import REPLAY
from slipstream.training.config import FusedConfig, TrainConfig
from slipstream.training.policies import ByPolicy, Dials, Policies, committed
from slipstream.training.replays import Replays
from slipstream.training.saving import from_named_arrays, named_arrays, under
from slipstream.training.schedule import carried_over, parse_schedule, phase_at
from slipstream.training.shards import Shards
from slipstream.training.starting import starting_actor, starting_state

LEARNING_COPIES = 3.0
"""How many times the memory of a rollout's store a training run takes in all, at the least."""


Parts = dict[str, dict[str, Any]]
"""Named arrays, by part of a checkpoint."""


class FusedTrainer:
    """A training run in memory: call `iterate` as often as you like."""

    def __init__(self, config: TrainConfig, env: AnyEnv | None = None, shards: Shards | None = None):
        """Args:
        config: what to train.
        env: the world itself, where it cannot be made from its name.
        shards: which part of the worlds is here; by default all of them.
        """
        driver = config.driver
        assert isinstance(driver, FusedConfig)
        self.config, self.driver = config, driver
        self.shards = Shards.of_process(driver.shares) if shards is None else shards
        self._env, self._phases = env or config.env, parse_schedule(config.schedule)
        self._phase = 0
        self.worlds = self._new_worlds()
        num_worlds = self.worlds.num_worlds
        self.policies = Policies(self.worlds.groups, config.policies, self.shards)
        # XLA's own generator: drawing actions with JAX's default one takes longer than the network.
        self._keys = jax.jit(lambda s: jax.random.split(jax.random.key(s, impl="rbg")))
        self._init = jax.jit(lambda k: self.policies.init(key=k))
        init_key, self.key = self._keys(config.seed & 0xFFFFFFFF)
        fresh = committed(self._init(init_key))
        actors = self.policies.actors(fresh)
        self.states: ByPolicy = {name: fresh[name] for name in self.policies.learning}
        self.frozen: ByPolicy = {name: actors[name] for name in actors if name not in self.states}
        """The actors of policies that do not learn."""
        self.ages = dict.fromkeys(self.states, 0)
        """How many steps each policy has learned from, in all its runs."""
        # Learning lays out what it has seen once more, and shuffles that.
        needed = int(LEARNING_COPIES * self.worlds.store_bytes(driver.rollout_length + 1))
        what = f"Learning from {driver.rollout_length} steps of {num_worlds:,} worlds"
        require_memory([needed], what, "take fewer worlds or shorter rollouts", self.worlds.backend)
        self.store = self.worlds.new_store(driver.rollout_length + 1)
        self.memory = self.policies.new_memory(num_worlds)
        self.store.kept = self.policies.room_to_keep(actors, self.store.views, self.memory, driver.rollout_length)
        self.replays = Replays(self.policies, self.store.views, driver.steps_per_iteration, self.worlds.backend)
        self.worlds.observe_into(self.store, 0)
        self.iteration = 0
        self.dials: Dials = {}
        """What differs from the settings, for now."""
        self._spent: dict[str, float] = {"simulation": 0.0, "inference": 0.0, "update": 0.0}

    def _new_worlds(self) -> Worlds:
        """Worlds of the current phase of the schedule."""
        size = self.driver.num_worlds // self.shards.count
        coming = [*(phase.options for phase in self._phases), {}]
        return make(
            self._env,
            self.shards.local * size,
            self.config.seed,
            self.config.backend,
            first_world=self.shards.first * size,
            stagger=self.driver.stagger,
            **{**self.config.env_options, **coming[self._phase]},
        )

    def _enter_phase(self, step: int) -> bool:
        """See that the worlds are of the phase that a step is in; whether they are new ones."""
        phase = phase_at(self._phases, step)
        if phase == self._phase:
            return False
        self._phase = phase
        self.worlds = self._new_worlds()
        return True

    def begin_anew(self, seed: int) -> None:
        """Be what a new trainer of another seed would be, without compiling anything."""
        self.config = dataclasses.replace(self.config, seed=seed)
        init_key, self.key = self._keys(seed & 0xFFFFFFFF)
        fresh = committed(self._init(init_key))
        self.states = {name: fresh[name] for name in self.states}
        self.frozen = {name: actor for name, actor in self.policies.actors(fresh).items() if name in self.frozen}
        self.ages = dict.fromkeys(self.ages, 0)
        self.memory = self.policies.new_memory(self.worlds.num_worlds)
        self.replays.forget()
        self._enter_phase(0)
        self.worlds.reset(seed)
        self.worlds.observe_into(self.store, 0)
        self.iteration = 0

    def load_starting_points(self) -> None:
        """Begin from earlier runs where the policies are configured so."""
        for name, config in self.config.policies.items():
            if config.load is None:
                continue
            if config.frozen:
                self.frozen[name] = committed(starting_actor(config.load, self.frozen[name]))
            else:
                self.states[name] = committed(starting_state(config.load, self.states[name]))

    @property
    def step(self) -> int:
        """Steps of all worlds together."""
        return self.iteration * self.driver.steps_per_iteration

    @property
    def actors(self) -> ByPolicy:
        """What acts, by policy; good until the next `iterate`, which may reuse its memory."""
        return self.policies.actors(self.states) | self.frozen

    def iterate(self) -> dict[str, dict[str, jax.Array]]:
        """Roll out, learn, and leave the last observation where the next rollout begins."""
        actors, views, store = self.actors, self.store.views, self.store
        for slot in range(self.driver.rollout_length):
            start = time.perf_counter()
            actions, store.kept, self.memory = self.policies.act(
                actors, views, slot, store.kept, self.memory, explore=True, key=self.key, iteration=self.iteration
            )
            jax.block_until_ready(actions)
            acted = time.perf_counter()
            self.worlds.step_into(store, slot + 1, actions)
            self._spent["inference"] += acted - start
            self._spent["simulation"] += time.perf_counter() - acted
        start = time.perf_counter()
        elapsed = self._elapsed()
        metrics: dict[str, dict[str, jax.Array]] = {}
        if self.policies.on_policy:
            states = {name: self.states[name] for name in self.policies.on_policy}
            learned = self.policies.update(
                states, views, store.kept, elapsed, self.dials, key=self.key, iteration=self.iteration
            )
            self.states, metrics = self.states | learned[0], learned[1]
        if self.replays.names:
            states = {name: self.states[name] for name in self.replays.names}
            learned = self.replays.learn(states, views, store.kept, elapsed, self.dials, key=self.key)
            self.states, metrics = self.states | learned[0], metrics | learned[1]
        # The store's readers must have finished before the next rollout writes to it.
        jax.block_until_ready((self.states, metrics))
        self._spent["update"] += time.perf_counter() - start
        store.copy_slot(self.driver.rollout_length, 0)
        self.iteration += 1
        for name in self.ages:
            self.ages[name] += self.driver.steps_per_iteration
        self._follow_schedule()
        return metrics

    def _follow_schedule(self) -> None:
        """Carry the worlds over to other physics when it is time to. What was observed last stays as it is.

        Whatever is saved after an iteration is of the phase that its step is in.
        """
        before = self.worlds
        if self._enter_phase(self.step):
            self.worlds.restore(carried_over(before.save(), self.worlds.save()))

    def _elapsed(self) -> dict[str, float]:
        """How much of its schedules each policy has behind it: a matter of its own age, wherever it grew up."""
        total = self.config.budget
        if total is None:
            return dict.fromkeys(self.ages, 0.0)
        return {name: min(age / total, 1.0) for name, age in self.ages.items()}

    # What the loop reports. Asking changes nothing.

    def totals(self) -> EpisodeTotals:
        """Of all episodes so far."""
        return self.worlds.episode_totals()

    def figures(self) -> dict[str, float]:
        """In which phase of its schedule the run is, if it has one."""
        return {"phase": self._phase} if self._phases else {}

    def seconds_spent(self) -> dict[str, float]:
        """Where the time has gone so far in this process."""
        return dict(self._spent)

    # Checkpoints.

    def save(self, *, last: bool = True) -> tuple[Parts, dict[str, Any]]:
        """Everything that decides how the run goes on: arrays by part of a checkpoint, and small facts.

        Every checkpoint is whole, be it the last or not: a run goes on from any of them bit for bit.
        """
        ages = {f"age/{name}": np.array([age], np.int64) for name, age in self.ages.items()}
        worlds = {f"worlds/{n}": a for n, a in self.worlds.save().items()}
        worlds |= {f"slot/{n}": a for n, a in self.store.save_slot(0).items()}
        worlds |= {f"memory/{n}": a for n, a in named_arrays(self.memory).items()}
        replay, calls = self.replays.save()
        parts: Parts = {
            "actor": named_arrays(self.actors),
            "learner": named_arrays(self.states) | ages,
            "worlds": worlds | calls,
        }
        if replay and self.config.save_replay:
            parts[REPLAY] = replay
        facts = {"iteration": self.iteration, "groups": self.policies.spaces(), "shares": self.shards.count}
        return parts, facts

    def restore(self, checkpoint: Checkpoint, source: str) -> None:
        """Go on exactly where a checkpoint was written."""
        parts = self.parts_of(checkpoint, source)
        self.take_up(parts, checkpoint.facts["iteration"], source)

    def parts_of(self, checkpoint: Checkpoint, source: str) -> Parts:
        """What `take_up` needs of a checkpoint, with the worlds of all processes in it."""
        if "iteration" not in checkpoint.facts:
            raise RunError(f"{source} does not fit: it does not say its iteration.")
        parts = {name: checkpoint.part(name) for name in ("learner", "actor", "worlds")}
        if REPLAY in checkpoint.parts:
            parts[REPLAY] = checkpoint.part(REPLAY)
        before, now = checkpoint.facts.get("shares", 1), self.shards.count
        if before != now:
            memory = {n: a for n, a in parts["worlds"].items() if n.startswith("memory/")}
            parts["worlds"] |= {n: self.policies.dealt_anew(n.split("/")[1], a, before, now) for n, a in memory.items()}
        return parts

    def take_up(self, parts: Parts, iteration: int, source: str) -> None:
        """Go on with what `save` has returned here or elsewhere, in the worlds as they are here if it has none."""
        self.adopt(parts["learner"], source)
        self.frozen = committed(from_named_arrays(self.frozen, parts["actor"], source))
        self._enter_phase(iteration * self.driver.steps_per_iteration)
        worlds = parts.get("worlds")
        if worlds is not None:
            self.memory = committed(from_named_arrays(self.memory, under(worlds, "memory"), source))
            try:
                self.worlds.restore(under(worlds, "worlds"))
                if self.worlds.engine.leaves:
                    self.store.restore_slot(0, under(worlds, "slot"))
                else:  # worlds that cannot be saved have begun new episodes
                    self.worlds.observe_into(self.store, 0)
            except (ValueError, KeyError) as error:
                raise RunError(f"{source} does not fit: its worlds have another state ({error}).") from error
            self.replays.restore(parts.get(REPLAY), worlds, source)
        self.iteration = iteration

    def adopt(self, learner: dict[str, np.ndarray], source: str) -> None:
        """Go on with somebody's agents, optimisers and ages included, in the worlds as they are here."""
        self.states = committed(from_named_arrays(self.states, learner, source))
        ages = {name: learner.get(f"age/{name}") for name in self.ages}
        if unknown := [name for name, age in ages.items() if age is None]:
            raise RunError(f"{source} does not fit: it does not say the age of {', '.join(unknown)}.")
        self.ages = {name: int(age[0]) for name, age in ages.items() if age is not None}
