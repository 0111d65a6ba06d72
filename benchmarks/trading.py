"""Trading: markets in one kernel against plain vectorised NumPy of the same rules, in the same run.

    python benchmarks/trading.py [--markets 1024 4096] [--budget 4] [--json] [--output docs/figures]

First both trade through whole episodes side by side with the same actions, and the largest differences are told. Then
market days per second are measured with random actions (rewards, observations and resets included) on one thread and
on all; NumPy at the number of markets that suits it best. Writes `trading.json`.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from reference_trading import Known, Rules, Trading
from slipstream.arrays import set_threads
from slipstream.envs import make
from slipstream.envs.trading.stock_trading import StockTrading
from slipstream.target import choose_target

NUMPY_MARKETS = (64, 256, 1024, 4096)
GOAL = 1e6
"""Market days in a second that are to be reached, in at least 1,000 markets."""


@dataclass(frozen=True)
class Options:
    """Measure stock-trading against plain NumPy, and how far apart they are."""

    markets: tuple[int, ...] = (1024, 4096)
    """How many markets run side by side."""
    budget: float = 4.0
    """Seconds for each measurement."""
    compared: int = 64
    """Markets in which whole episodes are compared."""
    output: Path | None = None
    """Where `trading.json` goes; nowhere unless given."""
    json: bool = False
    """Print JSON instead of a table."""


def known(env: StockTrading) -> Known:
    """What both know of each day."""
    stocks, seen = env.stocks, env.market.seen
    table = env.market.table
    return Known(
        np.ascontiguousarray(table[:, :stocks]),
        np.ascontiguousarray(table[:, stocks : stocks + seen]),
        table[:, stocks + seen].copy(),
    )


def differences(markets: int) -> dict[str, float]:
    """The largest differences of a step over whole episodes with the same actions."""
    worlds = make("stock-trading", markets)
    env: Any = worlds.env
    peer = Trading(markets, known(env), env.window.first, env.window.last, Rules())
    peer.day = worlds.get_state()["day"].astype(np.int64)
    draw, apart = np.random.default_rng(0), {"observation": 0.0, "reward": 0.0}
    for _ in range(peer.rules.episode_length):
        action = draw.uniform(-1, 1, (env.stocks, markets)).astype(np.float32)
        step, other = worlds.step(action), peer.step(action)
        found = {
            "observation": np.abs(np.asarray(step.final_observation) - other.observation).max(),
            "reward": np.abs(np.asarray(step.reward) - other.reward).max(),
        }
        apart = {name: max(largest, float(found[name])) for name, largest in apart.items()}
    gains = worlds.report_sums()["gain_percent"]
    return apart | {"gain_percent": float(np.abs(gains - 100 * (peer.assets() / 1e6 - 1)).max())}


def seconds_per_step(run: Callable[[int], Any], budget: float, repetitions: int = 10) -> float:
    """The best of several measurements that take about `budget` seconds together."""
    run(3)
    start = time.perf_counter()
    run(2)
    once = (time.perf_counter() - start) / 2
    steps = max(1, int(budget / repetitions / max(once, 1e-6)))
    best = float("inf")
    for _ in range(repetitions):
        start = time.perf_counter()
        run(steps)
        best = min(best, (time.perf_counter() - start) / steps)
    return best


def numpy_rate(budget: float) -> dict[str, float]:
    """Market days per second of NumPy, at the number of markets that suits it best."""
    env: Any = make("stock-trading", 1).env
    rates = {}
    for markets in NUMPY_MARKETS:
        peer = Trading(markets, known(env), env.window.first, env.window.last, Rules())

        def run(steps: int, peer: Trading = peer) -> None:
            for _ in range(steps):
                peer.random_step()

        rates[markets] = markets / seconds_per_step(run, budget / len(NUMPY_MARKETS))
    best = max(rates, key=lambda markets: rates[markets])
    return {"markets": best, "rate": rates[best]}


def main(options: Options) -> int:
    if min(options.markets) < 1 or options.budget <= 0 or options.compared < 1:
        raise SystemExit("markets, budget and compared must be positive.")
    cores = os.cpu_count() or 1
    apart = differences(options.compared)
    peer = numpy_rate(options.budget)
    rows = []
    for threads in sorted({1, cores}):
        set_threads(threads)
        for markets in options.markets:
            run = make("stock-trading", markets).rollout_random
            rows.append(
                {"threads": threads, "markets": markets, "rate": markets / seconds_per_step(run, options.budget)}
            )
    reached = any(row["markets"] >= 1000 and row["rate"] >= GOAL for row in rows)
    machine = {"processor": platform.processor() or platform.machine(), "cores": cores, **asdict(choose_target())}
    result = {"machine": machine, "differences": apart, "numpy": peer, "slipstream": rows, "goal_reached": reached}
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "trading.json").write_text(json.dumps(result, indent=1) + "\n")
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        show(result)
    return 0 if reached else 1


def show(result: dict[str, Any]) -> None:
    table = Table("", "threads", "markets", "market days/s", "against NumPy", title="20 stocks, random actions")
    for column in table.columns[1:]:
        column.justify = "right"
    peer = result["numpy"]
    table.add_row("NumPy", "1", f"{peer['markets']:,}", f"{peer['rate']:,.0f}", "1.0")
    for row in result["slipstream"]:
        times = f"{row['rate'] / peer['rate']:.1f}"
        table.add_row("Slipstream", str(row["threads"]), f"{row['markets']:,}", f"{row['rate']:,.0f}", times)
    console = Console()
    console.print(table)
    shown = ", ".join(f"{name} {value:.1e}" for name, value in result["differences"].items())
    console.print(f"Largest differences over whole episodes: {shown}")
    goal = "reached" if result["goal_reached"] else "NOT reached"
    console.print(f"{GOAL:,.0f} market days/s in 1,000 markets or more: {goal}")


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Options)))
