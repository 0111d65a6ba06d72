"""Tag with two policies: do taggers learn to tag, and runners to get away?

    .venv/bin/python benchmarks/tag_training.py

5 taggers and 100 runners per world. First the taggers learn against frozen random runners; then runners learn against
those taggers, frozen. Each over several seeds. Writes the curves (share of runners left at the end of an episode)
and the split of the time into simulation, inference and update.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

import slipstream
from slipstream import PolicyConfig
from slipstream.algos.settings import PPOConfig
from slipstream.runs.directory import RunDirectory
from slipstream.runs.metrics import read_metrics

ROOT = Path(__file__).resolve().parent.parent
WORLD = {"num_taggers": 5, "num_runners": 100, "num_neighbors": 5}
LEARN = PPOConfig(learning_rate=1e-3, hidden=(64, 64), epochs=2, minibatches=8, entropy_cost=0.003)


def play(folder: Path, seed: int, learner: str, opponent: str, steps: int, load: str | None) -> Path:
    run = folder / f"{learner}-learns-{seed}"
    policies = {
        learner: PolicyConfig((learner,), settings=LEARN),
        opponent: PolicyConfig((opponent,), settings=LEARN, frozen=True, load=load),
    }
    slipstream.train(
        "tag-continuous",
        run=run,
        policies=policies,
        env_options=WORLD,
        num_worlds=64,
        rollout_length=25,
        total_steps=steps,
        seed=seed,
    )
    return run


def curve(run: Path) -> list[tuple[float, float]]:
    rows = read_metrics(RunDirectory.open(run))
    return [(r["step"], r["report/runners_left"]) for r in rows if r.get("report/runners_left") is not None]


def split(run: Path) -> dict[str, float]:
    rows = read_metrics(RunDirectory.open(run))[1:]
    shares = ("time/simulation", "time/inference", "time/update", "steps_per_second")
    return {name: statistics.median(r[name] for r in rows) for name in shares}


def draw(results: dict[str, list[list[tuple[float, float]]]], out: Path) -> None:
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    titles = {"tagger": "taggers learn, runners are random", "runner": "runners learn, taggers are trained"}
    for axis, (learner, curves) in zip(axes, results.items()):
        for seed, points in enumerate(curves):
            axis.plot(*zip(*points), label=f"seed {seed}")
        axis.set(title=titles[learner], xlabel="environment steps", ylim=(0, 1))
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set(ylabel="share of runners left at the end")
    axes[0].legend(frameon=False)
    for suffix in (".png", ".svg"):
        figure.savefig(out.with_suffix(suffix), dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=120_000, help="environment steps of each run")
    parser.add_argument("--folder", default="runs/tag-training", help="where the runs go")
    parser.add_argument("--out", default="docs/figures/tag_training", help="where the figures go, without suffix")
    arguments = parser.parse_args()
    folder, out = Path(arguments.folder), ROOT / arguments.out
    curves: dict[str, list] = {"tagger": [], "runner": []}
    splits: list[dict[str, float]] = []
    for seed in range(arguments.seeds):
        taggers = play(folder, seed, "tagger", "runner", arguments.steps, None)
        runners = play(folder, seed, "runner", "tagger", arguments.steps, f"{taggers}:tagger")
        curves["tagger"].append(curve(taggers))
        curves["runner"].append(curve(runners))
        splits.append(split(runners))
    out.parent.mkdir(parents=True, exist_ok=True)
    draw(curves, out)
    result: dict[str, Any] = {
        "world": WORLD,
        "runners_left": {who: [{"first": c[0][1], "last": c[-1][1]} for c in cs] for who, cs in curves.items()},
        "runner_learns_split": {name: statistics.mean(s[name] for s in splits) for name in splits[0]},
    }
    out.with_suffix(".json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
