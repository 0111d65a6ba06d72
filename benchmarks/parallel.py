"""One run in several processes beside one process with all their cores, and what more devices would give on paper.

    .venv/bin/python benchmarks/parallel.py                                  # humanoid, two processes of one core each
    .venv/bin/python benchmarks/parallel.py --env cartpole --worlds 512 --iterations 6 --turns 1      # a quick look

Measured, in turns on the same machine, are the seconds of an iteration and where they go: of one process with all
cores, of N processes with one core each, and of a single core with one N-th of the worlds and with a quarter of that
(from both, what an iteration costs whatever the number of worlds, and what each world adds); and of N processes that
average as many bytes as the gradient has. From these parts follows the model: an iteration of P devices takes

    fixed + worlds per device * cost of a world + messages * (2 log2(P) * latency + 2 (P - 1) / P * bytes / bandwidth).

Prints tables (in Markdown) and writes docs/figures/parallel.json. Let nothing else run meanwhile.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tyro

from slipstream.training.choices import default_config
from slipstream.training.config_json import to_json
from slipstream.training.cores import confined_to, share_cores
from slipstream.training.launch import _two_free_ports
from slipstream.training.team import Seat

ROOT = Path(__file__).resolve().parent.parent

SMALL_MESSAGES = 14
"""Averages of an update of PPO beside those of gradients: advantages, counts, metrics, the normaliser's statistics."""

DEVICES = (1, 2, 8, 64, 512)

PUBLISHED = "a humanoid learns to run in 16 minutes with one GPU, and in about 4 with several (Liang et al. 2018)."
"""As the paper is cited: how many GPUs the 4 minutes took is not known here."""

AVERAGE = """
import json, os, sys, time
import jax, jax.numpy as jnp
from slipstream.training.parallel import _connect
from slipstream.training.shards import Shards
from slipstream.training.team import Seat, assemble
seat = Seat.from_environment()
team = assemble(seat)
with team.working():
    shards = Shards.of_process(seat.count, seat.number, seat.count)
    _connect(shards)
    average = jax.jit(lambda a: shards.together(lambda _, shared, lanes: shards.average(lanes), (), a))
    taken = {}
    for size in json.loads(sys.argv[1]):
        given = shards.put_together(jax.device_put(jnp.ones(size), jax.local_devices()[0]))
        jax.block_until_ready(average(given))
        times = []
        for _ in range(200):
            start = time.perf_counter()
            jax.block_until_ready(average(given))
            times.append(time.perf_counter() - start)
        taken[4 * size] = sorted(times)[len(times) // 2]
    if seat.number == 0:
        print(json.dumps(taken), flush=True)
        team.dismiss({})
    else:
        team.hear()
"""


@dataclass(frozen=True)
class Parallel:
    env: str = "humanoid"
    """A world, trained by PPO with its preset."""
    worlds: int = 2048
    """Of all processes together."""
    processes: int = 2
    """How many, with one core each."""
    iterations: int = 10
    """Of each run; the first two, which compile, do not count."""
    turns: int = 3
    """How often each is run, one after the other."""
    faster: float = 100.0
    """How many times as fast as a core here the devices of the second model are."""
    out: Path = ROOT / "docs" / "figures" / "parallel.json"
    json: bool = False
    """Print JSON instead of tables."""


@dataclass(frozen=True)
class Setup:
    """Who trains how many worlds, on how many cores."""

    name: str
    worlds: int
    processes: int
    cores: int


@dataclass(frozen=True)
class Network:
    """What it takes to average over devices."""

    latency: float
    """Seconds of one hop."""
    bandwidth: float
    """Bytes in a second."""

    def seconds(self, size: float, devices: int) -> float:
        """Of one average of so many bytes."""
        if devices == 1:
            return 0.0
        return 2 * math.log2(devices) * self.latency + 2 * (devices - 1) / devices * size / self.bandwidth


NETWORKS = {
    "in one box": Network(5e-6, 200e9),
    "between boxes": Network(10e-6, 20e9),
}
"""Assumed, not measured: what NVLink and InfiniBand are made for. Up to 8 devices are in one box."""


