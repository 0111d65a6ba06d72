"""The policies of a run at play, in worlds of the page's own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import jax.numpy as jnp
import numpy as np

from slipstream.envs.env import Env, Group
from slipstream.envs.worlds import Worlds
from slipstream.runs.checkpoint import Checkpoint, load_checkpoint, read_newest
from slipstream.runs.directory import RunDirectory
from slipstream.training.config import PipelineConfig
from slipstream.training.config_json import from_json
from slipstream.training.evaluate import evaluation_worlds
from slipstream.training.loading import load_policies, read_actors
from slipstream.training.pipeline.filming import USUAL_FPS
from slipstream.training.pipeline.simulators import Simulator
from slipstream.training.play import Arena, Moment, WorldsArena, play
from slipstream.training.policies import ByPolicy, Policies
from slipstream.training.source import world_of

SEED = 1_000_003
"""Randomness of the worlds that are watched."""

State = Mapping[str, np.ndarray]
"""Of all worlds, as `Worlds.get_state` names and shapes it."""


class LiveArena(Arena, Protocol):
    """Somewhere to play that never ends, and that can be looked at."""

    env: Env | None
    """The rules, where they are ours."""
    step_time: float
    """Seconds that a step takes when it is shown."""

    def state(self) -> State: ...

    def close(self) -> None: ...


class LiveWorlds(WorldsArena):
    """Compiled worlds that go on from episode to episode."""

    def __init__(self, worlds: Worlds):
        super().__init__(worlds)
        self.env: Env | None = worlds.env
        self.step_time = worlds.env.playback_step

    @property
    def limit(self) -> int:
        return sys.maxsize

    def state(self) -> State:
        return self.worlds.get_state()

    def change(self, **fields: np.ndarray) -> None:
        """Put the worlds into another state; what their agents see is what there is then."""
        self.worlds.set_state(**fields)
        self.worlds.observe_into(self._store, 0)

    def observation(self, world: int) -> np.ndarray:
        """What the first agent of a world sees now, `[features]`."""
        group = self.groups[0]
        seen = self._store.named_buffers()[f"observation/{group.name}"].on_host()[0]
        return seen[:, world * group.size]

    def close(self) -> None: ...


class LiveGymnasium:
    """An environment of Gymnasium that begins a new episode when one has ended, and draws itself."""

    def __init__(self, name: str, options: Mapping[str, Any], group: Group, seed: int = SEED):
        self.env: Env | None = None
        self.groups, self.num_worlds, self.limit = (group,), 1, sys.maxsize
        self._simulator = Simulator(name, options, seed, render=True)
        self.step_time = 1.0 / float(self._simulator.env.metadata.get("render_fps") or USUAL_FPS)
        self._reward, self._done, self._steps = 0.0, False, 0
        self._observation = np.zeros(group.observation.size, np.float32)

    def begin(self) -> None:
        self._observation = self._simulator.reset()

    @property
    def views(self) -> dict[str, Any]:
        name = self.groups[0].name
        observation, done = jnp.asarray(self._observation[None, :, None]), jnp.asarray([[self._done]])
        return {"observation": {name: observation}, "action_mask": {}, "active": {}, "done": done}

    def step(self, actions: dict[str, Any]) -> None:
        chosen = np.asarray(actions[self.groups[0].name])[:, 0]
        self._observation, self._reward, terminated, truncated = self._simulator.step(chosen)
        self._done, self._steps = terminated or truncated, self._steps + 1
        if self._done:
            self._observation, self._steps = self._simulator.reset(), 0

    def rewards(self) -> dict[str, np.ndarray]:
        return {self.groups[0].name: np.array([self._reward])}

    def done(self) -> np.ndarray:
        return np.array([self._done])

    def reports(self) -> dict[str, np.ndarray]:
        return {}

    def state(self) -> State:
        return {"step": np.array([self._steps]), "observation": self._observation}

    def picture(self) -> np.ndarray:
        """`[height, width, 3]`, bytes."""
        return np.ascontiguousarray(self._simulator.render()[..., :3].astype(np.uint8))

    def observation(self, world: int) -> np.ndarray:
        return self._observation

    def close(self) -> None:
        self._simulator.close()


class Stage:
    """A run's policies at play.

    Attributes:
        arena: where.
        checkpoint: whose weights.
    """

    def __init__(
        self,
        run: RunDirectory,
        num_worlds: int | None,
        which: str,
        warn: Callable[[str], None],
        saved_source: bool = False,
    ):
        """Args:
        run: whose policies.
        num_worlds: in how many worlds; None: as many as can be seen well.
        which: `latest` (then newer ones are taken up as they appear), `best`, or a checkpoint's name.
        warn: is told what a viewer should know.
        saved_source: whether a world of the user's is the copy that the run has kept, if it has.
        """
        self.run, self.which = run, which
        self.described = run.config()
        config = from_json(self.described)
        self.policies, self._actors, self.checkpoint = _load(run, which)
        world = world_of(run, config, saved_source and run.saved_source() is not None, warn)
        self.arena: LiveWorlds | LiveGymnasium
        if isinstance(config.driver, PipelineConfig):
            groups = [g for members in self.policies.groups.values() for g in members]
            if len(groups) != 1 or groups[0].size != 1:
                raise ValueError(f"{world} has several agents: it can be trained, but not watched.")
            self.arena = LiveGymnasium(world, config.env_options, groups[0])
        else:
            options = dict(config.env_options)
            count = num_worlds or usual_number(evaluation_worlds(world, 1, SEED, "scalar", **options).env)
            self.arena = LiveWorlds(evaluation_worlds(world, count, SEED, config.backend, **options))
        self.returns = np.zeros(self.arena.num_worlds)
        """Of the episodes that go on, of the first group."""
        self.begin()
        self.step()  # compiles, while the page says so
        self.begin()

    def begin(self) -> None:
        """Start a new episode everywhere."""
        self.arena.begin()
        self.returns[:] = 0.0
        self._moments: Iterator[Moment] = play(self.policies, self._actors, self.arena)

    def step(self) -> Moment:
        moment = next(self._moments)
        self.returns += moment.reward[self.arena.groups[0].name]
        return moment

    def forget_returns(self, ended: np.ndarray) -> None:
        """Begin to count anew where an episode has ended."""
        self.returns[ended] = 0.0

    def is_outdated(self) -> bool:
        """Whether the run has been started anew, with other settings, since it was read."""
        return self.run.config() != self.described

    def take_newer(self) -> bool:
        """Take up newer weights, if there are any."""
        if self.which not in ("latest", "best") or load_checkpoint(self.run, self.which).is_same(self.checkpoint):
            return False
        checkpoint = read_newest(self.run, ("actor",), self.which)
        if checkpoint is None:
            return False
        self._actors.update(read_actors(self.policies, checkpoint))
        self.checkpoint = checkpoint
        return True

    def close(self) -> None:
        self.arena.close()


def _load(run: RunDirectory, which: str) -> tuple[Policies, ByPolicy, Checkpoint]:
    checkpoint = load_checkpoint(run, which)
    policies, actors = load_policies(run, which)
    return policies, actors, checkpoint


CROWD, TILES = 64, 9
"""How many robots, and how many worlds that draw themselves, are seen unless one says otherwise."""


def usual_number(env: Env) -> int:
    """In how many worlds to play unless one says otherwise."""
    if hasattr(env, "model"):
        return CROWD
    if hasattr(env, "market"):
        return 4  # full of words, which must be large enough to read
    agents = sum(group.size for group in env.groups)
    return TILES if agents <= 20 else 4 if agents <= 200 else 1
