"""A tournament beside Ray Tune's population-based training and beside independent runs, with the same compute.

All three train the same agents by the same code, for quanta of the same length, in as many processes of one core each
and for as long. Measured are the wall-clock time from the start of the process until somebody's ranking score reaches
the target, and in the end the score of whoever is best on episodes that nobody was ranked by. An agent is trained
before the first of them, so that none has to compile the kernels that the others then find on disk. When the time is
over, pods of the tournament hand in what they have so far; Tune ends its own, and what they have not reported is lost.
All start from the settings of the world's preset, which population-based training then varies; with --start random, all
from settings drawn out of the ranges within which it does.

    python benchmarks/tournament.py --env cartpole --worlds 16 --target 475 --minutes 0.5 --quantum 3
    python benchmarks/tournament.py --env hopper --target 2000 --minutes 4 --quantum 20

What a quantum costs beside training and judging is given for the tournament twice: what its pods have measured (start,
save, submit), and `between`, all of the time from one submission of a pod to its next, with what passes until the pod
is told whom to train.

Writes docs/figures/tournament-ENV.json and a picture, anew after every run; the same command goes on where it was
interrupted. Run it alone: whatever else runs takes part in the result (the machine's load is noted beside it).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

WAYS = ("tournament", "ray tune pbt", "independent")
WARM_UP = "warm-up"
FIGURES = Path(__file__).parents[1] / "docs" / "figures"


def main() -> None:
    options = parse()
    if options.one:
        print(json.dumps(measure(options)))
        return
    out = options.out or FIGURES / f"tournament-{options.env.replace(':', '-')}"
    content = begun(options, out.with_suffix(".json"))
    results = content["results"]
    warm = False
    for seed in range(options.seeds):
        # In turns, and every round begins with another one: a machine that slows down slows down all.
        for way in (WAYS[(i + seed) % len(WAYS)] for i in range(len(WAYS))):
            if any((r["way"], r["seed"]) == (way, seed) for r in results):
                continue
            if not warm:
                in_a_process(options, WARM_UP, options.seeds)
                warm = True
            result = in_a_process(options, way, seed)
            results.append({"way": way, "seed": seed, **result, "load": os.getloadavg()[1]})
            print(json.dumps(results[-1]), file=sys.stderr, flush=True)
            out.with_suffix(".json").write_text(json.dumps(content, indent=2) + "\n")
            draw(content, out)
    print(table(results))


def begun(options: argparse.Namespace, file: Path) -> dict[str, Any]:
    """What an earlier call with the same settings has measured, or nothing yet."""
    settings = {n: v for n, v in vars(options).items() if n not in ("one", "seed", "seeds", "out")}
    known = {name: version(name) for name in ("ray", "jax", "drjit")}
    new = {"settings": settings, "versions": known, "cores": os.cpu_count(), "results": []}
    old = json.loads(file.read_text()) if file.exists() else new
    return old if all(old[name] == new[name] for name in ("settings", "versions", "cores")) else new


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="cartpole")
    parser.add_argument("--worlds", type=int, help="of a pod; by default as many as the world's preset has")
    parser.add_argument("--target", type=float, default=475.0)
    parser.add_argument("--minutes", type=float, default=1.0, help="of training, for each way and seed")
    parser.add_argument("--quantum", type=float, default=3.0, help="seconds")
    parser.add_argument("--pods", type=int, default=2)
    parser.add_argument("--start", choices=("preset", "random"), default="preset", help="settings of new starts")
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--final-episodes", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", choices=(*WAYS, WARM_UP), help="measure this one, and print it")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def in_a_process(options: argparse.Namespace, way: str, seed: int) -> dict[str, Any]:
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in vars(options).items()
             if name not in ("one", "seed", "out") and value is not None]  # fmt: skip
    command = [sys.executable, __file__, *flags, f"--one={way}", f"--seed={seed}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(options: argparse.Namespace) -> dict[str, Any]:
    began = time.time()
    with tempfile.TemporaryDirectory(prefix="slipstream-benchmark-") as folder:
        run = by_tournament if options.one in ("tournament", WARM_UP) else by_tune
        return run(options, Path(folder), began)


def make_plan(options: argparse.Namespace, folder: Path) -> Any:
    from slipstream.tournament.plan import Plan
    from slipstream.training.choices import default_config

    worlds = {} if options.worlds is None else {"num_worlds": options.worlds}
    train = default_config(options.env, **worlds, seed=options.seed)
    return Plan(
        train,
        pods=options.pods,
        minutes=options.minutes,
        quantum_seconds=options.quantum,
        generator="pbt" if options.start == "random" else f"{Path(__file__).resolve()}:pbt_from_preset",
        episodes=options.episodes,
        final_episodes=options.final_episodes,
        ensemble=2,
        database=f"sqlite:///{folder}/leaderboard.sqlite",
        storage=f"{folder}/agents",
    )


def pbt_from_preset(leaders: Any, situation: Any, rng: Any) -> Any:
    """A generator: population-based training whose new starts have the settings of the tournament."""
    from slipstream.tournament.generator import Proposal, pbt

    proposal = pbt(leaders, situation, rng)
    return proposal if proposal.parent is not None else Proposal(None)


def by_tournament(options: argparse.Namespace, folder: Path, began: float) -> dict[str, Any]:
    from slipstream.tournament.leaderboard import Leaderboard
    from slipstream.tournament.tournament import run_tournament

    plan = make_plan(options, folder)
    if options.one == WARM_UP:
        plan = dataclasses.replace(plan, quantum_seconds=1.0, agents=options.pods, minutes=None)
    outcome = run_tournament(plan, run=folder / "tournament", quiet=True)
    history = Leaderboard(plan.database).history()
    assert outcome.winner is not None
    (score,) = outcome.winner.evaluation.groups.values()
    ensemble = outcome.ensemble and next(iter(outcome.ensemble.evaluation.groups.values())).mean
    return {
        **progress([(e.submitted - began, e.score) for e in history], options.target),
        "final": score.mean,
        "standard_error": score.standard_error,
        "ensemble": ensemble,
        "steps": sum(e.steps for e in history),
        "quanta": len(history),
        "overhead": {**outcome.overhead, "between": between(history)},
    }


def progress(scores: list[tuple[float, float]], target: float) -> dict[str, Any]:
    """When which score was reached for the first time, and when the target was."""
    curve: list[tuple[float, float]] = []
    for at, score in sorted(scores):
        if not curve or score > curve[-1][1]:
            curve.append((at, score))
    return {"seconds_to_target": next((at for at, score in curve if score >= target), None), "curve": curve}


def between(history: list[Any]) -> dict[str, float]:
    """Seconds from a submission to the next one of the same pod that were neither training nor judging."""
    costs, last = [], {}
    for entry in history:
        if entry.pod in last:
            costs.append(entry.submitted - last[entry.pod] - entry.times["train"] - entry.times["evaluate"])
        last[entry.pod] = entry.submitted
    return {"median": statistics.median(costs), "largest": max(costs)} if costs else {}


def by_tune(options: argparse.Namespace, folder: Path, began: float) -> dict[str, Any]:
    """Ray Tune over the same training function; without a scheduler, runs go on independently."""
    from slipstream.tournament.cluster import QUIET

    os.environ.update(QUIET)
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
    import logging

    import numpy as np
    import ray
    from ray import tune
    from ray.tune.schedulers import PopulationBasedTraining

    plan = make_plan(options, folder)
    (pool,) = plan.pools
    situation = plan.situation(pool, 1)
    spaces = {
        name: (tune.loguniform if r.scale == "log" else tune.uniform)(r.low, r.high)
        for name, r in situation.ranges.items()
    }
    population = options.one == "ray tune pbt"
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=1,
        hyperparam_mutations=spaces,
        custom_explore_fn=lambda config: within(config, situation.ranges),
    )
    random.seed(options.seed)  # Tune and its scheduler draw from both
    np.random.seed(options.seed)  # noqa: NPY002 (the one that Tune draws from)
    ray.init("local", num_cpus=options.pods, include_dashboard=False, log_to_driver=False,
             logging_level=logging.ERROR, object_store_memory=100 * 2**20)  # fmt: skip
    plain = {"plan": plan.to_json(), "reports": str(folder / "reports.jsonl")}
    chosen = spaces if options.start == "random" else dict(situation.settings)
    tuner = tune.Tuner(
        tune.with_resources(trainable(), {"cpu": 1}),
        param_space={**plain, **chosen, "number": tune.randint(0, 2**30)},
        tune_config=tune.TuneConfig(
            metric="score",
            mode="max",
            num_samples=options.pods,
            scheduler=scheduler if population else None,
            time_budget_s=60.0 * options.minutes,
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(
            storage_path=str(folder / "tune"),
            verbose=0,
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False, checkpoint_frequency=1, num_to_keep=4),
        ),
    )
    tuner.fit()
    ray.shutdown()
    if not (file := folder / "reports.jsonl").exists():
        sys.exit(f"In {options.minutes:g} minutes no quantum of {options.one} came to its end: give more --minutes.")
    reports = [json.loads(line) for line in file.read_text().splitlines()]
    best = max(reports, key=lambda r: r["score"])
    score = judged(plan, best["folder"])
    return {
        **progress([(r["at"] - began, r["score"]) for r in reports], options.target),
        "final": score.mean,
        "standard_error": score.standard_error,
        "steps": sum(r["steps"] for r in reports),
        "quanta": len(reports),
    }


def within(config: dict[str, Any], ranges: Any) -> dict[str, Any]:
    """Settings that were perturbed, in the ranges that hold for the tournament too."""
    return config | {n: min(max(config[n], r.low), r.high) for n, r in ranges.items() if n in config}


def trainable() -> type:
    """What a pod does, as Tune wants it: the same trainee, quantum and judgement."""
    from ray import tune

    class Agent(tune.Trainable):
        def setup(self, config: dict[str, Any]) -> None:
            os.environ["NPROC"] = "1"
            from slipstream.arrays import set_threads
            from slipstream.tournament.plan import Plan
            from slipstream.tournament.trainee import make_trainee

            set_threads(1)
            self.plan = Plan.of(config["plan"])
            (self.pool,) = self.plan.pools
            self.trainee = make_trainee(self.plan, self.pool, {})
            self.begin(config)

        def begin(self, config: dict[str, Any], learner: Any = None) -> None:
            names = self.plan.situation(self.pool, 1).ranges
            self.settings = {name: config[name] for name in names if name in config}
            self.reports, self.seed = config["reports"], int(config["number"])
            self.trainee.begin(self.seed, self.settings, learner, "a checkpoint")

        def reset_config(self, new_config: dict[str, Any]) -> bool:
            self.begin(new_config)
            return True

        def step(self) -> dict[str, Any]:
            before = self.trainee.step
            self.trainee.iterate()
            began = time.perf_counter()
            while time.perf_counter() - began < self.plan.quantum_seconds:
                self.trainee.iterate()
            score = self.trainee.judge().groups[self.plan.group_of(self.pool)].mean
            folder = Path(self.reports).parent / "best" / f"{time.time_ns()}-{os.getpid()}"
            self.keep(folder)
            row = {"at": time.time(), "score": score, "steps": self.trainee.step - before, "folder": str(folder)}
            with open(self.reports, "a") as file:
                file.write(json.dumps(row) + "\n")
            return {"score": score}

        def keep(self, folder: Path) -> None:
            from slipstream.runs.checkpoint import save_checkpoint
            from slipstream.runs.directory import RunDirectory
            from slipstream.training.config_json import to_json

            config, parts, facts = self.trainee.save()
            run = RunDirectory.create(folder, to_json(config))
            chosen = {name: parts[name] for name in ("actor", "learner")}
            save_checkpoint(run, self.trainee.age, chosen, {**facts, "seconds": 0.0}, keep=1)
            run.release()

        def save_checkpoint(self, checkpoint_dir: str) -> None:
            self.keep(Path(checkpoint_dir) / "agent")

        def load_checkpoint(self, checkpoint_dir: str) -> None:
            from slipstream.runs.checkpoint import load_checkpoint
            from slipstream.runs.directory import RunDirectory

            learner = load_checkpoint(RunDirectory.open(Path(checkpoint_dir) / "agent")).part("learner")
            self.trainee.begin(self.seed, self.settings, learner, checkpoint_dir)

    return Agent


def judged(plan: Any, folder: str) -> Any:
    """On the episodes nobody was ranked by."""
    from slipstream.runs.directory import RunDirectory
    from slipstream.training.evaluate import evaluate, evaluation_worlds
    from slipstream.training.loading import load_policies
    from slipstream.training.play import WorldsArena

    policies, actors = load_policies(RunDirectory.open(folder))
    worlds = evaluation_worlds(plan.train.env, plan.final_episodes, plan.final_seed, **dict(plan.train.env_options))
    (score,) = evaluate(policies, actors, WorldsArena(worlds)).groups.values()
    return score


def table(results: list[dict[str, Any]]) -> str:
    lines = [f"{'':14} {'seconds to target, by seed':>34} {'final score, by seed':>34}"]
    for way in WAYS:
        own = [r for r in results if r["way"] == way]
        times = ", ".join("never" if r["seconds_to_target"] is None else f"{r['seconds_to_target']:.1f}" for r in own)
        finals = ", ".join(f"{r['final']:.1f}" for r in own)
        lines.append(f"{way:14} {times:>34} {finals:>34}")
    return "\n".join(lines)


def draw(content: dict[str, Any], out: Path) -> None:
    """The best ranking score so far over time, when the target was reached, and the score in the end."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from slipstream.runs.curves import COLORS

    settings, results = content["settings"], content["results"]
    figure = Figure(figsize=(13, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    curves, times, finals = figure.subplots(1, 3)
    end = max(r["curve"][-1][0] for r in results)
    curves.axhline(settings["target"], color="gray", linestyle=":", linewidth=1)
    for i, (way, color) in enumerate(zip(WAYS, COLORS)):
        own = [r for r in results if r["way"] == way]
        for r in own:
            at, scores = zip(*r["curve"], (max(end, 60.0 * settings["minutes"]), r["curve"][-1][1]))
            curves.step(at, scores, where="post", color=color, label=way if r is own[0] else None)
        known = [r["seconds_to_target"] for r in own if r["seconds_to_target"] is not None]
        times.plot(known, [i] * len(known), "o", color=color, markersize=8)
        missed = len(own) - len(known)
        if missed:
            times.annotate(f"{missed} never", (60.0 * settings["minutes"], i), ha="right", va="bottom", color=color)
        finals.errorbar([r["final"] for r in own], [i] * len(own), xerr=[r["standard_error"] for r in own], fmt="o",
                        color=color, markersize=8, capsize=3)  # fmt: skip
    curves.set(xlabel="seconds", ylabel="best ranking score so far", xlim=(0, None))
    curves.legend(frameon=False)
    times.set(xlabel=f"seconds until a score of {settings['target']:g}", xlim=(0, None))
    finals.set(xlabel="score on new episodes in the end")
    for axis in (times, finals):
        axis.set_yticks(range(len(WAYS)), WAYS)
        axis.set_ylim(len(WAYS) - 0.5, -0.5)
    for axis in (curves, times, finals):
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        f"{settings['env']}, {settings['pods']} pods of one core, {settings['minutes']:g} minutes, "
        f"quanta of {settings['quantum']:g} s, one for each seed"
    )
    for suffix in (".png", ".svg"):
        figure.savefig(out.with_suffix(suffix), dpi=150)


if __name__ == "__main__":
    main()
