"""Our replay beside flashbax: writing a rollout and drawing batches, on the device, equal data.

Run it with flashbax installed: `python benchmarks/replay.py`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import flashbax
import jax
import jax.numpy as jnp

from slipstream.algos.algo import Replay
from slipstream.replay.layout import RowLayout
from slipstream.replay.ring import Ring, add, draw
from slipstream.spaces import Box


def best_time(run: Callable[[], Any], repeats: int) -> float:
    """Seconds of the quickest of some runs."""
    jax.block_until_ready(run())
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - began)
    return min(times)


def ours(args: argparse.Namespace) -> list[float]:
    layout = RowLayout.of(Box(args.features), Box(args.actions, -1.0, 1.0), masked=False)
    replay = Replay(args.capacity, args.batch, 1.0, 0, 1, 0.99, 0.0, 0.0)
    rows, usable = jnp.ones((args.worlds * args.steps, layout.width)), jnp.ones(args.worlds * args.steps, bool)
    write = jax.jit(add, donate_argnums=0)
    read = jax.jit(lambda ring, key: draw(ring, layout, replay, args.updates, key=key))
    fetch = jax.jit(lambda ring, key: ring.rows[jax.random.randint(key, (args.updates, args.batch), 0, ring.size)])
    state = {"ring": Ring.empty(layout, replay)}

    def wrote() -> Any:
        state["ring"] = write(state["ring"], rows, usable)
        return state["ring"].cursor

    key = jax.random.key(0)
    return [
        best_time(wrote, args.repeats),
        best_time(lambda: fetch(state["ring"], key), args.repeats),
        best_time(lambda: read(state["ring"], key), args.repeats),
    ]


def theirs(args: argparse.Namespace) -> list[float]:
    """An item buffer that holds whole transitions, as ours does."""
    lanes = args.worlds * args.steps
    buffer = flashbax.make_item_buffer(args.capacity, 1, args.updates * args.batch, add_batches=True)
    item = {
        "observation": jnp.ones(args.features),
        "next_observation": jnp.ones(args.features),
        "action": jnp.ones(args.actions),
        "reward": jnp.ones(()),
        "discount": jnp.ones(()),
    }
    items = jax.tree.map(lambda a: jnp.ones((lanes, *a.shape)), item)
    write = jax.jit(buffer.add, donate_argnums=0)
    fetch = jax.jit(buffer.sample)

    def features_first(a: jax.Array) -> jax.Array:
        return jnp.moveaxis(a.reshape(args.updates, args.batch, *a.shape[1:]), 1, -1)

    read = jax.jit(lambda state, key: jax.tree.map(features_first, buffer.sample(state, key).experience))
    state = {"buffer": buffer.init(item)}

    def wrote() -> Any:
        state["buffer"] = write(state["buffer"], items)
        return state["buffer"].current_index

    key = jax.random.key(0)
    return [
        best_time(wrote, args.repeats),
        best_time(lambda: fetch(state["buffer"], key), args.repeats),
        best_time(lambda: read(state["buffer"], key), args.repeats),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for name, default in dict(
        capacity=1_000_000, features=17, actions=6, worlds=128, steps=8, batch=128, updates=64, repeats=20
    ).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    mine, peer = ours(args), theirs(args)
    print(f"{'':32}{'ours':>12}{'flashbax':>12}{'ratio':>8}")
    for what, a, b in zip(("writing", "drawing", "drawing, features before samples"), mine, peer):
        print(f"{what:32}{a * 1e6:>9,.0f} us{b * 1e6:>9,.0f} us{b / a:>8.2f}")


if __name__ == "__main__":
    main()
