"""Where the time of a training step goes, and how near the update comes to what the processor can multiply.

    .venv/bin/python benchmarks/throughput.py
    .venv/bin/python benchmarks/throughput.py --envs cartpole --worlds 2048 --set epochs=4

Trains with the preset in this process and prints microseconds of a step by part, steps/s, and the update's products as
a share of the peak: that of large matrix products on all cores, measured in the same run. (Numbers are lower quartiles
of iterations: what a machine does when nothing else wants it. Evaluations and files are left out.)
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table

from slipstream.algos.settings import PPOConfig
from slipstream.cli.values import parse_assignments
from slipstream.training.choices import default_config
from slipstream.training.fused import FusedTrainer

PARTS = ("simulation", "inference", "update")


@dataclass(frozen=True)
class Throughput:
    envs: tuple[str, ...] = ("cartpole", "humanoid", "ant", "hopper")
    """Worlds to train in, by PPO with their presets."""
    worlds: int | None = None
    """How many; by default as the preset says."""
    set: tuple[str, ...] = ()
    """Settings of PPO, as name=value."""
    warm_up: int = 5
    """Iterations that do not count."""
    iterations: int = 40
    json: bool = False
    """Print JSON instead of a table."""


def peak() -> float:
    """Floating-point operations per second of a large product on all cores."""
    size = 2048
    a = jax.random.normal(jax.random.key(0), (size, size))
    product, best = jax.jit(lambda a: a @ a), 0.0
    jax.block_until_ready(product(a))
    for _ in range(30):
        start = time.perf_counter()
        jax.block_until_ready(product(a))
        best = max(best, 2 * size**3 / (time.perf_counter() - start))
    return best


def work_per_step(trainer: FusedTrainer) -> float:
    """Floating-point operations of the products of an update, for each step of an agent.

    Forwards, backwards to the weights, and backwards to the inputs, which the first layer of a network can do without.
    (That of values before the update is left out.)
    """
    (name,) = trainer.policies.on_policy
    state, config = trainer.states[name], trainer.config.policies[name].settings
    assert isinstance(config, PPOConfig)
    total = 0.0
    for network in (state.network.policy.body, state.network.critic):
        for number, layer in enumerate(network.layers):
            total += 2.0 * layer.weight.size * (3 if number else 2)
    return total * config.epochs


def measured(env: str, options: Throughput) -> dict[str, Any]:
    settings = parse_assignments("--set", options.set)
    worlds: dict[str, Any] = {} if options.worlds is None else {"num_worlds": options.worlds}
    trainer = FusedTrainer(default_config(env, algo="ppo", settings=settings, **worlds))
    for _ in range(options.warm_up):
        trainer.iterate()
    rows = []
    for _ in range(options.iterations):
        before, start = trainer.seconds_spent(), time.perf_counter()
        trainer.iterate()
        took = time.perf_counter() - start
        rows.append([took, *(trainer.seconds_spent()[part] - before[part] for part in PARTS)])
    steps = trainer.driver.steps_per_iteration
    seconds = dict(zip(("step", *PARTS), np.percentile(rows, 25, axis=0) / steps))
    agents = sum(group.size for group in trainer.worlds.groups)
    return {
        "env": env,
        "worlds": trainer.worlds.num_worlds,
        "steps_per_second": 1.0 / seconds["step"],
        "microseconds": {part: 1e6 * seconds[part] for part in PARTS},
        "update_flops_per_second": agents * work_per_step(trainer) / seconds["update"],
    }


def main(options: Throughput) -> None:
    limit = peak()
    found = [measured(env, options) for env in track(options.envs, "training", console=Console(stderr=True))]
    if options.json:
        print(json.dumps({"peak": limit, "worlds": found}, indent=2))
        return
    table = Table("world", "worlds", "steps/s", *(f"{part}, us" for part in PARTS), "update, share of peak")
    for row in found:
        times = (f"{row['microseconds'][part]:.2f}" for part in PARTS)
        share = row["update_flops_per_second"] / limit
        table.add_row(row["env"], f"{row['worlds']:,}", f"{row['steps_per_second']:,.0f}", *times, f"{share:.0%}")
    Console(width=120).print(table)
    print(f"Large matrix products reach {limit / 1e9:.0f} GFLOP/s here.")


if __name__ == "__main__":
    main(tyro.cli(Throughput))