def measure(setup: Setup, env: str, iterations: int) -> dict[str, float]:
    """Seconds of an iteration and of its parts, in the median."""
    with tempfile.TemporaryDirectory() as folder:
        config = default_config(env, num_worlds=setup.worlds, processes=setup.processes)
        steps = iterations * config.driver.whole(1)
        config = replace(
            config, total_steps=steps, report_every=0.0, evaluate_every=None, checkpoint_every=1e9, save_replay=False
        )
        Path(folder, "config.json").write_text(json.dumps(to_json(config)))
        command = [sys.executable, "-m", "slipstream.cli.main", "train", "--config", f"{folder}/config.json"]
        cores = sorted(os.sched_getaffinity(0))[: setup.cores]
        with confined_to(cores):
            subprocess.run([*command, "--run", f"{folder}/run", "--quiet"], check=True, capture_output=True)
        rows = [json.loads(line) for line in Path(folder, "run", "metrics.jsonl").read_text().splitlines()]
    names = ("simulation", "inference", "update")
    each = [
        {n: row[f"time/{n}"] * (row["seconds"] - before["seconds"]) for n in names}
        | {"iteration": row["seconds"] - before["seconds"], "steps_per_second": row["steps_per_second"]}
        for before, row in itertools.pairwise(rows[1:])
    ]
    return {name: statistics.median(one[name] for one in each) for name in each[0]}


def measure_average(sizes: list[int], processes: int) -> dict[int, float]:
    """Seconds of one average of so many numbers over processes of one core each, by bytes."""
    seat = Seat("127.0.0.1", _two_free_ports(), processes, 0)
    started = []
    for number, cores in enumerate(share_cores(processes)):
        environment = {**os.environ, **replace(seat, number=number).as_environment()}
        with confined_to(cores):
            command = [sys.executable, "-c", AVERAGE, json.dumps(sizes)]
            started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    outputs = [process.communicate()[0] for process in started]
    return {int(size): seconds for size, seconds in json.loads(outputs[0].splitlines()[-1]).items()}


def gradient_size(env: str) -> tuple[int, int]:
    """How many numbers a gradient has, and how many gradients an iteration."""
    import jax

    from slipstream.envs.registry import make_env
    from slipstream.training.policies import Policies

    config = default_config(env)
    groups = make_env(config.env, **dict(config.env_options)).groups
    states = jax.eval_shape(lambda: Policies(groups, config.policies).init(key=jax.random.key(0)))
    numbers = sum(a.size for state in states.values() for a in jax.tree.leaves(state.network))
    settings: Any = next(iter(config.policies.values())).settings
    return numbers, settings.epochs * settings.minibatches


@dataclass(frozen=True)
class Model:
    """What an iteration takes on paper."""

    fixed: float
    per_world: float
    size: int
    """Bytes of a gradient."""
    gradients: int

    def seconds(self, worlds: float, devices: int, network: Network, faster: float = 1.0) -> float:
        messages = self.gradients * network.seconds(self.size, devices)
        messages += SMALL_MESSAGES * network.seconds(64, devices)
        return self.fixed + worlds * self.per_world / faster + (messages if devices > 1 else 0.0)


