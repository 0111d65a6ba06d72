"""Two groups learn against each other; then runners play as they were when they began to learn.

Run it as `python examples/two_policies.py`. It leaves two runs in `runs/`.
"""

import argparse

import slipstream
from slipstream.envs.registry import make
from slipstream.runs.directory import RunDirectory
from slipstream.training.evaluate import evaluate
from slipstream.training.loading import load_policies
from slipstream.training.play import WorldsArena


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    options = parser.parse_args()
    world = {"num_taggers": 3, "num_runners": 20, "num_neighbors": 3}
    common = dict(env_options=world, num_worlds=32, quiet=True)
    early = slipstream.train("tag-continuous", run="runs/early", total_steps=options.steps // 2, **common)
    late = slipstream.train("tag-continuous", run="runs/late", total_steps=options.steps, seed=1, **common)
    arena = WorldsArena(make("tag-continuous", 16, seed=7, **world))
    for opponents in ({}, {"runner": f"{early.run}:runner"}):
        policies, actors = load_policies(RunDirectory.open(late.run), "latest", opponents)
        scores = evaluate(policies, actors, arena).groups
        who = "runners of an earlier run" if opponents else "its own runners"
        print(f"late taggers against {who}: {scores['tagger'].mean:.2f}")


if __name__ == "__main__":
    main()
