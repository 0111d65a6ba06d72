"""The asynchronous pipeline beside Stable-Baselines3 and SBX (its port to JAX), in the same run, on all cores.

    .venv/bin/python benchmarks/pipeline.py frames      # update frames/s and samples/s of SAC, equal networks and work
    .venv/bin/python benchmarks/pipeline.py sampling    # samples/s against the number of samplers; what a sampler costs
    .venv/bin/python benchmarks/pipeline.py solve       # from the command to a goal: Pendulum, CartPole, LunarLander
    .venv/bin/python benchmarks/pipeline.py returns     # HalfCheetah, Hopper and Walker2d after 10 minutes, with curves

Each prints a table and writes docs/figures/pipeline_NAME.json (and a figure where there are curves). The peers have a
virtual environment of their own, .venv-peers, which is made on first use: torch 2.13.0 first and alone (its plain CPU
build), then stable-baselines3, sbx-rl and gymnasium with MuJoCo and Box2D. --peers-python takes another one.
Systems take turns, so that a machine that gets warmer or busier is the same for all. Let nothing else run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track
from rich.table import Table

from peer_environment import ROOT, peer_python

SLIPSTREAM = Path(sys.executable).with_name("slipstream")
PEERS = {"stable-baselines3": "sb3", "sbx": "sbx"}
SYSTEMS = ("slipstream", *PEERS)
CHEETAH = "HalfCheetah-v5"
OBSERVED, ACTIONS, HIDDEN = 17, 6, 256
"""Sizes of HalfCheetah and of the networks, by default those of Stable-Baselines3."""

EQUAL_WORK = {
    "hidden": [HIDDEN, HIDDEN],
    "critics": 2,
    "combine": "min",
    "policy_delay": 1,
    "n_step": 1,
    "normalize_observation": False,
    "updates_per_step": 1e6,
}
"""SAC as Stable-Baselines3 has it: twin critics, the policy in every update; as many updates as there is time for."""

ALONE = {"evaluator_share": 0.0, "film_share": 0.0}
"""Nobody evaluates or films where the peers do not."""

GOALS = {
    "Pendulum-v1": ("sac", -200.0, 150.0),
    "CartPole-v1": ("dqn", 475.0, 200.0),
    "LunarLander-v3": ("dqn", 200.0, 100.0),
}
"""The algorithm, the mean return of 20 episodes to reach, and how far below it a peer's evaluations begin."""

TRAIN = """
import json, sys
from slipstream import train
job = json.loads(sys.argv[1])
env, settings, options = job["env"], job["settings"], job["options"]
train(env, settings=settings, quiet=True, **options)
"""

PEAK = """
import time, jax, jax.numpy as jnp
a = jax.random.normal(jax.random.key(0), (2048, 2048))
product = jax.jit(lambda a: a @ a)
jax.block_until_ready(product(a))
best = 0.0
for _ in range(30):
    start = time.perf_counter()
    jax.block_until_ready(product(a))
    best = max(best, 2 * 2048**3 / (time.perf_counter() - start))
print(best)
"""

BARE = """
import sys, time, gymnasium
from slipstream.training.pipeline.simulators import make_environment
# An Atari game is seen as samplers see it: every fourth frame, grey, small, the last four.
env = make_environment("gym:" + sys.argv[1], {}) if sys.argv[1].startswith("ALE/") else gymnasium.make(sys.argv[1])
env.reset(seed=0)
env.action_space.seed(0)
actions = [env.action_space.sample() for _ in range(1000)]
steps, start = 0, time.perf_counter()
while time.perf_counter() - start < float(sys.argv[2]):
    for action in actions:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    steps += len(actions)
print(steps / (time.perf_counter() - start))
"""


# Running things.


def trained(env: str, algo: str, settings: dict[str, Any], seconds: float, **options: Any) -> list[dict[str, Any]]:
    """The rows of metrics of a run in a process of its own, once it learns (or, if it never does, samples)."""
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "run": f"{folder}/run",
            "total_seconds": seconds,
            "report_every": 0.5,
            "save_replay": False,
            **options,
        }
        job = {"env": f"gym:{env}", "settings": settings, "options": {"algo": algo, **options}}
        subprocess.run([sys.executable, "-c", TRAIN, json.dumps(job)], check=True, stdout=subprocess.DEVNULL)
        lines = Path(folder, "run", "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def peer(python: Path, library: str, task: str, *options: str) -> dict[str, Any]:
    script = ROOT / "benchmarks" / "peers" / "sb3_off_policy.py"
    command = [str(python), str(script), task, "--library", library, "--launched", str(time.time()), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def number(script: str, *arguments: str, cores: int | None = None) -> float:
    """What a small script prints, on all cores or on some."""
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, allowed),
    )
    return float(done.stdout)