def main(options: Parallel) -> None:
    n, worlds = options.processes, options.worlds
    setups = [
        Setup(f"1 process, {n} cores", worlds, 1, n),
        Setup(f"{n} processes, 1 core each", worlds, n, n),
        Setup("1 process, 1 core, its part of the worlds", worlds // n, 1, 1),
        Setup("1 process, 1 core, a quarter of that", worlds // (4 * n), 1, 1),
    ]
    found: dict[str, list[dict[str, float]]] = {setup.name: [] for setup in setups}
    for turn in range(options.turns):
        for setup in setups if turn % 2 == 0 else reversed(setups):
            found[setup.name].append(measure(setup, options.env, options.iterations))
    best = {name: min(turns, key=lambda one: one["iteration"]) for name, turns in found.items()}
    numbers, gradients = gradient_size(options.env)
    averages = measure_average([1, numbers, 4 * numbers], n)
    part, quarter = (best[setup.name]["iteration"] for setup in setups[2:])
    per_world = max((part - quarter) / (worlds // n - worlds // (4 * n)), 0.0)
    model = Model(max(part - worlds // n * per_world, 0.0), per_world, 4 * numbers, gradients)
    slope = max((averages[16 * numbers] - averages[4]) / (16 * numbers - 4), 1e-12)
    here = Network(averages[4] / (2 * math.log2(n)), 2 * (n - 1) / n / slope)

    def network_of_fast(devices: int) -> Network:
        return NETWORKS["in one box" if devices <= 8 else "between boxes"]

    rollout = default_config(options.env).driver.whole(1) // default_config(options.env).driver.num_worlds
    results = {
        "settings": {n: v for n, v in vars(options).items() if n not in ("out", "json")},
        "versions": {name: version(name) for name in ("jax", "drjit")},
        "cores": os.cpu_count(),
        "load": os.getloadavg()[2],
        "env": options.env,
        "setups": [asdict(s) | {"best": best[s.name], "turns": found[s.name]} for s in setups],
        "averages": averages,
        "gradient": {"bytes": 4 * numbers, "per_iteration": gradients},
        "model": asdict(model)
        | {"network_here": asdict(here), "networks_assumed": {k: asdict(v) for k, v in NETWORKS.items()}},
        "on_paper": {
            "cores like these": _on_paper(model, worlds // n, rollout, lambda _: here, 1.0),
            f"devices {options.faster:g} times as fast": _on_paper(
                model, worlds // n, rollout, network_of_fast, options.faster
            ),
        },
        "published": PUBLISHED,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=2) + "\n")
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        _show(results)


def _on_paper(
    model: Model, worlds: int, rollout: int, network_of: Callable[[int], Network], faster: float
) -> list[dict[str, float]]:
    """Weak scaling: every device has `worlds`. Strong scaling: all together have as many as 8 devices have then."""
    alone = worlds * rollout / model.seconds(worlds, 1, network_of(1), faster)
    total = 8 * worlds
    strong_alone = total * rollout / model.seconds(total, 1, network_of(1), faster)
    rows = []
    for devices in DEVICES:
        weak = devices * worlds * rollout / model.seconds(worlds, devices, network_of(devices), faster)
        strong = total * rollout / model.seconds(total / devices, devices, network_of(devices), faster)
        rows.append(
            {
                "devices": devices,
                "weak_steps_per_second": weak,
                "weak_efficiency": weak / (devices * alone),
                "strong_steps_per_second": strong,
                "strong_speed_up": strong / strong_alone,
            }
        )
    return rows


def _show(results: dict[str, Any]) -> None:
    """The tables that are in the documentation."""
    names = ("iteration", "simulation", "inference", "update")
    setups = [
        [s["name"], f"{s['worlds']:,}", f"{s['best']['steps_per_second']:,.0f}"]
        + [f"{1e3 * s['best'][name]:,.0f} ms" for name in names]
        for s in results["setups"]
    ]
    _print_table([results["env"], "worlds", "steps/s", *names], setups)
    gradient, averages = results["gradient"], results["averages"].items()
    sizes = ", ".join(f"{size:,} bytes {1e3 * seconds:.2f} ms" for size, seconds in averages)
    print(f"A gradient has {gradient['bytes']:,} bytes; an iteration averages {gradient['per_iteration']}. Averages of "
          f"{results['settings']['processes']} processes here take: {sizes}.\n")  # fmt: skip
    model = results["model"]
    print(f"An iteration on one core: {1e3 * model['fixed']:.1f} ms and {1e6 * model['per_world']:.0f} us a world.\n")
    for name, rows in results["on_paper"].items():
        first = [f"on paper: {name}", "weak: steps/s", "efficiency", "strong: steps/s", "speed-up"]
        cells = [
            [
                str(r["devices"]),
                f"{r['weak_steps_per_second']:,.0f}",
                f"{100 * r['weak_efficiency']:.0f} %",
                f"{r['strong_steps_per_second']:,.0f}",
                f"{r['strong_speed_up']:.1f}",
            ]
            for r in rows
        ]
        _print_table(first, cells)
    print(f"Published: {PUBLISHED}")


def _print_table(head: list[str], rows: list[list[str]]) -> None:
    for line in (head, ["---"] * len(head), *rows):
        print("| " + " | ".join(line) + " |")
    print()


if __name__ == "__main__":
    main(tyro.cli(Parallel))
