"""What an algorithm is: a record of pure functions, and the data they exchange.

What acts is apart from what learns. A *state* is everything that learning needs and a checkpoint keeps (weights,
optimiser, statistics). An *actor* is the part of it that playing needs (weights and normaliser): an opponent, an
evaluation or an exported policy has the actor alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp


class Inputs(eqx.Module):
    """What actions are chosen from, wherever it comes from: compiled worlds, Gymnasium, or a user's hand."""

    observation: jax.Array
    """`[features, lanes]`"""
    mask: jax.Array | None = None
    """Which choices are allowed, `[choices, lanes]`; None: all."""
    active: jax.Array | None = None
    """Who is in the game, `[lanes]`; None: everybody."""
    memory: Any = None
    """What the actor remembers of the episode so far, as `Algorithm.memory` and then `Choice.memory` gave it."""


class Choice(NamedTuple):
    """What acting leads to."""

    action: jax.Array
    """In the world's units, `[components, lanes]`."""
    kept: Any
    """Whatever pytree the algorithm wants back for learning; its arrays end in the lane axis."""
    memory: Any
    """What to give back with the next inputs of the same episodes."""


class Rollout(eqx.Module):
    """What a policy's agents went through. Slot t of `[steps + 1]` arrays is what action t was chosen from."""

    observation: jax.Array
    """`[steps + 1, features, lanes]`"""
    kept: Any
    """What acting kept, `[steps, ..., lanes]`."""
    reward: jax.Array
    """`[steps, lanes]`"""
    terminated: jax.Array
    """`[steps, lanes]`"""
    truncated: jax.Array
    """`[steps, lanes]`"""
    final_observation: jax.Array
    """`[steps, features, lanes]`; only where an episode ended."""
    begins: jax.Array
    """Whether a slot is the first of its episode, `[steps + 1, lanes]`."""
    active: jax.Array | None
    """`[steps + 1, lanes]`, or None when everybody always is."""
    action_mask: jax.Array | None
    """`[steps + 1, choices, lanes]`, or None when everything is allowed."""

    @property
    def weight(self) -> jax.Array:
        """1 for each step of an agent that was in the game, else 0: `[steps, lanes]`."""
        if self.active is None:
            return jnp.ones_like(self.reward)
        return self.active[:-1].astype(jnp.float32)


class Transitions(eqx.Module):
    """A stack of batches out of a replay, one for each gradient step."""

    observation: jax.Array
    """`[updates, features, batch]`; bytes if it is an image."""
    action: jax.Array
    """In the policy's own units (-1 .. 1, or choices), `[updates, components, batch]`."""
    reward: jax.Array
    """The sum over the steps between the two observations, discounted, `[updates, batch]`."""
    discount: jax.Array
    """What the value of the next observation counts for: 0 if the episode was over, `[updates, batch]`."""
    next_observation: jax.Array
    """`[updates, features, batch]`; the final one where the episode was cut off."""
    next_mask: jax.Array | None = None
    """What is allowed next, `[updates, choices, batch]`; None: everything."""
    weight: jax.Array | None = None
    """How much each sample counts, `[updates, batch]`; None: all the same."""


@dataclass(frozen=True)
class WholeRollout:
    """Learns once from everything that its agents have just gone through."""


@dataclass(frozen=True)
class Replay:
    """Learns from transitions drawn from a memory of many rollouts."""

    capacity: int
    """How many transitions are remembered."""
    batch: int
    """How many are drawn for one gradient step."""
    updates_per_step: float
    """Gradient steps for each step of an agent."""
    warm_up: int
    """Transitions to collect before the first gradient step."""
    n_step: int
    """How many steps lie between the two observations of a transition, at most."""
    discount: float
    """How much a reward one step later counts."""
    priority: float
    """The power of a transition's surprise by which it is drawn; 0: all alike."""
    priority_correction: float
    """How far the weights of the samples make up for it: 1 is all the way."""


SURPRISE = "surprise"
"""Among the metrics of an update from replay: how wrong each sample's value was, `[updates, batch]`. A replay with
priorities draws by it; it is not reported."""

Experience = WholeRollout | Replay


class Init(Protocol):
    def __call__(self, *, key: jax.Array) -> Any: ...


class Act(Protocol):
    def __call__(self, actor: Any, inputs: Inputs, /, *, explore: bool, key: jax.Array) -> Choice: ...


class Update(Protocol):
    def __call__(
        self, state: Any, batch: Any, /, *, elapsed: jax.Array | float, key: jax.Array
    ) -> tuple[Any, dict[str, jax.Array]]: ...


@dataclass(frozen=True)
class Half:
    """A part of an update that can run on a device of its own, with a copy of the state of its own."""

    update: Update
    """As `Algorithm.update`; only what is its own learns."""
    own: Callable[[Any], Any]
    """Of a state, what this part learns: the other part wants it from time to time."""

    def taken(self, learned: Any, state: Any) -> Any:
        """A state of the other part with what this part has learned (`own` of its state, on the same device)."""
        return eqx.tree_at(self.own, state, learned, is_leaf=lambda leaf: leaf is None)


@dataclass(frozen=True)
class Halves:
    """An update in two parts. If what each has learned is handed over after every gradient step, critics first, they
    learn what `Algorithm.update` would; if less often, both can run at the same time."""

    critics: Half
    policy: Half


@dataclass(frozen=True)
class Algorithm:
    """How a policy acts and learns.

    Attributes:
        init: a fresh state.
        actor: the part of a state that acts.
        memory: what an actor remembers at the beginning of an episode, for a number of lanes (`()`: it has no memory).
            It is made of zeros, so that an episode begins anew by setting its lanes to 0.
        act: choose actions; with `explore` as it does in training, else as well as it can.
        update: learn from a batch of experience: a `Rollout`, or `Transitions` (with a gradient step for each of the
            stack). `elapsed` is how much of its schedules the agent has behind it, from 0 to 1.
            The state that is given is used up: its memory may be written to.
        experience: what a batch is.
        halves: how an update can be divided between two devices; None: it cannot.
    """

    init: Init
    actor: Callable[[Any], Any]
    memory: Callable[[int], Any]
    act: Act
    update: Update
    experience: Experience
    halves: Halves | None = None
