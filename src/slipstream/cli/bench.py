"""`slipstream bench`: how fast a world runs on this machine."""

from __future__ import annotations

import json as json_module
import time
from dataclasses import dataclass

import tyro


@dataclass(frozen=True)
class Bench:
    """Measure how many steps per second a world makes here, with random actions drawn inside the kernel.

    This is the simulator alone: rules, rewards, observations, resets and statistics, but no policy. The benchmarks/
    folder compares with other systems.
    """

    env: tyro.conf.Positional[str]
    """Name of a world, or path/to/file.py:Class."""
    worlds: int = 4096
    """How many copies of the world."""
    seconds: float = 2.0
    """How long to measure."""
    threads: int | None = None
    """Threads of the llvm backend; by default one per core."""
    option: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """An option of the world, as name=value; may be repeated."""
    backend: str = "auto"
    """What compiles the worlds."""
    json: bool = False
    """Print JSON instead of text."""


def run(options: Bench) -> int:
    from slipstream.arrays import set_threads
    from slipstream.cli.values import parse_assignments
    from slipstream.envs.registry import make

    if options.seconds <= 0:
        raise ValueError(f"--seconds must be positive, got {options.seconds}.")
    if options.threads is not None:
        set_threads(options.threads)
    worlds = make(options.env, options.worlds, backend=options.backend, **parse_assignments("--option", options.option))
    start = time.perf_counter()
    worlds.rollout_random(1)
    first = time.perf_counter() - start
    steps, chunk, took = 0, 1, 0.0
    while took < options.seconds:
        start = time.perf_counter()
        worlds.rollout_random(chunk)
        took += time.perf_counter() - start
        steps += chunk
        chunk = min(2 * chunk, 64)
    agents = sum(g.size for g in worlds.groups)
    rate = options.worlds * steps / took
    result = {
        "env": options.env,
        "worlds": options.worlds,
        "agents_per_world": agents,
        "steps_per_second": rate,
        "agent_steps_per_second": rate * agents,
        "first_step_seconds": first,
    }
    if options.json:
        print(json_module.dumps(result, indent=2))
    else:
        print(f"{options.env}: {rate:,.0f} env steps/s with {options.worlds:,} worlds (first step {first:.2f} s)")
        if agents > 1:
            print(f"{rate * agents:,.0f} agent steps/s ({agents:,} agents per world)")
    return 0
