"""Episodes to look at: what one world goes through under the policies of a run."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np

from slipstream.envs.worlds import Worlds
from slipstream.training.evaluate import DEFAULT_LIMIT
from slipstream.training.policies import Policies, States, store_views


def episode_limit(worlds: Worlds, max_steps: int | None = None) -> int:
    """The number of steps after which an episode is no longer looked at."""
    limit = worlds.env.max_steps or DEFAULT_LIMIT
    return limit if max_steps is None else min(limit, max_steps)


def play_episode(
    policies: Policies, states: States, worlds: Worlds, max_steps: int | None = None
) -> Iterator[dict[str, np.ndarray]]:
    """The states of an episode without exploration: at its start and after every step but the one that ends it.

    Args:
        policies: who acts.
        states: with which weights.
        worlds: a single world.
        max_steps: stop after so many steps.
    """
    worlds.reset()
    store = worlds.new_store(1)
    worlds.engine.observe(store, 0)
    views = store_views(store)
    yield worlds.get_state()
    for _ in range(episode_limit(worlds, max_steps)):
        worlds.step_into(store, 0, jax.block_until_ready(policies.act_best(states, views)))
        if worlds.at_start()[0]:
            return
        yield worlds.get_state()
