"""Where the learner's batches come from: drawn from the ring, or what samplers have just gone through."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import jax.numpy as jnp
import numpy as np

from slipstream.algos.actor_critic import Kept
from slipstream.algos.algo import Replay, Rollout
from slipstream.capacity import require_memory
from slipstream.replay.layout import RowLayout
from slipstream.replay.ring import LEAST
from slipstream.replay.rows import unpack
from slipstream.shared_memory import Block
from slipstream.training.pipeline.priorities import Picked
from slipstream.training.pipeline.ring import Ring
from slipstream.training.pipeline.rollouts import Rollouts


class Feed(Protocol):
    """The learner's end of what samplers write."""

    block: Block
    updates: int
    """Gradient steps (or rollouts) in a batch."""
    frames: int
    """Samples that a batch has the gradient computed for."""

    def job(self) -> dict[str, Any]:
        """What a sampler must know to write."""
        ...

    def ready(self, samples: int, updates: int) -> bool:
        """Whether there is a batch to learn from, after so many samples and updates in all."""
        ...

    def fetch(self) -> None:
        """Copy the next batch out of the shared memory. The one before it may still be in use."""
        ...

    def take(self) -> Any:
        """The batch that was fetched."""
        ...

    def example(self) -> Any:
        """Something of the shape of a batch."""
        ...

    def learnable(self, batch: Any) -> Any:
        """What the algorithm's update takes, from a batch (in a compiled function)."""
        ...

    def forget(self) -> None:
        """Have nothing to learn from. Nobody may be writing meanwhile."""

    def figures(self) -> dict[str, float]: ...


class ReplayFeed:
    """Batches drawn from the ring, several gradient steps at a time."""

    def __init__(self, experience: Replay, layout: RowLayout, samplers: int, updates: int, seed: int):
        """Args:
        experience: what the algorithm wants.
        layout: of a transition.
        samplers: how many processes write.
        updates: gradient steps in a batch.
        seed: of drawing.
        """
        size = experience.capacity * (4 * layout.width + layout.pixels + 4 * (experience.priority > 0))
        what = f"Remembering {experience.capacity:,} transitions"
        require_memory([size], what, "choose a smaller --set replay_size")
        self.experience, self._layout = experience, layout
        self.ring = self._new_ring(samplers)
        self.block = self.ring.block
        self._rng = np.random.default_rng(seed)
        self._age, self._redrawn = 0.0, 0
        self.resize(experience.batch, updates)

    def resize(self, batch: int, updates: int) -> None:
        """From now on give so many gradient steps at once so many samples each."""
        self.experience, self.updates = dataclasses.replace(self.experience, batch=batch), updates
        self.frames = updates * batch
        self._buffers = [self._room(), self._room()]
        self._fetched = False

    def divide(self, regions: int) -> None:
        """Divide the ring among another number of samplers, of whom none is at work. It keeps what is in it."""
        old, self.ring = self.ring, self._new_ring(regions)
        self.ring.restore(old.rows_in_memory())
        self.block = self.ring.block
        self._fetched = False  # the places of its rows were those of the old ring
        old.close()

    def _new_ring(self, regions: int) -> Ring:
        experience, layout = self.experience, self._layout
        prioritised = experience.priority > 0
        return Ring(regions, experience.capacity, layout.width, layout.pixels, prioritised=prioritised)

    def _room(self) -> tuple[np.ndarray, np.ndarray | None, Picked | None]:
        pixels = np.empty((self.frames, self._layout.pixels), np.uint8) if self._layout.pixels else None
        picked = Picked.room(self.frames) if self.experience.priority else None
        return np.empty((self.frames, self._layout.width), np.float32), pixels, picked

    def job(self) -> dict[str, Any]:
        e = self.experience
        return {"kind": "replay", "block": self.block.to_json(), "n_step": e.n_step, "discount": e.discount}

    def ready(self, samples: int, updates: int) -> bool:
        """Whether enough is there to begin with, and the bound on updates for each sample is kept."""
        if self._fetched:
            return True
        most = self.ring.rows * self.ring.regions // 2  # a small ring never holds much more than this
        enough = self.ring.available >= max(1, min(self.experience.warm_up, most))
        return enough and updates + self.updates <= self.experience.updates_per_step * samples

    def fetch(self) -> None:
        self._buffers.reverse()
        self._age, again = self.ring.draw(self.frames, self._rng, *self._buffers[0])
        self._redrawn += again
        self._fetched = True

    def take(self) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Rows, `[updates, batch, width]`, their pictures, `[updates, batch, bytes]`, and how much each counts,
        `[updates, batch]`."""
        if not self._fetched:
            self.fetch()
        self._fetched = False
        self._taken = self._buffers[0][-1]
        return self.example()

    def example(self) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        numbers, pixels, picked = self._buffers[0]
        shape = (self.updates, self.experience.batch)
        weight = None
        if picked is not None:
            priority = picked.priority.reshape(shape)
            weight = (priority / priority.min(axis=1, keepdims=True)) ** -self.experience.priority_correction
        return numbers.reshape(*shape, -1), None if pixels is None else pixels.reshape(*shape, -1), weight

    def surprised(self, surprise: np.ndarray) -> None:
        """Draw what was taken last by how wrong its values were, `[updates, batch]`.

        It counts from the next fetch on: a batch that was fetched meanwhile was drawn without it.
        """
        assert self._taken is not None and self.ring.priorities is not None
        new = (np.abs(surprise.reshape(-1)) + np.float32(LEAST)) ** np.float32(self.experience.priority)
        new = np.where(np.isfinite(new), np.maximum(new, np.finfo(np.float32).tiny), np.float32(1.0))
        self.ring.priorities.change(self._taken, new)

    def learnable(self, batch: Any) -> Any:
        return unpack(self._layout, *batch)

    def forget(self) -> None:
        self.ring.forget()
        self._fetched = False

    def figures(self) -> dict[str, float]:
        return {"replay_size": self.ring.available, "replay_age": self._age, "rows_redrawn": self._redrawn}


class RolloutFeed:
    """Whole rollouts of all samplers."""

    updates = 1

    def __init__(
        self, features: int, components: int, image: bool, samplers: int, steps: int, lanes: int, discrete: bool
    ):
        self._rollouts = Rollouts(samplers, steps, features, components, lanes, image)
        self.block = self._rollouts.block
        self.frames = samplers * steps * lanes
        self._discrete = discrete
        self._buffers = [self._rollouts.empty(), self._rollouts.empty()]
        self._fetched = False

    def job(self) -> dict[str, Any]:
        return {"kind": "rollouts", "block": self.block.to_json(), "steps": self._rollouts.steps}

    def ready(self, samples: int, updates: int) -> bool:
        return self._fetched or self._rollouts.ready

    def fetch(self) -> None:
        self._buffers.reverse()
        self._rollouts.take(self._buffers[0])
        self._fetched = True

    def take(self) -> dict[str, np.ndarray]:
        """Arrays of a `Rollout`."""
        if not self._fetched:
            self.fetch()
        self._fetched = False
        return self.example()

    def example(self) -> dict[str, np.ndarray]:
        return self._buffers[0]

    def learnable(self, batch: Any) -> Rollout:
        given = dict(batch)
        action = given.pop("action")
        kept = Kept(action.astype(jnp.int32) if self._discrete else action, given.pop("log_prob"), ())
        return Rollout(kept=kept, active=None, action_mask=None, **given)

    def forget(self) -> None:
        self._rollouts.forget()
        self._fetched = False

    def figures(self) -> dict[str, float]:
        return {}