def settled(rows: list[dict[str, Any]], name: str) -> float:
    """The mean of a metric over the second half of a run: compiling, tuning and warming up are over.

    (Not the median: with large batches there are intervals between reports without an update.)
    """
    return statistics.fmean(row[name] for row in rows[len(rows) // 2 :])


def work_per_frame() -> float:
    """Floating-point operations of a SAC update for each sample, when nothing is saved.

    The policy is evaluated for the next action and for the present one, which is also differentiated (twice a forward
    pass); the critics are evaluated slowly for the next action, evaluated and differentiated for their own error, and
    for the policy's, where only their inputs are differentiated.
    """
    policy = OBSERVED * HIDDEN + HIDDEN * HIDDEN + HIDDEN * 2 * ACTIONS
    critics = 2 * ((OBSERVED + ACTIONS) * HIDDEN + HIDDEN * HIDDEN + HIDDEN)
    return 2.0 * (policy * (1 + 3) + critics * (1 + 3 + 2))


# What is measured.


def frames(arguments: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Update frame rate and samples/s at equal networks and work."""
    python, peak = peers_python(arguments), number(PEAK)
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    names = ("samples_per_second", "updates_per_second", "update_frames_per_second")
    for batch in arguments.batches:
        runs = found[str(batch)] = {name: [] for name in ("slipstream", *PEERS)}
        for _ in track(range(arguments.turns), f"batch {batch:,}", console=console):
            settings = {**EQUAL_WORK, "batch_size": batch}
            rows = trained(CHEETAH, "sac", settings, arguments.seconds + 15.0, samplers=arguments.samplers, **ALONE)
            runs["slipstream"].append({name: settled(rows, f"pipeline/{name}") for name in names})
            for name, library in PEERS.items():
                given = ("--batch", str(batch), "--seconds", str(arguments.seconds))
                runs[name].append(peer(python, library, "frames", *given))
    table = Table("batch", "system", "samples/s", "updates/s", "update frames/s", "share of peak", "ours to theirs")
    for batch, runs in found.items():
        best = {n: {k: max(r[k] for r in rs) for k in names} for n, rs in runs.items()}
        for name, rates in best.items():
            rate = rates["update_frames_per_second"]
            ratios = [best["slipstream"][k] / rates[k] for k in ("update_frames_per_second", "samples_per_second")]
            table.add_row(
                f"{int(batch):,}",
                name,
                *(f"{rates[k]:,.0f}" for k in names),
                f"{rate * work_per_frame() / peak:.0%}",
                f"{ratios[0]:.2f} frames, {ratios[1]:.1f} samples",
            )
    Console().print(table)
    print(
        f"Matrix products reach {peak / 1e9:.0f} GFLOP/s here; an update takes {work_per_frame() / 1e6:.1f} MFLOP per "
        "frame when nothing is saved."
    )
    return {"env": CHEETAH, "peak": peak, "work_per_frame": work_per_frame(), "batches": found}


def sampling(arguments: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Samples/s against the number of samplers, and beside the bare environment."""
    never = {"hidden": [HIDDEN, HIDDEN], "warm_up": 2_000_000, "replay_size": 2_000_000}
    few = {"warm_up": 50_000, "replay_size": 50_000}
    """Of pictures, which take a hundred times the memory."""
    alone = {**ALONE, "tune": False, "envs_per_sampler": arguments.envs}
    found: dict[str, Any] = {}
    for env in arguments.sampled:
        algo, settings = ("dqn", few) if env.startswith("ALE/") else ("sac", never)
        bare, rates = [], {str(n): [] for n in arguments.numbers}
        for _ in track(range(arguments.turns), env, console=console):
            bare.append(number(BARE, env, str(arguments.seconds), cores=1))
            for count in arguments.numbers:
                rows = trained(env, algo, settings, arguments.seconds, samplers=count, **alone)
                rates[str(count)].append(settled(rows, "pipeline/samples_per_second"))
        found[env] = {"bare": bare, "samplers": rates}
    table = Table("environment", "samplers", "samples/s", "beside the bare environment on one core")
    for env, result in found.items():
        bare = max(result["bare"])
        table.add_row(env, "bare", f"{bare:,.0f}", "")
        for count, rates in result["samplers"].items():
            overhead = (
                f"{bare / max(rates) - 1:+.0%} time per step" if count == "1" else f"{max(rates) / bare:.2f} times"
            )
            table.add_row("", count, f"{max(rates):,.0f}", overhead)
    Console().print(table)
    return found


def solve(arguments: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Seconds from the typed command to the goal."""
    python, found = peers_python(arguments), {}
    for env in arguments.tasks:
        algo, goal, margin = GOALS[env]
        systems = ("slipstream, first run", "slipstream", *(name for name in PEERS if name in arguments.systems))
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in systems}
        with tempfile.TemporaryDirectory() as scratch:
            for seed in track(range(arguments.seeds), env, console=console):
                home = Path(scratch) / f"home-{seed}"
                home.mkdir()
                for name in ("slipstream, first run", "slipstream"):
                    runs[name].append(_solved_here(env, algo, goal, seed, home, arguments.limit))
                for name in runs:
                    if name in PEERS:
                        given = ("--algo", algo, "--env", env, "--goal", str(goal), "--margin", str(margin))
                        limits = ("--seed", str(seed), "--seconds", str(arguments.limit), "--evaluate-every", "1")
                        runs[name].append(peer(python, PEERS[name], "solve", *given, *limits))
        found[env] = {"algo": algo, "goal": goal, "runs": runs}
    table = Table("environment", "system", "reached", "seconds from the command", "mean", "samples", "ours to theirs")
    for env, result in found.items():
        mean = {n: statistics.mean(r["total_seconds"] for r in rs) for n, rs in result["runs"].items()}
        for name, runs in result["runs"].items():
            table.add_row(
                f"{env}, {result['algo']}, {result['goal']:g}",
                name,
                f"{sum(r['reached'] for r in runs)} of {len(runs)}",
                ", ".join(f"{r['total_seconds']:.1f}" for r in runs),
                f"{mean[name]:.1f}",
                f"{statistics.mean(r['steps'] for r in runs):,.0f}",
                f"{mean['slipstream'] / mean[name]:.2f}",
            )
    Console().print(table)
    return found


def _solved_here(env: str, algo: str, goal: float, seed: int, home: Path, limit: float) -> dict[str, Any]:
    """One run as a user would start it, timed from outside; its caches are in `home`."""
    surroundings = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    run = home / f"run-{time.time_ns()}"
    command = [str(SLIPSTREAM), "train", f"gym:{env}", "--algo", algo, "--seed", str(seed), "--seconds", str(limit)]
    command += ["--stop-at-return", str(goal), "--run", str(run), "--quiet", "--json"]
    start = time.time()
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True)
    total = time.time() - start
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    result = json.loads(done.stdout)
    score = result["evaluation"]["groups"]["agent"]["mean"] if result["evaluation"] else float("-inf")
    return {
        "reached": score >= goal,
        "score": score,
        "total_seconds": total,
        "training_seconds": result["seconds"],
        "steps": result["step"],
    }


def returns(arguments: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Return after some minutes of training, evaluations of the peers aside, and the curves."""
    python, folder = peers_python(arguments), Path(arguments.runs)
    found: dict[str, Any] = {}
    systems = tuple(arguments.systems)
    for env in arguments.robots:
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in systems}
        for seed in track(range(arguments.seeds), env, console=console):
            for name in systems:
                file = folder / f"{env}-{name}-{seed}.json"
                if not file.exists():  # a run that was done before is not done again
                    if name == "slipstream":
                        result = _returned_here(env, seed, arguments.seconds, folder)
                    else:
                        given = ("--env", env, "--seed", str(seed), "--seconds", str(arguments.seconds))
                        result = peer(python, PEERS[name], "returns", *given, "--evaluate-every", "60")
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(json.dumps(result))
                runs[name].append(json.loads(file.read_text()))
        found[env] = runs
    table = Table("robot", "system", "return, seed by seed", "mean", "samples", "ours to theirs")
    for env, runs in found.items():
        mean = {name: statistics.mean(r["score"] for r in rs) for name, rs in runs.items()}
        for name, rs in runs.items():
            table.add_row(
                env,
                name,
                ", ".join(f"{r['score']:,.0f}" for r in rs),
                f"{mean[name]:,.0f}",
                f"{statistics.mean(r['steps'] for r in rs):,.0f}",
                f"{mean['slipstream'] / mean[name]:.2f}" if "slipstream" in mean else "",
            )
    Console().print(table)
    _draw_returns(found, ROOT / arguments.figures / "pipeline_returns")
    return found


def _returned_here(env: str, seed: int, seconds: float, folder: Path) -> dict[str, Any]:
    run = folder / f"{env}-{seed}"
    command = [str(SLIPSTREAM), "train", f"gym:{env}", "--algo", "sac", "--seed", str(seed), "--quiet"]
    subprocess.run([*command, "--seconds", str(seconds), "--run", str(run)], check=True)
    judged = [str(SLIPSTREAM), "eval", str(run), "--episodes", "20", "--checkpoint", "latest", "--json"]
    result = json.loads(subprocess.run(judged, check=True, stdout=subprocess.PIPE, text=True).stdout)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    curve = [[r["seconds"], r["step"], v] for r in rows for k, v in r.items() if k == "evaluation/agent"]
    return {
        "score": result["groups"]["agent"]["mean"],
        "training_seconds": rows[-1]["seconds"],
        "steps": rows[-1]["step"],
        "curve": curve,
    }


def _draw_returns(found: dict[str, Any], out: Path) -> None:
    figure = Figure(figsize=(4.2 * len(found), 3.4), layout="constrained")
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    colours = dict(zip(SYSTEMS, ("tab:blue", "tab:orange", "tab:green")))
    for panel, (env, runs) in zip(panels, found.items()):
        for name, rs in runs.items():
            for i, r in enumerate(rs):
                if r["curve"]:
                    seconds, _, scores = zip(*r["curve"])
                    panel.plot([s / 60 for s in seconds], scores, color=colours[name], label=None if i else name, lw=1)
        panel.set(title=env, xlabel="minutes of training", ylabel="return")
        panel.legend(frameon=False)
    for suffix in (".png", ".svg"):
        figure.savefig(out.with_suffix(suffix), dpi=150)


# The command line.


def peers_python(arguments: argparse.Namespace) -> Path:
    if arguments.peers_python:
        return Path(arguments.peers_python)
    return peer_python("stable-baselines3", "sbx-rl", "gymnasium[mujoco,box2d]")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--peers-python", help="a Python that has the peers, instead of that of .venv-peers")
    shared.add_argument("--figures", default="docs/figures", help="where the results go")

    def command(name: str, function: Any, help: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, parents=[shared], help=help)
        made.set_defaults(function=function)
        return made

    one = command("frames", frames, "update frame rate and samples/s at equal networks and work")
    one.add_argument("--batches", type=int, nargs="+", default=[256, 8192])
    one.add_argument("--seconds", type=float, default=30.0, help="how long each system is measured")
    one.add_argument("--turns", type=int, default=2, help="how often; the best counts")
    one.add_argument("--samplers", type=int, help="processes that sample for us; by default as tuning finds best")
    two = command("sampling", sampling, "samples/s against the number of samplers")
    two.add_argument("--sampled", nargs="+", default=[CHEETAH, "Pendulum-v1"], help="environments")
    two.add_argument("--numbers", type=int, nargs="+", default=[1, 2, 3, 4], help="of samplers")
    two.add_argument("--envs", type=int, default=16, help="environments of each sampler")
    two.add_argument("--seconds", type=float, default=10.0)
    two.add_argument("--turns", type=int, default=2, help="how often; the best counts")
    three = command("solve", solve, "from the typed command to a goal")
    three.add_argument("--tasks", nargs="+", default=list(GOALS), choices=list(GOALS))
    three.add_argument("--limit", type=float, default=600.0, help="seconds after which a run has failed")
    four = command("returns", returns, "return after 10 minutes")
    four.add_argument("--robots", nargs="+", default=[CHEETAH, "Hopper-v5", "Walker2d-v5"])
    four.add_argument("--seconds", type=float, default=600.0)
    four.add_argument("--runs", default="runs/pipeline-returns", help="where runs go; those that are there are kept")
    for many in (three, four):
        many.add_argument("--seeds", type=int, default=3)
        many.add_argument("--systems", nargs="+", default=SYSTEMS[:2], choices=SYSTEMS, help="which ones run")
    arguments = parser.parse_args()
    result = arguments.function(arguments, Console(stderr=True))
    out = ROOT / arguments.figures / f"pipeline_{arguments.command}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=2) + "\n")
    print(f"Wrote {out}")


if __name__ == "__main__":
    main()
