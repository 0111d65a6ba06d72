"""One run in several processes: each steps worlds of its own on a device of its own, and gradients are averaged.

Process 0 runs the loop and tells the others what to do: to iterate, to say how their episodes went, to hand over their
worlds for a checkpoint. It alone writes the run's directory and evaluates. Every process keeps a copy of what is
learned; they stay the same because all take the same steps with the same averaged gradients.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from slipstream.envs.registry import AnyEnv
from slipstream.envs.statistics import EpisodeTotals
from slipstream.runs.checkpoint import Checkpoint
from slipstream.training.config import FusedConfig, TrainConfig
from slipstream.training.config_json import from_json, to_json
from slipstream.training.fused import FusedTrainer, Parts
from slipstream.training.health import TrainingFailed
from slipstream.training.interrupt import SIGNALS
from slipstream.training.loop import Result
from slipstream.training.shards import Shards
from slipstream.training.team import Team

WHOLE = ("worlds/age", "worlds/samples")
"""Of the arrays of a checkpoint's worlds: those that are the same in all processes. All others end in the lane axis."""


class ParallelTrainer:
    """Process 0's trainer: what it does, all do."""

    def __init__(self, team: Team, config: TrainConfig, env: str):
        """Args:
        team: all processes.
        config: what to train.
        env: the world by its name, which every process finds.
        """
        self.team, self.config = team, config
        team.tell({"do": "build", "config": to_json(config), "env": env})
        self._inner = _trainer(team, config, env)
        self.policies = self._inner.policies

    @property
    def iteration(self) -> int:
        return self._inner.iteration

    @property
    def step(self) -> int:
        return self._inner.step

    @property
    def actors(self) -> dict[str, Any]:
        return self._inner.actors

    def iterate(self) -> dict[str, dict[str, jax.Array]]:
        self.team.tell({"do": "iterate"})
        return self._inner.iterate()

    # What the loop reports.

    def totals(self) -> EpisodeTotals:
        """Of the worlds of all processes."""
        self.team.tell({"do": "totals"})
        others = [EpisodeTotals(**said.content["totals"]) for said in self.team.gather()]
        return EpisodeTotals.together([self._inner.totals(), *others])

    def figures(self) -> dict[str, float]:
        return self._inner.figures()

    def seconds_spent(self) -> dict[str, float]:
        """Of this process: "update" has the time in it that others take longer for a rollout."""
        return self._inner.seconds_spent()

    # Beginning, and checkpoints.

    def load_starting_points(self) -> None:
        self._inner.load_starting_points()
        self._hand_out(self._inner.save()[0], with_worlds=False)

    def restore(self, checkpoint: Checkpoint, source: str) -> None:
        parts = self._inner.parts_of(checkpoint, source)
        mine, *others = deal(parts["worlds"], self.team.seat.count)
        self._inner.take_up({**parts, "worlds": mine}, checkpoint.facts["iteration"], source)
        self._hand_out({**parts, "worlds": {}}, with_worlds=True, worlds=others)

    def _hand_out(self, parts: Parts, with_worlds: bool, worlds: Sequence[Mapping[str, np.ndarray]] = ()) -> None:
        """Give the others what process 0 begins with: what is learned, and of the worlds each its own."""
        shared = _flat({part: parts[part] for part in ("actor", "learner")})
        arrays = {
            number: shared | (_flat({"worlds": worlds[number - 1]}) if with_worlds else {})
            for number in range(1, self.team.seat.count)
        }
        self.team.tell({"do": "take up", "iteration": self.iteration}, arrays)

    def save(self, *, last: bool = True) -> tuple[Parts, dict[str, Any]]:
        """The whole run, as a single process would save it: the worlds of all processes side by side."""
        self.team.tell({"do": "save"})
        parts, facts = self._inner.save(last=last)
        others = self.team.gather()
        apart = [i + 1 for i, said in enumerate(others) if said.content["learned"] != _digest(parts["learner"])]
        if apart:
            raise TrainingFailed(
                f"Process {apart[0]} has not learned the same as process 0: do all of them have the same processors "
                "and the same versions of JAX? Go on from the last checkpoint."
            )
        parts["worlds"] = gathered([parts["worlds"], *(said.arrays for said in others)])
        return parts, facts

    def end(self, result: Result) -> None:
        """Let the others end as this process does."""
        self.team.dismiss({"do": "end", "result": result.to_json()})


def follow(team: Team) -> Result:
    """Do what process 0 says, until the run is over."""
    trainer: FusedTrainer | None = None
    with _passing_signals_on(team):
        while True:
            told = team.hear()
            match told.content["do"]:
                case "build":
                    trainer = _trainer(team, from_json(told.content["config"]), told.content["env"])
                case "take up":
                    assert trainer is not None
                    trainer.take_up(_unflat(told.arrays), told.content["iteration"], "What process 0 sent")
                case "iterate":
                    assert trainer is not None
                    trainer.iterate()
                case "totals":
                    assert trainer is not None
                    team.tell({"totals": dataclasses.asdict(trainer.totals())})
                case "save":
                    assert trainer is not None
                    parts, _ = trainer.save()
                    team.tell({"learned": _digest(parts["learner"])}, {0: parts["worlds"]})
                case "end":
                    return Result.of(told.content["result"])


def _trainer(team: Team, config: TrainConfig, env: AnyEnv) -> FusedTrainer:
    assert isinstance(config.driver, FusedConfig)
    shards = Shards.of_process(config.driver.shares, team.seat.number, team.seat.count)
    _connect(shards)
    return FusedTrainer(config, env, shards)


def _connect(shards: Shards) -> None:
    """Average something, so that what keeps processes from each other shows before any work is done."""
    one = jax.device_put(jnp.ones(1), jax.local_devices()[0])
    with _silenced_stdout():  # gloo says on it that it is connected
        count = jax.jit(lambda a: shards.together(lambda _, shared, lanes: shards.average.total(lanes), (), a))(
            shards.put_together(jnp.tile(one, shards.local))
        )
        jax.block_until_ready(count)


@contextlib.contextmanager
def _silenced_stdout() -> Iterator[None]:
    """Inside, nothing that the process writes to its standard output is seen, be it by C++."""
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


@contextlib.contextmanager
def _passing_signals_on(team: Team) -> Iterator[None]:
    """Inside, whoever asks this process to stop asks process 0, which saves the run first."""
    before = {number: signal.signal(number, lambda *_: team.tell({"sign": "stop"})) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# The worlds of all processes, and those of one.


def deal(worlds: Mapping[str, np.ndarray], processes: int) -> list[dict[str, np.ndarray]]:
    """The worlds of a checkpoint, dealt to processes."""
    dealt: list[dict[str, np.ndarray]] = [{} for _ in range(processes)]
    for name, array in worlds.items():
        pieces = [array] * processes if name in WHOLE else np.split(array, processes, axis=-1)
        for process, piece in zip(dealt, pieces):
            process[name] = piece
    return dealt


def gathered(worlds: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """What was dealt, in one piece again."""
    return {
        name: array if name in WHOLE else np.concatenate([process[name] for process in worlds], axis=-1)
        for name, array in worlds[0].items()
    }


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    checksum = hashlib.sha256()
    for name in sorted(arrays):
        checksum.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
    return checksum.hexdigest()


def _flat(parts: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {f"{part}:{name}": array for part, arrays in parts.items() for name, array in arrays.items()}


def _unflat(arrays: Mapping[str, np.ndarray]) -> Parts:
    parts: Parts = {}
    for name, array in arrays.items():
        part, _, rest = name.partition(":")
        parts.setdefault(part, {})[rest] = array
    return parts
