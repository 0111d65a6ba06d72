"""Several policies that act as one: by the mean of their actions, or by a vote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp

from slipstream.algos.algo import Algorithm, Choice, Inputs, WholeRollout
from slipstream.spaces import Box, Space

SENIORITY = 1e-3
"""What the first member's vote counts more than the last one's: it decides where as many are for one as for another."""


def make_ensemble(members: Sequence[Algorithm], action: Space) -> Algorithm:
    """An algorithm that acts by all of its members, and cannot learn.

    Args:
        members: the best one first.
        action: what all of them choose from.
    """

    def init(*, key: jax.Array) -> tuple[Any, ...]:
        return tuple(m.init(key=k) for m, k in zip(members, jax.random.split(key, len(members))))

    def actor(state: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(m.actor(s) for m, s in zip(members, state))

    def memory(lanes: int) -> tuple[Any, ...]:
        return tuple(m.memory(lanes) for m in members)

    def act(actor: tuple[Any, ...], inputs: Inputs, *, explore: bool, key: jax.Array) -> Choice:
        choices = []
        for i, k in enumerate(jax.random.split(key, len(members))):
            own = Inputs(inputs.observation, inputs.mask, inputs.active, inputs.memory[i])
            choices.append(members[i].act(actor[i], own, explore=explore, key=k))
        together = jnp.stack([choice.action for choice in choices])
        agreed = together.mean(axis=0) if isinstance(action, Box) else vote(together, max(action.choices))
        return Choice(agreed, (), tuple(choice.memory for choice in choices))

    def update(*_: Any, **__: Any) -> NoReturn:
        raise TypeError("An ensemble does not learn.")

    return Algorithm(init, actor, memory, act, update, WholeRollout())


def vote(actions: jax.Array, choices: int) -> jax.Array:
    """What most are for, `[components, lanes]`; where as many are for something else, what the first of them is for.

    Args:
        actions: `[members, components, lanes]`
        choices: how many there are at most.
    """
    weight = 1.0 + SENIORITY * jnp.linspace(1.0, 0.0, len(actions))
    ballots = jax.nn.one_hot(actions, choices, axis=0)  # [choices, members, components, lanes]
    return jnp.einsum("cmkl,m->ckl", ballots, weight).argmax(axis=0).astype(actions.dtype)
