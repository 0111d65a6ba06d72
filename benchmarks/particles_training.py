"""simple-tag and simple-spread with policies that learn: curves over several seeds, and who beats whom.

    .venv/bin/python benchmarks/particles_training.py [--seeds 3] [--steps 2000000] [--runs runs/particles]

In simple-tag the hunters and the hunted learn at the same time, each a policy of its own. In simple-spread all agents
share one. Everything is the preset of `slipstream train`. At the end the trained policies of simple-tag meet untrained
ones. Writes docs/figures/particles_training.json, .png and .svg; runs that are there already are gone on with.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

import slipstream
from slipstream.envs import make
from slipstream.runs.checkpoint import load_checkpoint
from slipstream.runs.directory import RunDirectory
from slipstream.runs.metrics import read_metrics
from slipstream.training.config_json import from_json
from slipstream.training.evaluate import evaluate
from slipstream.training.fused import FusedTrainer
from slipstream.training.play import WorldsArena

ROOT = Path(__file__).resolve().parent.parent
TOUCH = 10.0
"""What a touch is worth in simple-tag."""
EPISODES = 1000


def train(game: str, seed: int, steps: int, folder: Path) -> RunDirectory:
    """A run of the preset, gone on with where it stopped."""
    path = folder / f"{game}-{seed}"
    if (path / "config.json").exists():
        slipstream.train(resume=path, total_steps=steps, quiet=True)
    else:
        slipstream.train(game, run=path, seed=seed, total_steps=steps, quiet=True)
    return RunDirectory.open(path)


def curve(run: RunDirectory, metric: str, scale: float) -> list[tuple[float, float]]:
    rows = read_metrics(run)
    return [(r["step"], r[metric] * scale) for r in rows if r.get(metric) is not None and r[metric] == r[metric]]


def seconds(run: RunDirectory) -> float:
    return read_metrics(run)[-1]["seconds"]


def matches(run: RunDirectory) -> dict[str, dict[str, float]]:
    """Touches per episode of simple-tag, by who has learned."""
    config = from_json(run.config())
    trainer = FusedTrainer(config)
    untrained = trainer.actors
    trainer.restore(load_checkpoint(run, "latest"), str(run.path))
    trained, worlds = trainer.actors, make(config.env, EPISODES, seed=12345)
    start, result = worlds.save(), {}
    for hunter in ("untrained", "trained"):
        for hunted in ("untrained", "trained"):
            by_name = {"untrained": untrained, "trained": trained}
            actors = {"adversary": by_name[hunter]["adversary"], "agent": by_name[hunted]["agent"]}
            worlds.restore(start)
            # Untrained policies act at random only if they explore; so do the others, to be fair.
            score = evaluate(trainer.policies, actors, WorldsArena(worlds), explore=True)
            returns = {name: group.mean for name, group in score.groups.items()}
            result[f"{hunter} hunters, {hunted} hunted"] = {"touches": returns["adversary"] / TOUCH, **returns}
    return result


def plot(curves: Mapping[str, list[list[tuple[float, float]]]], path: Path) -> None:
    """One panel for each curve: a thin line for each seed, and their last values in the title."""
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    panels = figure.subplots(1, len(curves))
    for panel, (name, runs) in zip(panels, curves.items()):
        for seed, points in enumerate(runs):
            panel.plot([s / 1e6 for s, _ in points], [v for _, v in points], lw=1.3, label=f"seed {seed}")
        panel.set(title=name, xlabel="million steps of a world")
        panel.grid(alpha=0.3)
    panels[0].legend(frameon=False)
    for suffix in (".png", ".svg"):
        figure.savefig(path.with_suffix(suffix), dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2_000_000)
    parser.add_argument("--runs", type=Path, default=Path("runs") / "particles")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "figures")
    given = parser.parse_args()
    tag, spread = (
        [train(game, seed, given.steps, given.runs) for seed in range(given.seeds)]
        for game in ("simple-tag", "simple-spread")
    )
    curves = {
        "simple-tag: touches per episode": [curve(run, "return/adversary", 1 / TOUCH) for run in tag],
        "simple-tag: return of the hunted": [curve(run, "return/agent", 1.0) for run in tag],
        "simple-spread: return": [curve(run, "return/agent", 1.0) for run in spread],
    }
    met = [matches(run) for run in tag]
    result: dict[str, Any] = {
        "steps": given.steps,
        "seconds": {"simple-tag": [seconds(run) for run in tag], "simple-spread": [seconds(run) for run in spread]},
        "ends": {name: [(points[0][1], points[-1][1]) for points in runs] for name, runs in curves.items()},
        "matches": met,
        "curves": curves,
    }
    given.output.mkdir(parents=True, exist_ok=True)
    (given.output / "particles_training.json").write_text(json.dumps(result) + "\n")
    plot(curves, given.output / "particles_training")
    for name in met[0]:
        touches = [m[name]["touches"] for m in met]
        spread_of = f" ({', '.join(f'{t:.2f}' for t in touches)})"
        print(f"{name}: {statistics.mean(touches):.2f} touches per episode{spread_of}")
    for name, ends in result["ends"].items():
        print(f"{name}: {', '.join(f'{a:.2f} -> {b:.2f}' for a, b in ends)}")
    print(f"seconds: {result['seconds']}")


if __name__ == "__main__":
    main()
